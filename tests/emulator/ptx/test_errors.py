"""What broken PTX says about itself."""

import pickle
import random
from contextlib import suppress

import pytest

from schedgen.emulator.ptx.errors import PtxError
from schedgen.emulator.ptx.parse import parse
from schedgen.errors import Diagnostic, SchedgenError

HEADER = ".version 8.8\n.target sm_100a\n.address_size 64\n"
FIRST = 9
"""Line of the text given to `body`."""


def body(text: str) -> str:
    return (
        f"{HEADER}.visible .entry k()\n.reqntid 128, 1, 1\n{{\n"
        f".reg .b32 %r<4>;\n.reg .pred %p<2>;\n{text}\nret;\n}}\n"
    )


def diagnostics(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(PtxError) as caught:
        parse(text, "f.ptx")
    return caught.value.diagnostics


def only(text: str) -> tuple[str, int, str, str | None]:
    """Rule, line, underlined text and fix of the only diagnostic."""
    (found,) = diagnostics(text)
    assert found.file == "f.ptx"
    at = found.location
    assert at is not None
    assert found.source_line is not None
    assert found.source_line == text.splitlines()[at.line - 1]
    underlined = found.source_line[at.column - 1 : at.column - 1 + at.length]
    return found.rule, at.line, underlined, found.fix


def test_the_error_shows_file_line_text_and_fix() -> None:
    with pytest.raises(SchedgenError) as caught:
        parse(body("add.s32 %r1, %rr1, 1;"), "f.ptx")
    assert str(caught.value).splitlines() == [
        "f.ptx:9:14: error[ptx-register]: the register '%rr1' is not declared",
        "  9 | add.s32 %r1, %rr1, 1;",
        "    |              ^^^^",
        "  fix: declare it with .reg, or widen the range that should have it",
    ]
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("cut", "rule", "line"),
    [
        (".reqntid", "ptx-truncated", FIRST - 5),
        (".reg .pred", "ptx-truncated", FIRST - 2),
        ("{%r1", "ptx-truncated", FIRST),
        ("ret", "ptx-truncated", FIRST + 1),
    ],
)
def test_truncated(cut: str, rule: str, line: int) -> None:
    text = body("mov.b64 {%r1, %r2}, {%r1, %r1};\n@%p1 ret;")
    found = only(text[: text.index(cut)])
    assert found[:2] == (rule, line)


def test_truncated_says_what_is_open() -> None:
    (found,) = diagnostics(body("{ ret;"))
    assert "the '{' of line 6" in found.message


@pytest.mark.parametrize(
    ("text", "rule", "line", "underlined"),
    [
        (HEADER + ".texref t;", "ptx-directive", 4, ".texref"),
        (body(".foo 3;"), "ptx-directive", FIRST, ".foo"),
        (HEADER + ".entry k() .reqtid 3 { ret; }", "ptx-directive", 4, ".reqtid"),
        (body("} }"), "ptx-syntax", FIRST, "}"),
        (HEADER + "}", "ptx-syntax", 4, "}"),
        (HEADER + ".entry a() { ret;\n.visible .entry b() { ret; }", "ptx-syntax", 5, ".visible"),
        (body("add.s32 %r1, %r1, 1 // one\n\nret;"), "ptx-syntax", FIRST, "add.s32 %r1, %r1, 1"),
        (body("add.s32 %r1 %r1, 1;"), "ptx-syntax", FIRST, "%r1"),
        (body("mov.b64 %r1, {%r1, %r2;"), "ptx-syntax", FIRST, ";"),
        (body("mov.b32 %r1, 4*2;"), "ptx-syntax", FIRST, "*"),
        (body("mov.b32 %r1, “x”;"), "ptx-syntax", FIRST, "“"),
        (body(".reg .v3 .b32 %v;"), "ptx-syntax", FIRST, ".v3"),
        (body("mov.b32 %r1, 089;"), "ptx-number", FIRST, "089"),
        (body("mov.b32 %r1, 0f3F8;"), "ptx-number", FIRST, "0f3F8"),
        (body(".reg .b32 %x<99999999999>;"), "ptx-number", FIRST, "%x"),
        (HEADER + "/* no end", "ptx-truncated", 4, "/"),
        (HEADER + ".section .debug_str { .b8 1", "ptx-truncated", 4, None),
        ("\x7fELF\x02", "ptx-syntax", 1, "\x7f"),
    ],
)
def test_syntax(text: str, rule: str, line: int, underlined: str | None) -> None:
    found = only(text)
    assert found[:2] == (rule, line)
    if underlined is not None:
        assert found[2] == underlined


@pytest.mark.parametrize(
    ("statement", "rule", "underlined", "fix"),
    [
        ("add.s32 %r1, %r9, 1; mov.b32 %r9, %r1;", "ptx-register", "%r9", "declare it"),
        ("mov.b32 %r1, %tid.w0;", "ptx-register", "%tid.w0", "did you mean '%tid"),
        ("mov.b32 %r1, bar;", "ptx-name", "bar", None),
        ("mov.b32 %r1, %r2+4;", "ptx-operand", "%r2", "add it"),
        ("ld.shared.b32 %r1, [%r8+4];", "ptx-register", "%r8", "declare it"),
        ("op [%r1, {%r2, %r7}];", "ptx-register", "%r7", "declare it"),
        ("setp.eq.b32 %p1|%p5, %r1, 0;", "ptx-register", "%p5", "declare it"),
        ("setp.eq.and.b32 %p1, %r1, 0, !%p6;", "ptx-register", "%p6", "declare it"),
        ("@%p7 ret;", "ptx-register", "%p7", "declare it"),
        ("@%r1 ret;", "ptx-guard", "%r1", "declare it as .pred"),
        ("$L__1: bra $L__2;", "ptx-label", "$L__2", "did you mean '$L__1'?"),
        ("bra %r1;", "ptx-label", "%r1", None),
        ("brx.idx %r1, ts;", "ptx-label", "ts", None),
        ("A: ts: .branchtargets A, M; brx.idx %r1, ts;", "ptx-label", "ts", None),
        ("{ L: } bra L;", "ptx-label", "L", "declared in other braces"),
        ("{ .reg .b32 t; } mov.b32 t, 1;", "ptx-name", "t", "declared in other braces"),
        ("LAB: ret; LAB: ret;", "ptx-duplicate", "LAB", "rename"),
        (".reg .b64 %r2;", "ptx-duplicate", "%r2", "rename"),
        (".shared .b8 s[4]; .shared .b8 s[8];", "ptx-duplicate", "s", "rename"),
        (".loc 3 1 1\nret;", "ptx-file", "3", None),
        ("{" * 200 + "}" * 200, "ptx-nesting", "{", None),
    ],
)
def test_names(statement: str, rule: str, underlined: str, fix: str | None) -> None:
    found = only(body(statement))
    assert found[:3] == (rule, FIRST, underlined)
    if fix is not None:
        assert found[3] is not None
        assert fix in found[3]


def test_all_wrong_names_are_listed_in_order() -> None:
    found = diagnostics(body("bra L;\nmov.b32 %r7, %r8;"))
    assert [one.message for one in found] == [
        "bra goes to 'L', which is not a label",
        "the register '%r7' is not declared",
        "the register '%r8' is not declared",
    ]


def test_kernels_are_named_once() -> None:
    assert only(HEADER + ".entry k() { ret; }\n.entry k() { ret; }")[:3] == (
        "ptx-duplicate",
        5,
        "k",
    )


def test_broken_functions_are_found_too() -> None:
    text = HEADER + ".func (.param .b32 r) f(.param .b32 x)\n{ ld.param.b32 %r1, [y]; }"
    assert [one.rule for one in diagnostics(text)] == ["ptx-register", "ptx-name"]


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        (".u64 p = generic(x)", "initializer of 'p': the address of 'x' is not known"),
        (".b8 p[2] = {1, 2, 3}", "3 values for 2 elements"),
        (".b8 p[2] = 1", "needs a list in braces"),
        (".b32 p = {1}", "a list stands where a number should"),
        (".f16 p = 1.0", "the floating-point number 1.0 for the type .f16"),
        (".f32 p = 1e300", "too large"),
    ],
)
def test_initializers(declaration: str, message: str) -> None:
    (found,) = diagnostics(f"{HEADER}.global {declaration};")
    assert found.rule == "ptx-initializer"
    assert message in found.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no .version and no .target and no .address_size"),
        (".version 8.8\n.target sm_90a\n", "no .address_size"),
        (HEADER.replace("64", "32"), "addresses of 32 bits"),
        (HEADER + ".version 8.8\n", "a second .version"),
    ],
)
def test_header(text: str, message: str) -> None:
    (found,) = diagnostics(text)
    assert found.rule == "ptx-header"
    assert message in found.message


def test_nothing_but_a_ptx_error_comes_out_of_garbage() -> None:
    source = body(
        '.file 1 "f"\n.loc 1 2 3\n@!%p1 bra $L;\n{ .reg .b64 x; mov.b64 x, {%r1, 0x1F}; }\n$L:\n'
        "ld.shared.v2.f32 {%r1, _}, [%r2+16];\n.shared .b8 s[2][3]; elect.sync %r1|%p1, -1;"
    ).replace(HEADER, HEADER + ".const .f32 c[] = {1.0, 0f3F800000};\n")
    generator = random.Random(0)
    words = [
        "{",
        "}",
        "(",
        ";",
        ",",
        "[",
        ".reg",
        ".loc 1",
        "0x",
        "-",
        "%r1",
        '"',
        "/*",
        "L:",
        "1.0",
    ]
    for _ in range(300):
        text = source
        for _ in range(generator.randint(1, 3)):
            at = generator.randrange(len(text))
            text = text[:at] + generator.choice(words) + text[at + generator.randint(0, 6) :]
        with suppress(PtxError):
            parse(text)


@pytest.mark.parametrize("declared", [".v4 .b64 %v", ".v4 .pred %v", ".v8 .b32 %v"])
def test_vectors_of_registers_that_do_not_exist(declared: str) -> None:
    rule, line, underlined, fix = only(body(f".reg {declared};"))
    assert (rule, line, underlined) == ("ptx-vector", FIRST, declared[:3])
    assert fix == "vectors have 2 or 4 elements and up to 128 bits; declare scalars"


def test_a_vector_of_registers_is_declared_once_and_has_its_elements() -> None:
    assert only(body(".reg .v2 .b32 %v; .reg .b32 %v;"))[:3] == ("ptx-duplicate", FIRST, "%v")
    assert only(body(".reg .v2 .b32 %v; mov.b32 %r1, %v.z;"))[:3] == (
        "ptx-register", FIRST, "%v.z",
    )  # fmt: skip

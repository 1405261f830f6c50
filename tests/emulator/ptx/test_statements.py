"""Instructions, operands, labels and scopes."""

import math
import struct

import pytest

from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import (
    Address,
    Guard,
    Immediate,
    Instruction,
    Kernel,
    Location,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)

R1, R2, RD1, P1 = Register("%r1"), Register("%r2"), Register("%rd1"), Register("%p1")


def kernel(body: str, before: str = "") -> Kernel:
    return parse(
        f""".version 8.8
        .target sm_100a
        .address_size 64
        {before}
        .shared .b64 bar[4];
        .visible .entry k(.param .u64 a)
        {{
            .reg .b32 %r<4>;
            .reg .b64 %rd<2>;
            .reg .pred %p<2>;
            {body}
        }}"""
    ).kernels["k"]


def instruction(text: str) -> Instruction:
    (only,) = kernel(text).body
    return only


def operand(text: str) -> Operand:
    """The second operand of an instruction, as it stands in the text."""
    return instruction(f"op.b32 %r1, {text};").operands[1]


def test_registers_with_ranges() -> None:
    registers = kernel(".reg .f32 one, %f<2>; ret;").registers
    assert list(registers.items())[:4] == [(f"%r{i}", "b32") for i in range(4)]
    assert registers["%p1"] == "pred"
    assert (registers["one"], registers["%f0"], registers["%f1"]) == ("f32", "f32", "f32")
    assert "%r4" not in registers


def test_opcode_and_modifiers() -> None:
    wait = instruction("mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;")
    assert wait.opcode == "mbarrier"
    assert wait.modifiers == ("try_wait", "parity", "shared::cta", "b64")
    assert wait.name == "mbarrier.try_wait.parity.shared::cta.b64"
    assert wait.operands == (P1, Address(R1), R2)
    assert wait.guard is None


def test_instructions_without_operands_and_with_guards() -> None:
    body = kernel("ret; @%p1 ret; @!%p1 trap; @ %p1 mov.b32 %r1, %r2; @! %p0 bar.sync 0;").body
    assert [(i.opcode, i.guard) for i in body] == [
        ("ret", None),
        ("ret", Guard("%p1")),
        ("trap", Guard("%p1", negated=True)),
        ("mov", Guard("%p1")),
        ("bar", Guard("%p0", negated=True)),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("42", 42),
        ("-1", -1),
        ("- 7", -7),
        ("0x9991U", 0x9991),
        ("0XfF", 255),
        ("-0x10", -16),
        ("052", 42),
        ("0b101U", 5),
        ("4611756662049540096", 4611756662049540096),
        ("0f3F800000", 1.0),
        ("0FFF800000", -math.inf),
        ("0d3FF8000000000000", 1.5),
        ("1.5", 1.5),
        ("2.", 2.0),
        ("-2.5e-3", -0.0025),
        ("1e3", 1000.0),
        ("WARP_SZ", 32),
    ],
)
def test_literals(text: str, value: float) -> None:
    found = operand(text)
    assert found == Immediate(value)
    assert isinstance(found, Immediate)
    assert type(found.value) is type(value)


def test_a_nan_keeps_its_payload() -> None:
    found = operand("0f7FFFFFFF")
    assert isinstance(found, Immediate)
    assert struct.pack(">f", found.value).hex() == "7fffffff"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%r2", R2),
        ("%tid.x", Register("%tid.x")),
        ("%clock64", Register("%clock64")),
        ("_", Register("_")),
        ("bar", Symbol("bar")),
        ("bar+8", Symbol("bar", 8)),
        ("a", Symbol("a")),
        ("!%p1", Negated(P1)),
        ("%r2|%p1", Pair(R2, P1)),
        ("_|%p1", Pair(Register("_"), P1)),
        ("{%r1, _, 3}", Vector((R1, Register("_"), Immediate(3)))),
        ("{%r1}", Vector((R1,))),
        ("[%rd1]", Address(RD1)),
        ("[%rd1+8]", Address(RD1, 8)),
        ("[%rd1 + 0x10]", Address(RD1, 16)),
        ("[%rd1-4]", Address(RD1, -4)),
        ("[%rd1+-4]", Address(RD1, -4)),
        ("[a+16]", Address(Symbol("a"), 16)),
        ("[bar]", Address(Symbol("bar"))),
        ("[64]", Address(None, 64)),
        ("[%rd1, {%r1, 0}]", Address(RD1, 0, (R1, Immediate(0)))),
        ("[%rd1+128, {%r1}]", Address(RD1, 128, (R1,))),
        ("(%r1, %r2)", Vector((R1, R2))),
        ("()", Vector(())),
    ],
)
def test_operands(text: str, expected: Operand) -> None:
    assert operand(text) == expected


def test_tensor_copy() -> None:
    copy = instruction(
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%r1], [%rd1, {%r1, %r2, 0}], [%r2], {%r1}, %rd0;"
    )
    assert copy.modifiers[-2:] == ("mbarrier::complete_tx::bytes", "L2::cache_hint")
    assert copy.operands == (
        Address(R1),
        Address(RD1, 0, (R1, R2, Immediate(0))),
        Address(R2),
        Vector((R1,)),
        Register("%rd0"),
    )


def test_an_instruction_over_several_lines_has_the_line_of_its_name() -> None:
    body = kernel("ret;\nadd.s32\n  %r1,\n  %r1, // one\n  1\n;").body
    assert body[1].line == body[0].line + 1


def test_labels_map_to_what_follows() -> None:
    found = kernel("$L__BB0_1: ret; A: B : ret; bra A; end:")
    assert found.labels == {"$L__BB0_1": 0, "A": 1, "B": 1, "end": 3}


def test_braces_make_registers_and_labels_of_their_own() -> None:
    wait = """
        // begin inline asm
        {
        .reg .pred       P1;
        LAB_WAIT:
        mbarrier.try_wait.parity.shared.b64 P1, [%r1], %r2;
        @P1 bra.uni DONE;
        bra.uni     LAB_WAIT;
        DONE:
        }
        // end inline asm
        """
    found = kernel(f".reg .pred P1; {wait} @P1 ret; {wait} DONE: bra DONE;")
    assert found.labels == {"LAB_WAIT#1": 0, "DONE#1": 3, "LAB_WAIT#2": 4, "DONE#2": 7, "DONE": 7}
    assert found.registers["P1#1"] == found.registers["P1#2"] == found.registers["P1"] == "pred"
    assert found.body[0].operands[0] == Register("P1#1")
    assert found.body[1].guard == Guard("P1#1")
    assert found.body[1].operands == (Symbol("DONE#1"),)
    assert found.body[3].guard == Guard("P1")
    assert found.body[5].operands == (Symbol("DONE#2"),)
    assert found.body[7].operands == (Symbol("DONE"),)


def test_inner_braces_see_outer_names() -> None:
    found = kernel("out: { .reg .b32 t; { mov.b32 t, %r1; bra out; } }")
    assert found.body[0].operands == (Register("t#1"), R1)
    assert found.body[1].operands == (Symbol("out"),)


def test_call_with_parameters_in_braces() -> None:
    call = """{ // callseq 0, 0
        .param .b64 param0;
        .param .b32 retval0;
        st.param.b64 [param0], %rd1;
        call.uni (retval0), vprintf, (param0, param0);
        }"""
    prototype = ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 v);"
    found = kernel(call + call, prototype)
    assert [v.name for v in found.variables] == ["param0#1", "retval0#1", "param0#2", "retval0#2"]
    assert found.body[3].operands == (
        Vector((Symbol("retval0#2"),)),
        Symbol("vprintf"),
        Vector((Symbol("param0#2"), Symbol("param0#2"))),
    )


def test_branch_tables() -> None:
    found = kernel(
        """N0: N1: N2: ts: .branchtargets N<2>, N2;
        @%p1 brx.idx %r1, ts;
        { us: .branchtargets M; M: brx.idx %r1, us; }"""
    )
    assert found.tables == {"ts": ("N0", "N1", "N2"), "us#1": ("M#1",)}
    assert found.body[0].operands == (R1, Symbol("ts"))


def test_local_variables() -> None:
    (depot,) = kernel(".local .align 16 .b8 __local_depot0[48]; ret;").variables
    assert (depot.space, depot.size, depot.align) == ("local", 48, 16)


def test_source_lines() -> None:
    body = kernel(
        """ret;
        .loc 1 10 3
        ret; ret;
        .loc 2 20 0, function_name $L__info_string0, inlined_at 1 10 3
        ret;
        .loc 1 11 3, function_name .debug_str+16, inlined_at 1 10 3
        { ret; }""",
        '.file 1 "a.py"\n.file 2 "b.py"',
    ).body
    a, b = Location("a.py", 10), Location("b.py", 20)
    assert [i.location for i in body] == [None, a, a, b, Location("a.py", 11)]


def test_lines_that_inline_assembly_counts_on() -> None:
    body = kernel(
        """.loc 1 10 3
        // begin inline asm
        .loc 1 10 3
        ret;
        .loc 1 11 3
        ret;
        // end inline asm
        .loc 1 12 3
        ret;""",
        '.file 1 "a.py"',
    ).body
    assert [i.location for i in body] == [Location("a.py", line) for line in (10, 10, 12)]


def test_calls_that_were_inlined() -> None:
    (instruction,) = kernel(
        """.loc 1 10 3
        .loc 2 20 0, function_name $L__info_string0, inlined_at 1 10 3
        .loc 2 30 4, function_name $L__info_string1, inlined_at 2 20 0
        ret;""",
        '.file 1 "a.py"\n.file 2 "b.py"',
    ).body
    found, at = [], instruction.location
    while at is not None:
        found.append((at.file, at.line, at.column))
        at = at.caller
    assert found == [("b.py", 30, 4), ("b.py", 20, 0), ("a.py", 10, 3)]


def test_lines_within_inline_assembly_are_no_lines_of_the_source() -> None:
    body = kernel(
        """.loc 1 10 3
        {
        .loc 1 12 3
        .reg .pred P1;
        .loc 1 13 3
        ret;
        }
        ret;""",
        '.file 1 "a.py"',
    ).body
    assert [one.location for one in body] == [Location("a.py", 10)] * 2


def test_files_may_be_named_after_their_use() -> None:
    text = """.version 8.8\n.target sm_90a\n.address_size 64
        .entry k() { .loc 7 1 1\nret; }
        .file 7 "late.py" """
    assert parse(text).kernels["k"].body[0].location == Location("late.py", 1)


def test_a_vector_of_registers_is_its_elements() -> None:
    found = kernel(
        """.reg .v4 .b32 %v; .reg .v2 .f32 %w<2>;
        add.s32 %v.x, %v.w, %r1; add.s32 %v.r, %v.a, %r1;
        { .reg .v2 .b32 %v; st.shared.v2.b32 [bar], %v; mov.b32 %v.y, 1; }
        ld.shared.v4.b32 %v, [bar]; mov.v4.u32 %v, %ctaid;"""
    )
    elements = {f"%v.{part}": "b32" for part in "xyzw"}
    assert {name: type_ for name, type_ in found.registers.items() if "." in name} == {
        **elements, **{f"%w{n}.{part}": "f32" for n in (0, 1) for part in "xy"},
        "%v.x#1": "b32", "%v.y#1": "b32",
    }  # fmt: skip
    whole = Vector(tuple(map(Register, elements)))
    first, same, inner, one, load, move = found.body
    assert first.operands == same.operands == (Register("%v.x"), Register("%v.w"), R1)
    assert inner.operands[1] == Vector((Register("%v.x#1"), Register("%v.y#1")))
    assert one.operands[0] == Register("%v.y#1")
    assert load.operands[0] == move.operands[0] == whole
    assert move.operands[1] == Vector(tuple(Register(f"%ctaid.{part}") for part in "xyzw"))

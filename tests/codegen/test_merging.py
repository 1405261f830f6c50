"""Roles that do the same become one function, and the compiler makes the same of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from schedgen.codegen import merging, roles
from schedgen.codegen.compiling import compile_file
from schedgen.codegen.emit import emit
from schedgen.codegen.facts import file_name
from schedgen.codegen.ir import Name, code
from schedgen.codegen.merging import Body, Call, merged
from schedgen.codegen.printing import lines_of
from schedgen.codegen.source import Source
from schedgen.codegen.terms import Term, terms_of
from tests.codegen.examples import ARCHITECTURES, GEMM, solved


def body(role: str, lines: Sequence[str], *parameters: str, warps: int = 4) -> Body:
    """Comments begin with ``#``; ``parameters`` are names and types."""
    arguments = dict(each.split(": ") for each in parameters)
    source = Source()
    for line in lines:
        if line.startswith("# "):
            source.comment(line[2:])
        else:
            source.add(line)
    return Body(role, warps, (f"QK[{role[-1]}]",), arguments, terms_of(source.nodes))


def both(*bodies: Body) -> tuple[list[str], dict[str, Call]]:
    """The lines of all functions, and the calls."""
    functions, calls = merged(bodies, lambda name, _: name)
    return lines_of(functions), calls


def parameters(lines: Sequence[str]) -> list[str]:
    """The parameters of the first function."""
    return lines[2].strip().split(", ")


def softmax(number: int, *more: str, kind: str = "cute.Tensor") -> Body:
    n = number
    lines = [
        f"# QK[{n}] uses sQ[{n}]",
        f"wait(bar_sQ_{n}_full, kv)",
        f"r_S_{n} = make({16 + 8 * n})",
        f"MASK(r_S_{n}, sQ_{n}[0], 128 * at + {64 * n})",
        *more,
    ]
    given = (f"bar_sQ_{n}_full: cute.Pointer", "kv: cute.Tensor", f"sQ_{n}: {kind}")
    return body(f"softmax{n}", lines, *given)


def test_equal_roles() -> None:
    found, calls = both(softmax(0), softmax(1))
    assert found[:2] == ["@cute.jit", "def softmax("]
    assert parameters(found) == [
        "bar_sQ_full: cute.Pointer",
        "kv: cute.Tensor",
        "sQ: cute.Tensor",
        "instance: cutlass.Constexpr",
    ]
    assert found[4:] == [
        '    """4 warps each of softmax0 and softmax1: QK."""',
        "    # QK uses sQ",
        "    wait(bar_sQ_full, kv)",
        "    r_S = make(8 * instance + 16)",
        "    MASK(r_S, sQ[0], 128 * at + (64 * instance))",
    ]
    assert calls == {
        "softmax0": Call("softmax", ("bar_sQ_0_full", "kv", "sQ_0", "0"), numbered=True),
        "softmax1": Call("softmax", ("bar_sQ_1_full", "kv", "sQ_1", "1"), numbered=True),
    }


def test_three_roles() -> None:
    """Integers have to grow by the same from role to role."""
    _, calls = both(*(softmax(n) for n in range(3)))
    assert {call.function for call in calls.values()} == {"softmax"}
    assert calls["softmax2"].arguments[-1] == "2"
    third = softmax(3)
    _, calls = both(softmax(0), softmax(1), third)
    assert calls["softmax3"].function == "softmax3"


def test_no_instance_without_a_difference() -> None:
    bodies = (body(f"load{n}", [f"f(sA_{n}, 8)"], f"sA_{n}: cute.Tensor") for n in range(2))
    _, calls = both(*bodies)
    assert [call.arguments for call in calls.values()] == [("sA_0",), ("sA_1",)]


@pytest.mark.parametrize(
    "other",
    [
        softmax(1, "f()"),  # more statements
        body("softmax1", ["MASK(r)"]),
        softmax(1, kind="cute.Pointer"),  # another type
    ],
)
def test_different_roles(other: Body) -> None:
    _, calls = both(softmax(0), other)
    assert [call.function for call in calls.values()] == ["softmax0", "softmax1"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["x = f()", "y = f()", "g(x, y)"], ["x = f()", "y = f()", "g(x, x)"]),
        (["x = f()", "g(x)"], ["x = f()", "g(k)"]),  # its own, and one from outside
        (["x = f()", "h(x)"], ["x = f()", "i(x)"]),  # another function
    ],
)
def test_variables_that_do_not_correspond(one: list[str], other: list[str]) -> None:
    _, calls = both(body("a0", one, "k: Int32"), body("a1", other, "k: Int32"))
    assert {call.function for call in calls.values()} == {"a0", "a1"}


def test_other_warps() -> None:
    _, calls = both(body("a0", ["f(1)"]), body("a1", ["f(1)"], warps=1))
    assert {call.function for call in calls.values()} == {"a0", "a1"}


def test_names_do_not_collide() -> None:
    """What two have in common may be what something else is called, or mean something."""
    bodies = [
        body(
            f"load{n}",
            ["sQ = 1", f"f(sQ, sQ_{n}, tile_{n})", f"pin_{n} = 2", f"g(pin_{n}, instance, {n})"],
            f"sQ_{n}: cute.Tensor",
            f"tile_{n}: Int32",
            "instance: Int32",
        )
        for n in range(2)
    ]
    found, _ = both(*bodies)
    assert "    f(sQ, sQ_2, tile)" in found
    assert "    pin_2 = 2" in found
    assert "    g(pin_2, instance, instance_2)" in found


def test_arguments_that_one_of_them_has_twice() -> None:
    """A parameter for each pair of arguments."""
    one = body("a0", ["f(x, y)"], "x: Int32", "y: Int32")
    other = body("a1", ["f(x, x)"], "x: Int32")
    _, calls = both(one, other)
    assert calls == {"a0": Call("a", ("x", "y")), "a1": Call("a", ("x", "x"))}


def test_values_are_names() -> None:
    """Variables that nodes have as values are like those of plain text."""
    source = Source()
    source.add(code("f({})", Name("sQ_0")))
    one = Body("a0", 1, ("A",), {"sQ_0": "cute.Tensor"}, terms_of(source.nodes))
    other = body("a1", ["f(sQ_1)"], "sQ_1: cute.Tensor", warps=1)
    assert {call.function for call in both(one, other)[1].values()} == {"a"}


# -- whole kernels ---------------------------------------------------------------------------------

WHOLE: list[tuple[str, str, dict[str, str], str]] = [
    ("attention_fwd", "h200", {"head_dim": "64"}, "def softmax("),
    ("gemm_chain", "h200", {}, "def epilogue("),
    ("gemm", "b200", GEMM | {"tile_n": "128"}, "for i in cutlass.range_constexpr("),
]


def _same(terms: tuple[Term, ...], _: object) -> tuple[Term, ...]:
    return terms


def _apart(bodies: Sequence[Body]) -> list[list[Body]]:
    return [[each] for each in bodies]


def texts(
    spec: str, target: str, settings: dict[str, str], patch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """The file of a spec, and how it would be with a function for each role and no loops."""
    proven, kernel = solved(spec, target, **settings)
    text = emit(proven, kernel)
    with patch.context() as context:
        context.setattr(roles, "rolled", _same)
        context.setattr(merging, "_groups", _apart)
        return text, emit(proven, kernel)


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "target", "settings", "line"), WHOLE)
def test_whole_files(
    spec: str, target: str, settings: dict[str, str], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, long = texts(spec, target, settings, monkeypatch)
    assert line in text
    assert line not in long.split("def kernel(")[0].split("@cute.jit\ndef load")[1]
    assert len(text.splitlines()) < 0.9 * len(long.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "target", "settings", "line"), WHOLE)
def test_the_ptx_is_the_same(
    spec: str,
    target: str,
    settings: dict[str, str],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del line
    found = list[str]()
    for folder, text in zip("ab", texts(spec, target, settings, monkeypatch), strict=True):
        path = tmp_path / folder / file_name(spec, ARCHITECTURES[target], settings)
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
        ptx = compile_file(path, path.parent, sms=132).ptx.read_text("utf-8")
        found.append(re.sub(r"schedgen_[0-9a-f]+", "", ptx))
    assert found[0] == found[1]

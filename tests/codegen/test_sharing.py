"""Equal roles of neighbouring warpgroups execute the same instructions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from schedgen.codegen.emit import emit
from schedgen.codegen.facts import read_facts
from schedgen.codegen.ir import Function, Line, code
from schedgen.codegen.merging import CONSTANT, Call
from schedgen.codegen.numbers import Affine, Number
from schedgen.codegen.plan import View
from schedgen.codegen.printing import expression
from schedgen.codegen.sharing import as_variable, shared
from schedgen.codegen.style import Style
from tests.codegen.examples import solved

SHARED = Style(shared=True)
TILE = View("sQ_0", 1024, 64, 64, 1, 8192, "bf16")
MADE = {
    **{"bar_0": 3, "bar_1": 5, "bar_2": 7, "other": 8},
    **{"sQ_0": TILE, "sQ_1": replace(TILE, name="sQ_1", address=9216)},
    **{"sK": replace(TILE, name="sK", address=99328), "sV": replace(TILE, name="sV", columns=32)},
}


def function(line: str) -> Function:
    """A function of which ``line`` has a number that depends on its last parameter."""
    number = Number(Affine(0, (("which", 64),)))
    body = (Line(code(line, number)),)
    return Function("@cute.jit", "f", (("x", "Any"), ("which", CONSTANT)), body)


def call(*arguments: str, number: int) -> Call:
    return Call("f", (*arguments, str(number)), numbered=True)


def calls(*first: str) -> list[Call]:
    return [call(one, number=number) for number, one in enumerate(first)]


def test_what_grows_by_the_same_is_computed() -> None:
    functions = {"f": function("g({})")}
    found = shared(calls("bar_0", "bar_1", "bar_2"), functions, MADE, {"instance"})
    assert found is not None
    assert found.arguments == ("bar", "instance_2")
    assert [expression(made) for _, made in found.definitions] == [
        "barriers + (2 * instance_2 + 3)"
    ]
    found = shared(calls("sQ_0", "sQ_1"), functions, MADE, set())
    assert found is not None
    place = "place(shared, 8192 * instance + 1024, 1024)"
    assert [expression(made) for _, made in found.definitions] == [
        f"tiles_at({place}, 64, 64, 1, BFloat16)"
    ]
    assert as_variable(functions["f"]).parameters[-1] == ("which", "Int32")


@pytest.mark.parametrize(
    "arguments",
    [
        ("bar_0", "bar_1", "other"),  # does not grow by the same
        ("sQ_0", "sV"),  # another size
        ("sQ_0", "bar_0"),  # another kind
        ("tma_a", "tma_b"),  # not made of anything known
        ("sQ_0",),  # alone
    ],
)
def test_what_is_not_shared(arguments: tuple[str, ...]) -> None:
    assert shared(calls(*arguments), {"f": function("g({})")}, MADE, set()) is None


def test_numbers_that_a_compiler_has_to_know() -> None:
    """How many registers there are, and how often something is unrolled."""
    for line in ("r = cute.make_rmem_tensor({}, Float32)", "for v in range_constexpr({}): pass"):
        assert shared(calls("sQ_0", "sQ_1"), {"f": function(line)}, MADE, set()) is None


def test_several_functions() -> None:
    found = [call("sQ_0", number=0), replace(call("sQ_1", number=1), function="h")]
    assert shared(found, {"f": function("g({})"), "h": function("g({})")}, MADE, set()) is None


@pytest.mark.medium
@pytest.mark.parametrize(("head_dim", "roles"), [("64", 3), ("128", 2)])
def test_text(head_dim: str, roles: int, tmp_path: Path) -> None:
    proven, kernel = solved("attention_fwd", "h200", head_dim=head_dim)
    text = emit(proven, kernel, style=SHARED)
    assert f"    if warp < {4 * roles}:\n        cute.arch.setmaxregister_increase(" in text
    assert text.count("instance = instance_of(warp, 0)") == 1
    assert text.count("        softmax(\n") == 1
    path = tmp_path / "kernel.py"
    path.write_text(text, "utf-8")
    assert read_facts(path).style == ("shared",)


def test_no_equal_roles() -> None:
    """Then it is the plain text, and not tried."""
    settings = {"tile_m": "64", "tile_n": "32", "slice_n": "32", "consumers": "1"}
    proven, kernel = solved("gemm", "h200", **settings)
    assert emit(proven, kernel, style=SHARED) == emit(proven, kernel)

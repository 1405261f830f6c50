"""Formulas over pairs of elements: the values that single elements get, from fewer instructions."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from schedgen.codegen.bodies import OperationFunction
from schedgen.codegen.fragment import ROW, WGMMA, Fragment
from schedgen.codegen.library import COMMON
from schedgen.codegen.library_sm100 import LIBRARY
from schedgen.expressions import parse
from tests.codegen.dsl import Single, library, run
from tests.codegen.examples import SPECS, plan_of

PLAN = plan_of(SPECS / "gated_attention.yaml", "b200")
SINGLE = replace(ROW, packed=False)
FORMULAS = [
    "rS * scale - m * scale",
    "rS * scale + rS",
    "m - rS * scale",
    "m - scale * rS",
    "rS - rS * rS",
    "rS * rS - rS",
    "-rS + m",
    "exp2(rS) * m",
    "exp(rS - m)",
    "2 * rS",
    "gelu(rS)",
    "sigmoid(rS) + silu(m - rS)",
]


def made(formula: str, fragment: Fragment) -> OperationFunction:
    """An operation that computes the tile rS by that formula."""
    operation = PLAN.operation("EXP")
    operands = dict(operation.operands) | {"m": dict(PLAN.operation("MAX").operands)["to"]}
    formulas = (("rS", parse(formula)),)
    changed = replace(operation, formulas=formulas, operands=tuple(operands.items()))
    return OperationFunction(PLAN, fragment, changed, 128, set())


def computed(formula: str, fragment: Fragment) -> tuple[list[float], str]:
    """The tile that it makes of a row, and its lines."""
    body = made(formula, fragment)
    tile = [Single((v - 60) / 40) for v in range(128)]
    names = {"rS": tile, "m": [Single(0.375)], "scale": Single(1.25)}
    lines = "\n".join(body.lines)
    run("if True:\n" + lines, library(COMMON, LIBRARY) | names)
    return [float(x) for x in tile], lines


@pytest.mark.parametrize("formula", FORMULAS)
def test_values(formula: str) -> None:
    found, lines = computed(formula, ROW)
    wanted, single = computed(formula, SINGLE)
    assert "f32x2" in lines or "_pair(" in lines
    assert "f32x2" not in single
    assert found == pytest.approx(wanted, rel=3e-7, abs=3e-7)


def test_products_and_sums_are_one_instruction() -> None:
    for formula in FORMULAS[:4]:
        _, lines = computed(formula, ROW)
        assert re.findall(r"arch\.(\w+)\(", lines) == ["fma_packed_f32x2"]


@pytest.mark.parametrize(
    "formula", ["tanh(rS)", "where(rS < m, rS, m)", "rS / m", "m * scale", "m"]
)
def test_what_has_no_instruction(formula: str) -> None:
    """Nothing is gained by pairs, or there is nothing to compute in pairs."""
    assert "f32x2" not in "\n".join(made(formula, ROW).lines)


def test_fragments_are_single() -> None:
    assert not WGMMA.packed


def test_sum_and_maximum_of_a_row() -> None:
    functions = library(COMMON, LIBRARY)
    for count in (1, 2, 3, 8, 31, 128):
        row = [Single((n * 37) % 101) for n in range(count)]
        assert float(functions["row_sum"](row, 0)) == sum(row)
        assert float(functions["row_max"](row, 0)) == max(row)

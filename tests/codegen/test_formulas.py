"""Formulas as Python over the DSL: the values that the interpreter gives them."""

from __future__ import annotations

import pytest
import torch

from schedgen.codegen.errors import EmitError
from schedgen.codegen.formulas import code, integer, library_functions
from schedgen.codegen.library import COMMON
from schedgen.expressions import Name, parse
from schedgen.interpret.formulas import compute
from tests.codegen.dsl import Single, library, value

NAMES = {"x": 0.75, "y": -1.5, "scale": 3.0}
FORMULAS = [
    "x * scale - y / 2",
    "exp2(x) + exp(y)",
    "log2(x) - log(x)",
    "rcp(scale) * rsqrt(x) * sqrt(x)",
    "floor(3 * x) - x",
    "sigmoid(y) + silu(x)",
    "gelu(y) + tanh(x)",
    "relu(y) + abs(y)",
    "max(x, y, scale) - min(x, y)",
    "fma(x, y, scale) + fma(scale, 0.1, -1 * fma(x, 3, 0))",
    "where(x < y or not (y >= 0 and x == x), x, -y)",
]


def named(name: Name) -> str:
    return name.name


@pytest.mark.parametrize("formula", FORMULAS)
def test_value(formula: str) -> None:
    names = {name: Single(number) for name, number in NAMES.items()}
    found = value(code(parse(formula), named), library(COMMON) | names)
    tensors = {name: torch.tensor(number) for name, number in NAMES.items()}
    wanted = compute(parse(formula), lambda name: tensors[name.name])
    assert float(found) == pytest.approx(float(wanted), rel=3e-7)


def test_functions_can_be_written_otherwise() -> None:
    found = code(parse("exp2(x) + 2 * exp2(y)"), named, {"exp2": "mine({0}, v)"})
    assert found == "(mine(x, v) + (2.0 * mine(y, v)))"


def test_random_numbers_are_of_integers() -> None:
    """The last counter comes behind the key, and the others from the right; nothing is float32."""
    text = "uniform(low, -1, batch, 2 * m - row, column)"
    assert code(parse(text), named) == "uniform(low, (-1), column, ((2 * m) - row), batch)"
    assert library_functions(parse(text)) == ("uniform",)


@pytest.mark.parametrize("formula", ["x % y", "x // y"])
def test_without_emitter(formula: str) -> None:
    with pytest.raises(EmitError, match="no emitter for"):
        code(parse(formula), named)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("ceil(n / 64)", 3), ("ceil((n + 2) / 64) * 2 - m", -1), ("-m + n", 123), ("+m", 7)],
)
def test_integer(text: str, wanted: int) -> None:
    assert value(integer(parse(text)), {"n": 130, "m": 7}) == wanted


def test_integer_with_other_names() -> None:
    assert integer(parse("tile_row * 2"), {"tile_row": "at_m"}) == "(at_m * 2)"


@pytest.mark.parametrize("text", ["n / 64", "0.5 * n", "max(n, m)"])
def test_no_integer(text: str) -> None:
    with pytest.raises(EmitError, match="no emitter for the whole number"):
        integer(parse(text))

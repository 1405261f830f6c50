"""Derivatives of formulas beside those of torch, and what formulas have in common."""

from __future__ import annotations

import pytest
import torch

from schedgen.expressions import (
    ExpressionError,
    Name,
    common,
    derivative,
    parse,
    references,
    render,
    replaced,
)
from schedgen.expressions.functions import ELEMENTWISE
from schedgen.interpret.formulas import compute

_ALONE = [name for name, one in ELEMENTWISE.items() if one.arity == 1 and name != "floor"]


@pytest.mark.parametrize(
    "text",
    [
        *(f"{name}(x * y + 0.25)" for name in _ALONE),
        "3 * tanh(x / 3) - y * abs(y - 2)",
        "-x * x / (1 + x * y) - (+x) / y",
        "where(x < 0.7, x * y, sqrt(x)) + where(y > 9, x, x + y)",
        "min(x, y * x, 0.4) + max(x * x, y, 1 - x)",
        "exp(x * silu(x)) - floor(y)",
        "fma(x, y, x * x) * fma(2, sqrt(x), y)",
    ],
)
def test_torch_agrees(text: str) -> None:
    x = torch.linspace(0.05, 1.5, 37, dtype=torch.float64).requires_grad_()
    y = torch.linspace(0.4, 3.1, 11, dtype=torch.float64)[:, None]
    names = {"x": x, "y": y}
    formula = parse(text)
    (wanted,) = torch.autograd.grad(compute(formula, lambda name: names[name.name]).sum(), x)
    found = compute(derivative(formula, "x"), lambda name: names[name.name])
    torch.testing.assert_close((found + 0 * y * x).sum(0), wanted, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x", "1"),
        ("x - y * abs(y)", "1"),
        ("y * y", "0"),
        ("where(y < 3, x, x + 2)", "1"),
        ("floor(y) + where(x > 2, 1, 2) * y", "0"),
        ("c * tanh(x * y)", "c * y * (1 - tanh(x * y) * tanh(x * y))"),
    ],
)
def test_what_is_left_out(text: str, wanted: str) -> None:
    assert render(derivative(parse(text), "x")) == wanted


@pytest.mark.parametrize("function", ["floor(x * y)", "2 + ceil(x)"])
def test_what_has_none(function: str) -> None:
    with pytest.raises(ExpressionError, match=r"'(floor|ceil)' of 'x' has no derivative") as found:
        derivative(parse(function), "x")
    assert function[found.value.offset :].startswith(("floor", "ceil"))


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["c * tanh(x * y) - y", "1 - tanh(x * y) * tanh(x * y)"], "tanh(x * y)"),
        (["exp(x)", "exp(x)"], "exp(x)"),
        (["x * x", "x + x"], "x"),
        (["tanh(x) + x", "tanh(x)"], "x"),
        (["where(x > 3, tanh(x), 1)", "tanh(x)"], "x"),
    ],
)
def test_what_they_have_in_common(texts: list[str], wanted: str) -> None:
    formulas = [parse(text) for text in texts]
    part = common(formulas, "x")
    assert render(part) == wanted
    rest = [replaced(formula, part, Name("z")) for formula in formulas]
    assert not any(Name("x") in references(one) for one in rest)

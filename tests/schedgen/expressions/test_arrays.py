"""Formulas over arrays, beside their exact values."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from schedgen.expressions import ExpressionError, evaluate, evaluate_arrays, parse


@pytest.mark.parametrize(
    "text",
    [
        "x < 3 and y >= x or x == y",
        "not (x != y) or x > 5",
        "min(x, y, 4) + max(x, -y) * 2 - abs(y - x)",
        "x // 3 + y % 4 - (-x) / 2",
        "floor(x / 3) + ceil(y / 4) + where(x <= y, x, 7) + (+x)",
        "where(true, x, y)",
    ],
)
def test_each_element_has_the_exact_value(text: str) -> None:
    expression = parse(text)
    x, y = np.arange(-4, 9)[:, None], np.arange(-5, 5)[None, :]
    found = np.broadcast_to(evaluate_arrays(expression, {"x": x, "y": y}), (13, 10))
    for row, column in np.ndindex(13, 10):
        values = {"x": Fraction(int(x[row, 0])), "y": Fraction(int(y[0, column]))}
        exact = evaluate(expression, values)
        assert not isinstance(exact, str)
        assert found[row, column] == float(exact)


@pytest.mark.parametrize("text", ["z + 1", "exp2(x)", "x@1 < 2"])
def test_what_has_no_value(text: str) -> None:
    with pytest.raises(ExpressionError, match="no arithmetic over coordinates"):
        evaluate_arrays(parse(text), {"x": 1.0})

"""Names of formulas that make no difference, and all that do."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isnan, nan
from random import Random

import pytest
import torch

from schedgen.expressions import Expression, Name, parse, without_influence
from schedgen.interpret.formulas import compute


@pytest.mark.parametrize(
    ("formula", "names"),
    [
        ("min(where(r > 0.125, 1, 0.25), -1)", {"r"}),
        ("where(max(r, 0.25, -1) < -1, max(r, 0.25, -1), -1 * 0.5)", {"r"}),
        ("where(where(r > 0.125, 1, 0.25) < -1, r, -0.5) * sigmoid(s)", {"r"}),
        ("max(where(r > s, 1, 0.25), 3) + t", {"r", "s"}),
        ("where(abs(r) >= 0, s, t)", set[str]()),  # what is no number is not
        ("where(tanh(r) > 1, s, t)", {"r", "s"}),
        ("where(sigmoid(r) < 0, s, t) + r", {"s"}),
        ("min(exp(min(r, 2)), -1)", set[str]()),
        ("r * 0", set[str]()),
        ("r@1 - r", set[str]()),
        ("2 + 3 / 4", set[str]()),
        ("where(r == r, 1, 0)", set[str]()),
        ("where(2 - 1 > 0, r, s)", {"s"}),
        ("where(0.1 + 0.2 > 0.3, r, s)", set[str]()),  # in float32 it is not
        ("where(0.1 < 0.1000000001, r, s)", {"r"}),  # equal in float32
        ("where(1 / 4 <= 0.25 and r > 0, s, t)", set[str]()),
        ("where(not (r > 0), 1, 1)", {"r"}),
    ],
)
def test_names_without_influence(formula: str, names: set[str]) -> None:
    assert {name.name for name in without_influence(parse(formula))} == names


def _texts(random: Random) -> Iterator[str]:
    """Formulas with many constants, so that some names make no difference."""
    leaves = ("x", "y", "-1", "0.25", "2", "0")

    def text(depth: int) -> str:
        if depth == 0:
            return random.choice(leaves)
        a, b, c, d = (text(random.randrange(depth)) for _ in range(4))
        sign = random.choice(["<", "<=", ">", ">=", "==", "!="])
        shapes = [
            f"max({a}, {b})",
            f"min({a}, {b})",
            f"where({a} {sign} {b}, {c}, {d})",
            f"({a} {random.choice('+-*')} {b})",
            f"{random.choice(['abs', 'exp', 'sigmoid', 'tanh', 'relu', 'sqrt', 'rsqrt'])}({a})",
            f"(-{a})",
        ]
        return random.choice(shapes)

    for _ in range(1500):
        yield text(3)


def _value(formula: Expression, values: dict[str, float]) -> float:
    def look(name: Name) -> torch.Tensor:
        return torch.tensor(values[name.name])

    return float(compute(formula, look))


@pytest.mark.medium
def test_a_name_without_influence_has_none() -> None:
    """Whatever such a name holds, the formula is the same."""
    numbers = (-inf, -3.0, -1.0, 0.0, 0.25, 1.0, 7.0, inf, nan)
    found = 0
    for text in _texts(Random(0)):
        formula = parse(text)
        for name in {one.name for one in without_influence(formula)}:
            found += 1
            (other,) = {"x", "y"} - {name}
            for fixed in numbers:
                results = [_value(formula, {name: one, other: fixed}) for one in numbers]
                assert len({"nan" if isnan(r) else r for r in results}) == 1, (text, name, fixed)
    assert found > 40

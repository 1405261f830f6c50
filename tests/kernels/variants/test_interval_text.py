"""Rules of intervals as text: it computes what tensors compute by the same rules, to the bit."""

from __future__ import annotations

import itertools
import math
from random import Random
from typing import Any, cast

import numpy as np
import pytest
import torch

from schedgen.expressions import parse
from schedgen.kernels.variants.interval_tensors import Tensors
from schedgen.kernels.variants.interval_text import Text, Value
from schedgen.kernels.variants.intervals import Interval, Rules

CPU = torch.device("cpu")
ENDS = (-math.inf, -1e30, -7.0, -2.5, -0.0, 0.0, 0.3, 1.0, 4.0, 12.0, math.inf)
WHOLE = [(low, high) for low, high in itertools.product(range(-9, 10), repeat=2) if low <= high]
CONDITIONS = (
    "a + b * 0.1 < c - a",
    "a / b <= c or not a * c == 0.7",
    "a // b == c and b // 3 > a % c",
    "n // m != 2 or n % m == 1",
    "where(a < b, a, -c) >= min(a, b, c) + relu(c)",
    "abs(a - b) < max(abs(c), 0.5) and floor(a / 4) <= 3",
    "tanh(a) > 2 or a == b and true",
    "+a < -b or false",
)


def chosen(when: Any, then: Any, other: Any) -> Any:
    return then if when else other


def least(one: Any, other: Any) -> Any:
    return chosen((one < other) | np.isnan(one), one, other)


def most(one: Any, other: Any) -> Any:
    return chosen((one > other) | np.isnan(one), one, other)


FUNCTIONS: dict[str, Any] = {
    "Float64": np.float64, "Boolean": np.bool_, "chosen": chosen, "least": least, "most": most,
    "sum_of": np.add, "difference": np.subtract, "product": np.multiply, "quotient": np.divide,
    "negative": np.negative, "absolute": np.abs, "floor": np.floor, "finite": np.isfinite,
}  # fmt: skip
"""Those of a kernel, in numpy."""


@pytest.mark.parametrize("condition", CONDITIONS)
def test_text_computes_what_tensors_compute(condition: str) -> None:
    """For intervals of all kinds, with ends that are infinite, or the same."""
    names, draw = "abcnm", Random(0)
    intervals = [(low, high) for low, high in itertools.product(ENDS, ENDS) if low <= high]
    rows = [[*draw.choices(intervals, k=3), *draw.choices(WHOLE, k=2)] for _ in range(500)]
    ends = torch.tensor(rows, dtype=torch.float64)
    tensors = {
        name: Interval(ends[:, n, 0], ends[:, n, 1], name in "nm") for n, name in enumerate(names)
    }
    node = parse(condition)
    right = Rules(Tensors(CPU), tensors).condition(node)
    into = Text()
    values = {
        name: Interval(Value(f"{name}[0]", into), Value(f"{name}[1]", into), name in "nm")
        for name in names
    }
    found = Rules(into, values).condition(node)
    program = compile("\n".join(into.lines), condition, "exec")
    some, every = (
        cast("list[bool]", one.expand(len(rows)).tolist()) for one in (right.some, right.every)
    )
    with np.errstate(all="ignore"):
        for number, row in enumerate(rows):
            given = {
                name: tuple(map(np.float64, ends)) for name, ends in zip(names, row, strict=True)
            }
            known = {**FUNCTIONS, **given}
            exec(program, known)
            assert bool(eval(found.some.name, known)) == some[number], row
            assert bool(eval(found.every.name, known)) == every[number], row
    assert len(set(some)) > 1 or len(set(every)) > 1 or "tanh" in condition


def test_each_value_is_written_once() -> None:
    into = Text()
    a, b = Value("a", into), Value("b", into)
    first = (a + b) * 2.0
    assert ((a + b) * 2.0).name == first.name
    assert into.lines == ["x0 = sum_of(a, b)", "x1 = product(x0, Float64(2.0))"]

"""Formulas on tensors: every function of the language, against float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from schedgen.expressions import ELEMENTWISE, Name, parse
from schedgen.interpret.formulas import compute, scalar

POINTS = (0.25, 1.0, 3.0)
X = torch.tensor(POINTS)
WANTED: dict[str, Callable[[float], float]] = {
    "exp2": lambda x: 2**x,
    "log2": math.log2,
    "exp": math.exp,
    "log": math.log,
    "rcp": lambda x: 1 / x,
    "rsqrt": lambda x: x**-0.5,
    "sqrt": math.sqrt,
    "floor": lambda x: float(math.floor(x)),
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "abs": abs,
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "min": lambda x: min(x, 1.5, 2.0),
    "max": lambda x: max(x, 1.5, 2.0),
    "fma": lambda x: x * 1.5 + 2,
    "where": lambda x: 1.5 if x > 1 else 2.0,
    # words 0, 1 and 3 of a counter of zeros, of known answers of Philox4x32-7
    "uniform": lambda x: ((0x5F6FB709, 0x0D893F64, 0, 0x4F730A48)[int(x)] >> 9) * 2.0**-23,
}


def value(text: str) -> torch.Tensor:
    def look(name: Name) -> torch.Tensor:
        return {"x": X, "yes": scalar(True), "no": scalar(False), "two": scalar(2)}[name.name]

    return compute(parse(text), look)


@pytest.mark.parametrize("function", ELEMENTWISE)
def test_function(function: str) -> None:
    texts = {"where": "where(x > 1, 1.5, 2)", "min": "min(x, 1.5, 2)", "max": "max(x, 1.5, 2)"}
    texts |= {"uniform": "uniform(0, 0, x)", "fma": "fma(x, 1.5, 2)"}
    wanted = torch.tensor([WANTED[function](x) for x in POINTS])
    torch.testing.assert_close(value(texts.get(function, f"{function}(x)")), wanted)
    if function in ("abs", "relu"):
        wanted = torch.tensor([WANTED[function](-x) for x in POINTS])
        assert torch.equal(value(f"{function}(-x)"), wanted)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x + two * 2 - 1", [3.25, 4.0, 6.0]),
        ("-x / 4", [-0.0625, -0.25, -0.75]),
        ("where(x < 1 or x >= 3, 1, 0)", [1.0, 0.0, 1.0]),
        ("where(not (x <= 1) and yes, 1, 0)", [0.0, 0.0, 1.0]),
        ("where(x == 1, two, x)", [0.25, 2.0, 3.0]),
        ("where(x != 1 and not no, two, +x)", [2.0, 1.0, 2.0]),
    ],
)
def test_operators(text: str, wanted: list[float]) -> None:
    found = value(text)
    assert found.dtype is torch.float32
    assert found.tolist() == wanted

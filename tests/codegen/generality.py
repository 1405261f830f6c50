"""Problems for two specs that no shipped one resembles, and what torch makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Values = Mapping[str, Any]
"""Arguments of a kernel by name."""
LOG2_E = 1.4426950408889634


def attention(values: Values) -> Tensor:
    """softmax(scale q k^T) v, each element with the sigmoid of a gate; scale is for powers of 2."""
    q, k, v, g = (values[name] for name in "qkvg")
    weights = torch.softmax(q @ k.mT * (values["scale"] / LOG2_E), -1)
    return (weights.to(v.dtype) @ v) * torch.sigmoid(g)


def product(values: Values) -> Tensor:
    """The softmax of the rows of alpha a b^T; alpha is for powers of 2."""
    return torch.softmax(values["a"] @ values["b"].mT * (values["alpha"] / LOG2_E), -1)


REFERENCES: Mapping[str, Callable[[Values], Tensor]] = {
    "gated_attention": attention,
    "product_softmax": product,
}
OUTPUTS = {"gated_attention": "o", "product_softmax": "d"}


@dataclass(frozen=True)
class Problem:
    """Extents for a spec with these settings; ``small`` ones are for the emulator."""

    spec: str
    settings: tuple[tuple[str, str], ...]
    extents: Mapping[str, int] = field(hash=False)
    small: bool = True

    def __str__(self) -> str:
        words = [self.spec, *(value for _, value in self.settings)]
        return "-".join([*words, *(f"{name}{size}" for name, size in self.extents.items())])

    def reference(self, values: Values) -> Tensor:
        """The result, in the data type of the arguments."""
        return REFERENCES[self.spec](values)


def _attention(*sizes: int, dtype: str = "bf16", small: bool = True) -> Problem:
    names = ("batch", "heads", "seq_q", "seq_k", "head_dim")
    settings = (("head_dim", str(sizes[-1])), ("dtype", dtype))
    return Problem("gated_attention", settings, dict(zip(names, sizes, strict=True)), small)


def _product(*sizes: int, dtype: str = "bf16", small: bool = True) -> Problem:
    extents = dict(zip("mnk", sizes, strict=True))
    return Problem("product_softmax", (("dtype", dtype),), extents, small)


PROBLEMS = [
    _attention(1, 2, 72, 300, 64),
    _attention(1, 1, 200, 100, 64),
    _attention(1, 1, 136, 264, 128, dtype="fp16"),
    _attention(2, 4, 1000, 1333, 64, small=False),
    _attention(1, 3, 1, 1, 64, small=False),
    _attention(3, 2, 513, 2048, 128, dtype="fp16", small=False),
    _attention(1, 8, 4096, 4096, 128, dtype="fp16", small=False),
    _attention(4, 16, 2048, 2048, 64, small=False),
    _product(200, 128, 136),
    _product(72, 104, 64),
    _product(300, 8, 520, dtype="fp16"),
    _product(1, 128, 8, small=False),
    _product(1000, 96, 1000, small=False),
    _product(8192, 128, 4096, small=False),
    _product(4100, 120, 72, dtype="fp16", small=False),
]
"""Extents in rows are multiples of 8: the kernels are called as they are."""
SETTINGS = sorted({(problem.spec, problem.settings) for problem in PROBLEMS})

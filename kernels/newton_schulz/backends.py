"""The matrix products of Newton-Schulz iterations, through torch or through generated kernels.

All operands are (batch, rows, columns) in float16; products accumulate in float32 and are rounded
once. A result that is symmetric in exact arithmetic may be computed as one triangle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from schedgen.kernels.gemm_op import gemm, symmetric_gemm
from schedgen.kernels.newton_schulz import streams

_T = TypeVar("_T")
_BESIDE = 16 << 20
"""Bytes of a batch of matrices up to which products of it go side by side; those of one matrix
always do. Larger batches take less one after the other on an H200, 6.8 % with 16 x 2048 x 7168 and
2.9 % with 4 x 2048 x 7168 and 16 x 1024 x 8192; with 8 x 1024 x 4096 it is the same (28 November,
by a script that is not in the repository). Why was not looked into."""


class Products(Protocol):
    """What the iterations need."""

    def symmetric(
        self, a: Tensor, b: Tensor, c: Tensor | None = None, alpha: float = 1.0, beta: float = 1.0
    ) -> Tensor:
        """alpha a b + beta c, which is symmetric: a (batch, n, k), b (batch, k, n), c symmetric."""
        ...

    def product(self, a: Tensor, b: Tensor, c: Tensor | None = None, beta: float = 1.0) -> Tensor:
        """a b + beta c."""
        ...

    def together(
        self, z: Tensor, first: Callable[[], _T], second: Callable[[], Tensor]
    ) -> tuple[_T, Tensor]:
        """The results of two calls that do not need each other, and both multiply by ``z``."""
        ...


@dataclass(frozen=True)
class TorchProducts:
    """Through torch, on any device.

    On a CPU float16 operands are multiplied in float32, which is what tensor cores do with them.
    """

    def symmetric(
        self, a: Tensor, b: Tensor, c: Tensor | None = None, alpha: float = 1.0, beta: float = 1.0
    ) -> Tensor:
        if a.is_cpu:
            product = a.float() @ b.float()
            sum_ = alpha * product if c is None else alpha * product + beta * c.float()
            return sum_.to(a.dtype)
        if c is None:
            c, beta = a.new_zeros(()), 0.0
        return torch.baddbmm(c, a, b, alpha=alpha, beta=beta)

    def product(self, a: Tensor, b: Tensor, c: Tensor | None = None, beta: float = 1.0) -> Tensor:
        return self.symmetric(a, b, c, beta=beta)

    def together(
        self, z: Tensor, first: Callable[[], _T], second: Callable[[], Tensor]
    ) -> tuple[_T, Tensor]:
        """In order: on every stream cuBLAS would keep a workspace of many megabytes."""
        del z
        return first(), second()


@dataclass(frozen=True)
class GeneratedProducts:
    """Through this project's kernels: half of the tiles where the result is symmetric.

    Attributes:
        beside: whether independent products are launched side by side.
    """

    beside: bool = True

    def symmetric(
        self, a: Tensor, b: Tensor, c: Tensor | None = None, alpha: float = 1.0, beta: float = 1.0
    ) -> Tensor:
        return symmetric_gemm(a, b, c, alpha=alpha, beta=beta)

    def product(self, a: Tensor, b: Tensor, c: Tensor | None = None, beta: float = 1.0) -> Tensor:
        return gemm(a, b, c, beta=beta)

    def together(
        self, z: Tensor, first: Callable[[], _T], second: Callable[[], Tensor]
    ) -> tuple[_T, Tensor]:
        few = len(z) == 1 or z.nbytes <= _BESIDE
        if self.beside and few:
            return streams.together(z.device, first, second)
        return first(), second()

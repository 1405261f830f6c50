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
        self, device: torch.device, first: Callable[[], _T], second: Callable[[], Tensor]
    ) -> tuple[_T, Tensor]:
        """The results of two calls that do not need each other (`streams.together`)."""
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
        self, device: torch.device, first: Callable[[], _T], second: Callable[[], Tensor]
    ) -> tuple[_T, Tensor]:
        """In order: on every stream cuBLAS would keep a workspace of many megabytes."""
        del device
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
        self, device: torch.device, first: Callable[[], _T], second: Callable[[], Tensor]
    ) -> tuple[_T, Tensor]:
        return streams.together(device, first, second) if self.beside else (first(), second())

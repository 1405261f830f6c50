"""Interval arithmetic of all blocks at a time, by operations of torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Tensors:
    """Operations on float64 tensors that broadcast to one element for each block; constants are
    made on ``device``, which is not waited for.
    """

    device: torch.device

    def constant(self, value: float) -> Tensor:
        return torch.full((), value, dtype=torch.float64, device=self.device)

    def truth(self, value: bool) -> Tensor:
        return torch.full((), value, device=self.device)

    def least(self, one: Tensor, other: Tensor | float) -> Tensor:
        if isinstance(other, Tensor):
            return torch.minimum(one, other)
        return one.clamp(max=other)

    def most(self, one: Tensor, other: Tensor | float) -> Tensor:
        if isinstance(other, Tensor):
            return torch.maximum(one, other)
        return one.clamp(min=other)

    def absolute(self, one: Tensor) -> Tensor:
        return one.abs()

    def floor(self, one: Tensor) -> Tensor:
        return one.floor()

    def chosen(self, when: Tensor, then: Tensor | float, other: Tensor | float) -> Tensor:
        return torch.where(when, then, other)

    def either(self, one: Tensor, other: Tensor) -> Tensor:
        return one | other

    def same(self, one: Tensor, other: Tensor) -> Tensor:
        return one == other

    def finite(self, one: Tensor) -> Tensor:
        return one.isfinite()

    def defined(self, one: Tensor, otherwise: float) -> Tensor:
        return one.nan_to_num(otherwise, math.inf, -math.inf)

"""A parameter that several ranks share, and what its group says is to be done with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from schedgen.kernels.errors import ArgumentTypeError
from schedgen.kernels.newton_schulz.sharded_layout import Layout, is_dtensor


class Rule(Protocol):
    """What Muon does to tensors of one parameter group."""

    def advance(self, params: list[Tensor], grads: list[Tensor]) -> None:
        """Updates the momenta of ``params`` with the local parts of their gradients."""
        ...

    def targets(self, params: list[Tensor], grads: list[Tensor]) -> list[Tensor]:
        """Local parts of what is to be orthogonalized, after `advance`."""
        ...

    def orthogonalized(self, x: Tensor) -> Tensor:
        """Of whole matrices (batch, m, n)."""
        ...

    def applied(self, parts: list[Tensor], updates: list[Tensor], shape: tuple[int, int]) -> None:
        """Moves local parts of parameters whose whole shape is ``shape``."""
        ...

    @property
    def kind(self) -> str:
        """Differs where matrices cannot be orthogonalized in one batch."""
        ...


@dataclass(frozen=True)
class Matrix:
    """A parameter as this rank sees it.

    Attributes:
        param: the parameter.
        part: its local part, which shares its memory.
        layout: where all parts are.
        rule: of its parameter group.
        back: type in which results travel.
    """

    param: Tensor
    part: Tensor
    layout: Layout
    rule: Rule
    back: torch.dtype

    @property
    def kind(self) -> str:
        return f"{self.rule.kind} {self.part.dtype} {self.back}"

    def gradient(self) -> Tensor:
        """The part of the gradient; zeros if this rank has none, though others do."""
        grad: Any = self.param.grad
        if grad is None:
            return torch.zeros_like(self.part)
        if grad.is_sparse:
            raise ArgumentTypeError("params", "a gradient is sparse", "dense gradients", "to_dense")
        if not is_dtensor(self.param):
            return grad
        if is_dtensor(grad):
            placements = cast("Any", self.param).placements
            same = grad.placements == placements
            return (grad if same else grad.redistribute(placements=placements)).to_local()
        got = "the gradient of a DTensor is a plain tensor"
        raise ArgumentTypeError("params", got, "a DTensor", "DTensor.from_local")

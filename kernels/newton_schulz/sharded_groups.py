"""Which ranks share which matrices of an optimizer, and what is to be done with them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
import torch.distributed as dist
from torch import Tensor

from schedgen.kernels.errors import ArgumentTypeError
from schedgen.kernels.newton_schulz.sharded_layout import Layout, is_dtensor, layout_of, replicated
from schedgen.kernels.newton_schulz.sharded_ranks import Ranks


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


Shared = dict[tuple[Ranks, torch.device], list[Matrix]]
"""Matrices by who shares them and where this rank computes."""


class Sharing:
    """How an optimizer shares its matrices; keeps the groups of ranks that it has met."""

    def __init__(
        self,
        process_group: dist.ProcessGroup | None = None,
        communication_dtype: torch.dtype | None = None,
        timeout: float = 300.0,
    ) -> None:
        """The arguments are those of `Muon`."""
        self._process_group, self._timeout = process_group, timeout
        self._communication_dtype = communication_dtype
        self._known: dict[Hashable, Ranks] = {}

    def travelling(self, dtype: torch.dtype) -> torch.dtype:
        """In which type parts of a type go to their owners."""
        return self._communication_dtype or dtype if dtype == torch.float32 else dtype

    def shares(self, param: Tensor) -> bool:
        """Whether other ranks have a part in this parameter."""
        return self._process_group is not None or is_dtensor(param)

    def sorted(self, params: Iterable[tuple[Tensor, Rule, bool]]) -> Shared:
        """Those that are shared, of ``params`` with their rules and whether updates need 32 bits.

        Makes groups of ranks where there are none yet, so all ranks have to do this.
        """
        found: Shared = {}
        for param, rule, wide in params:
            if not self.shares(param):
                continue
            whole: Any = param
            if is_dtensor(param):
                if whole.device_mesh.get_coordinate() is None:
                    continue  # this rank is not in the mesh
                ranks, part = self._ranks(whole.device_mesh), cast("Tensor", whole.to_local())
                layout = layout_of(whole, part, ranks.members)
                device = _device(whole.device_mesh.device_type, part)
            else:
                ranks, part, device = self._ranks(self._process_group), param, param.device
                layout = replicated((param.shape[0], param.shape[1]), len(ranks))
            back = torch.float16 if part.dtype == torch.float32 and not wide else part.dtype
            matrix = Matrix(param, part, layout, rule, back)
            found.setdefault((ranks, device), []).append(matrix)
        return found

    def _ranks(self, key: Any) -> Ranks:
        """Of a mesh or process group; those with the same members share exchanges."""
        if key not in self._known:
            members, group = _members(key)
            if members not in self._known:
                self._known[members] = Ranks(members, group, self._timeout)
            self._known[key] = self._known[members]
        return self._known[key]


def _members(key: Any) -> tuple[tuple[int, ...], dist.ProcessGroup | None]:
    """Global ranks of a mesh or process group in order; their group if there is one already."""
    if isinstance(key, dist.ProcessGroup):
        return tuple(dist.get_process_group_ranks(key)), key
    if key.ndim > 1:
        return tuple(sorted(key.mesh.flatten().tolist())), None
    return _members(key.get_group())


def _device(kind: str, part: Tensor) -> torch.device:
    """Where to compute: with parts that are offloaded to the host, on the mesh's device still."""
    if part.device.type == kind:
        return part.device
    return torch.device(kind, getattr(torch, kind).current_device())

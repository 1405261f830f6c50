"""Which part of a matrix each rank of a group holds: DTensors, and replicas of plain tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from schedgen.kernels.errors import ArgumentValueError

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


@dataclass(frozen=True)
class Box:
    """A rectangle of a matrix: its first row and column, and how many there are of each."""

    top: int
    height: int
    left: int
    width: int

    @property
    def empty(self) -> bool:
        return not self.height or not self.width

    def of(self, x: Tensor) -> Tensor:
        """This part of x (..., m, n), as a view."""
        return x[..., self.top : self.top + self.height, self.left : self.left + self.width]


@dataclass(frozen=True)
class Layout:
    """How a matrix lies on the ranks of a group.

    Attributes:
        shape: of the whole matrix.
        boxes: of each rank, in the group's order.
        copies: for each rank the number of the copy that its box is a part of.
    """

    shape: tuple[int, int]
    boxes: tuple[Box, ...]
    copies: tuple[int, ...]

    @cached_property
    def _holders(self) -> dict[int, list[int]]:
        """Ranks with a part of each copy."""
        found: dict[int, list[int]] = {copy: [] for copy in self.copies}
        for rank, (box, copy) in enumerate(zip(self.boxes, self.copies, strict=True)):
            if not box.empty:
                found[copy].append(rank)
        return found

    def senders(self, owner: int) -> list[int]:
        """Other ranks whose boxes, with the owner's, make up a whole copy."""
        return [rank for rank in self._holders[self.copies[owner]] if rank != owner]

    def sends(self, rank: int, owner: int) -> bool:
        """Whether ``rank`` is among the senders."""
        same = self.copies[rank] == self.copies[owner]
        return rank != owner and same and not self.boxes[rank].empty

    def receivers(self, owner: int) -> list[int]:
        """Other ranks that hold any part."""
        return [r for held in self._holders.values() for r in held if r != owner]


def is_dtensor(x: Tensor) -> bool:
    """Whether x is a DTensor; does not import them for plain tensors."""
    if type(x) in (Tensor, nn.Parameter) or not torch.distributed.is_available():
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(x, DTensor)


@lru_cache(maxsize=4096)
def replicated(shape: tuple[int, int], ranks: int) -> Layout:
    """All ranks hold all of the matrix."""
    return Layout(shape, (Box(0, shape[0], 0, shape[1]),) * ranks, tuple(range(ranks)))


def layout_of(x: DTensor, part: Tensor, members: tuple[int, ...]) -> Layout:
    """Of x, whose mesh consists of ``members``: global ranks in the group's order.

    ``part`` is the local one.

    Raises:
        ArgumentValueError: placements other than Shard, Replicate, and the strided ones that FSDP
            makes of parameters that are sharded along the same dimension already; or the local
            part does not have the shape that they say.
    """
    mesh, ranks = _mesh(x.device_mesh)
    shape = x.shape[0], x.shape[1]
    layout = _layout(shape, mesh, ranks, members, _splits(x.placements, mesh))
    box = layout.boxes[members.index(torch.distributed.get_rank())]
    if not box.empty and part.shape != (box.height, box.width):
        got = f"a part of {tuple(shape)} placed as {x.placements} is {tuple(part.shape)}"
        allowed = f"({box.height}, {box.width}), as torch.chunk would make it"
        raise ArgumentValueError("params", got, allowed, "distribute_tensor makes such parts")
    return layout


@lru_cache(maxsize=64)
def _mesh(mesh: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Extents and ranks, which torch works out anew at each question."""
    return tuple(mesh.mesh.shape), tuple(mesh.mesh.flatten().tolist())


Splits = tuple[tuple[int, int], ...]
"""Dimensions of the mesh and of the tensor; each splits what those before have left."""


def _splits(placements: Sequence[Any], mesh: tuple[int, ...]) -> Splits:
    plain, strided = list[tuple[int, int]](), list[tuple[int, int]]()
    for n, placement in enumerate(placements):
        if placement.is_replicate():
            continue
        dimension = getattr(placement, "dim", None)
        factor = getattr(placement, "split_factor", 1)
        # FSDP splits, along an outer dimension of the mesh, what tensor parallelism split before.
        later = [
            k for k in range(n + 1, len(mesh)) if getattr(placements[k], "dim", None) == dimension
        ]
        if dimension is None or factor not in (1, prod(mesh[k] for k in later)):
            allowed = "Shard and Replicate"
            got = f"a parameter is placed as {tuple(placements)}"
            raise ArgumentValueError("params", got, allowed, "redistribute the parameter")
        (plain if factor == 1 else strided).append((n, dimension % 2))
    return (*plain, *reversed(strided))


@lru_cache(maxsize=4096)
def _layout(
    shape: tuple[int, int],
    mesh: tuple[int, ...],
    ranks: tuple[int, ...],
    members: tuple[int, ...],
    splits: Splits,
) -> Layout:
    split = {n for n, _ in splits}
    boxes, copies = dict[int, Box](), dict[int, int]()
    numbers: dict[tuple[int, ...], int] = {}
    for rank, place in zip(ranks, product(*map(range, mesh)), strict=True):
        extents = [(0, shape[0]), (0, shape[1])]
        for n, dimension in splits:
            extents[dimension] = _chunk(extents[dimension], mesh[n], place[n])
        boxes[rank] = Box(*extents[0], *extents[1])
        copy = tuple(at for n, at in enumerate(place) if n not in split)
        copies[rank] = numbers.setdefault(copy, len(numbers))
    return Layout(shape, tuple(boxes[r] for r in members), tuple(copies[r] for r in members))


def _chunk(extent: tuple[int, int], parts: int, number: int) -> tuple[int, int]:
    """Start and length of a part, by the rule of torch.chunk."""
    start, length = extent
    each = -(-length // parts)
    skipped = min(each * number, length)
    return start + skipped, min(each, length - skipped)

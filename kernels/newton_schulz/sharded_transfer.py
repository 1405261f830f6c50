"""One exchange of parts of matrices between all ranks of a group, as one all-to-all of bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from schedgen.kernels.newton_schulz.sharded_ranks import Ranks

_lists: Any = torch
_ALIGNED = 16
"""Bytes: any type can be viewed there."""


@dataclass
class Transfer:
    """Parts that leave and parts that arrive.

    Both sides name them in the same order, which says where they lie; nothing else is sent.

    Attributes:
        needed: whether any rank sends anything; if none does, nothing happens at all.
    """

    ranks: Ranks
    device: torch.device
    needed: bool = False
    _leaving: list[list[tuple[Tensor, torch.dtype]]] = field(init=False)
    _coming: list[list[tuple[int, tuple[int, int], torch.dtype]]] = field(init=False)
    _parts: dict[int, list[tuple[int, Tensor]]] = field(init=False)
    _out: Tensor = field(init=False)
    _into: Tensor = field(init=False)
    _out_sizes: list[int] = field(init=False)
    _into_sizes: list[int] = field(init=False)
    _work: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._leaving = [[] for _ in range(len(self.ranks))]
        self._coming = [[] for _ in range(len(self.ranks))]
        self._parts = {}

    def send(self, rank: int, part: Tensor, dtype: torch.dtype) -> None:
        """``part`` goes to ``rank`` as ``dtype``."""
        self._leaving[rank].append((part, dtype))

    def expect(self, rank: int, number: int, shape: tuple[int, int], dtype: torch.dtype) -> None:
        """A part of matrix ``number`` comes from ``rank``."""
        self._coming[rank].append((number, shape, dtype))

    def pack(self) -> None:
        """Copies what leaves and makes room for what comes; `start` needs no more memory."""
        if not self.needed:
            return
        shapes = [[(part.shape, dtype) for part, dtype in row] for row in self._leaving]
        self._out, self._out_sizes, places = _buffer(shapes, self.device)
        sources = [part for row in self._leaving for part, _ in row]
        if sources:
            _lists._foreach_copy_([place for row in places for place in row], sources)
        self._leaving.clear()
        rooms = [[(torch.Size(shape), dtype) for _, shape, dtype in row] for row in self._coming]
        self._into, self._into_sizes, places = _buffer(rooms, self.device)
        for rank, (row, found) in enumerate(zip(self._coming, places, strict=True)):
            for (number, _, _), place in zip(row, found, strict=True):
                self._parts.setdefault(number, []).append((rank, place))

    def start(self) -> None:
        """All ranks have to do this, in the same order of transfers."""
        if self.needed:
            sizes = self._out_sizes, self._into_sizes
            self._work = self.ranks.exchange(self._out, self._into, sizes)

    def wait(self) -> None:
        """On a GPU its stream waits, not the host."""
        if self._work is not None:
            self._work.wait()

    def arrived(self, number: int) -> Iterator[tuple[int, Tensor]]:
        """Ranks and what they sent of a matrix."""
        yield from self._parts.get(number, ())


def _buffer(
    rows: list[list[tuple[torch.Size, torch.dtype]]], device: torch.device
) -> tuple[Tensor, list[int], list[list[Tensor]]]:
    """Bytes for all tensors, how many there are in each row, and the tensors as views."""
    sizes = [[shape.numel() * dtype.itemsize for shape, dtype in row] for row in rows]
    padded = [[-(-size // _ALIGNED) * _ALIGNED for size in row] for row in sizes]
    buffer = torch.empty(sum(map(sum, padded)), dtype=torch.uint8, device=device)
    views, at = list[list[Tensor]](), 0
    for row, lengths, rooms in zip(rows, sizes, padded, strict=True):
        found = list[Tensor]()
        for (shape, dtype), length, room in zip(row, lengths, rooms, strict=True):
            found.append(buffer[at : at + length].view(dtype).view(shape))
            at += room
        views.append(found)
    return buffer, list(map(sum, padded)), views

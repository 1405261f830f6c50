"""Physical storage for interpreted programs: bytes of slots, kept as cells with interned contents.

An allocation is cut where any access begins or ends, so that each access covers whole cells. A cell
holds the number of its bytes: equal bytes have equal numbers, and what an operation computes from
the same bytes has to be computed only once. Number 0 is poison.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from schedgen.interpret.pieces import POISON, TORCH
from schedgen.interpret.problem import InterpretationError
from schedgen.kernel import Kernel, Piece
from schedgen.program.model import Program
from schedgen.program.operations import Access, Allocation

Bytes = npt.NDArray[np.uint8]


class Cells:
    """The cells of all allocations of a program, numbered through; ``total`` is their number."""

    def __init__(self, program: Program, kernel: Kernel) -> None:
        self._kernel = kernel
        self._program = program
        accesses = [access for operation in program.operations for access in operation.accesses]
        self._rows: dict[str, list[int]] = {}
        self._columns: dict[str, list[int]] = {}
        self._base: dict[str, int] = {}
        self.total = 0
        for allocation in program.allocations:
            here = [access for access in accesses if access.allocation == allocation.name]
            self._rows[allocation.name] = _cuts(allocation.rows, (a.rows for a in here))
            self._columns[allocation.name] = _cuts(allocation.row_bytes, (a.bytes for a in here))
            self._base[allocation.name] = self.total
            self.total += allocation.slots * self._per_slot(allocation)
        self._contents: list[Bytes] = [np.zeros((0, 0), np.uint8)]
        self._numbers: dict[tuple[int, bytes], int] = {}

    def cells(self, access: Access, version: int) -> tuple[int, ...]:
        """The cells of an access to a version, row by row."""
        allocation = self._program.allocation[access.allocation]
        rows, columns = self._spans(access)
        width = len(self._columns[allocation.name]) - 1
        first = self._base[allocation.name] + version % allocation.slots * self._per_slot(
            allocation
        )
        return tuple(first + row * width + column for row in rows for column in columns)

    def tile(self, access: Access, numbers: Sequence[int]) -> torch.Tensor:
        """The piece that an access reads from cells with these contents."""
        piece = self._piece(access)
        found = np.empty((_length(access.rows), _length(access.bytes)), np.uint8)
        for number, area in zip(numbers, self._areas(access), strict=True):
            found[area] = self._contents[number] if number else POISON
        flat = found.reshape(piece.row1 - piece.row0, piece.byte1 - piece.byte0)
        return torch.from_numpy(flat).view(TORCH[self._kernel.region[piece.region].dtype])

    def numbers(self, access: Access, tile: torch.Tensor) -> tuple[int, ...]:
        """The contents of the cells that ``access`` writes with ``tile``."""
        self._piece(access)
        flat: Bytes = tile.contiguous().view(torch.uint8).numpy()
        whole = flat.reshape(_length(access.rows), _length(access.bytes))
        return tuple(self._intern(whole[area]) for area in self._areas(access))

    def _piece(self, access: Access) -> Piece:
        piece = self._kernel.piece[access.buffer]
        if _length(access.rows) * _length(access.bytes) != piece.bytes:
            message = (
                f"the access to '{piece.name}' in '{access.allocation}' has another size than it"
            )
            raise InterpretationError(message)
        return piece

    def _intern(self, content: Bytes) -> int:
        key = (content.shape[0], content.tobytes())
        number = self._numbers.setdefault(key, len(self._contents))
        if number == len(self._contents):
            self._contents.append(content.copy())
        return number

    def _per_slot(self, allocation: Allocation) -> int:
        return (len(self._rows[allocation.name]) - 1) * (len(self._columns[allocation.name]) - 1)

    def _spans(self, access: Access) -> tuple[range, range]:
        rows, columns = self._rows[access.allocation], self._columns[access.allocation]
        down = range(rows.index(access.rows[0]), rows.index(access.rows[1]))
        return down, range(columns.index(access.bytes[0]), columns.index(access.bytes[1]))

    def _areas(self, access: Access) -> list[tuple[slice, slice]]:
        """Where each cell of an access lies in it."""
        rows, columns = self._rows[access.allocation], self._columns[access.allocation]
        top, left = access.rows[0], access.bytes[0]
        down, across = self._spans(access)
        return [
            (
                slice(rows[r] - top, rows[r + 1] - top),
                slice(columns[c] - left, columns[c + 1] - left),
            )
            for r in down
            for c in across
        ]


def _cuts(extent: int, spans: Iterable[tuple[int, int]]) -> list[int]:
    return sorted({0, extent, *(end for span in spans for end in span)})


def _length(span: tuple[int, int]) -> int:
    return span[1] - span[0]

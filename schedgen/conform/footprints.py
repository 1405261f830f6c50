"""Where a program's barriers and buffers lie, and which bytes an operation may touch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from schedgen.codegen.peeling import masks
from schedgen.codegen.plan import Plan
from schedgen.conform.cases import Case, Turn
from schedgen.conform.spared import spared
from schedgen.conform.values import Array, Value
from schedgen.kernel import Operation, Region, Space
from schedgen.layouts import DTYPE_BITS, panel_bytes
from schedgen.program.added import is_added
from schedgen.program.claims import RING
from schedgen.program.operations import Access, Number, TileOperation

WORD = 8
COLUMN_BYTES = 4
"""Of a row, in one column of tensor memory."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The slot that an operation accesses: from ``first`` on, ``size`` bytes or columns.

    ``parts`` are the ranges in it, ascending; ``needed``: whether some instruction has to be there.
    ``panel``: bytes of the panels that the slot is divided into, beyond which no copy goes.
    ``touched``: bytes or columns that the operation accesses.
    """

    allocation: str
    space: Space
    write: bool
    first: Array
    size: int
    parts: tuple[tuple[int, int], ...]
    needed: bool
    panel: int
    touched: int


class Footprints:
    """Of one program."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.program = plan, plan.program
        self._spared = spared(plan.program)

    def number(self, number: Number, case: Case, iteration: Turn | None) -> Value:
        """A running number, as residues."""
        if number.per_tile:
            counter, modulus = case.tile.array, case.tile.modulus
        else:
            counter, modulus = case.earlier.array, case.earlier.modulus
            if iteration is not None:
                counter = counter + case.number(iteration)[0].array
        return Value(number.scale * counter + number.offset, modulus)

    def slot(self, number: Number, slots: int, case: Case, iteration: Turn | None) -> Array:
        return self.number(number, case, iteration).array % slots

    def barrier(
        self, name: str, number: Number, case: Case, iteration: Turn | None
    ) -> tuple[Array, Array]:
        """Where the mbarrier of a number lies, in bytes, and the parity of its phase."""
        slots = self.program.barrier[name].slots
        value = self.number(number, case, iteration).array
        first = self.plan.mbarriers[name]
        return WORD * (first + value % slots), value // slots % 2

    def numbered(self, name: str, number: Number, case: Case, iteration: Turn | None) -> Array:
        """Which barrier of the hardware is that of a number."""
        slots = self.program.barrier[name].slots
        return self.plan.numbered.of_pace[name] + self.number(number, case, iteration).array % slots

    def of(self, operation: str, case: Case, iteration: Turn | None) -> list[Footprint]:
        """All that an operation accesses in shared and tensor memory. What masks blocks that are
        not full may be left out of a loop over full ones, and accesses nothing there.
        """
        tile = self.program.operation[operation]
        left_out = not is_added(operation) and masks(self.plan.operation(operation))
        return [
            replace(
                self.footprint(access, case, iteration),
                needed=not left_out
                and (operation, number) not in self._spared
                and _happens(access, case, iteration),
            )
            for number, access in enumerate(tile.accesses)
            if self.program.allocation[access.allocation].space in (Space.SMEM, Space.TMEM)
        ]

    def footprint(self, access: Access, case: Case, iteration: Turn | None) -> Footprint:
        allocation = self.program.allocation[access.allocation]
        slot = self.slot(access.version, allocation.slots, case, iteration)
        size = allocation.size // allocation.slots
        smem = allocation.space is Space.SMEM
        begin, end = access.bytes
        columns = (begin // COLUMN_BYTES, -(-end // COLUMN_BYTES))
        parts = self._bytes(access) if smem else (columns,)
        first = allocation.address + size * slot
        panel = self._panel(access) if smem else size
        rows = access.rows[1] - access.rows[0]
        touched = rows * (end - begin) if smem else columns[1] - columns[0]
        return Footprint(
            allocation.name,
            allocation.space,
            access.write,
            first,
            size,
            parts,
            True,
            panel,
            touched,
        )

    def _bytes(self, access: Access) -> tuple[tuple[int, int], ...]:
        """Ranges of bytes of a piece in its slot."""
        if access.allocation == RING:
            return (access.bytes,)
        region, piece = self._region(access), self.plan.kernel.piece[access.buffer]
        if len(region.shape) < 2:  # a value per row
            return ((piece.row0 * region.row_bytes, piece.row1 * region.row_bytes),)
        if 1 in region.shape:
            return ((0, region.slot_bytes),)
        return tuple(region.panels(piece))

    def _panel(self, access: Access) -> int:
        if access.allocation == RING:
            return access.bytes[1]
        region = self._region(access)
        if len(region.shape) < 2 or 1 in region.shape:
            return region.slot_bytes
        return region.rows * panel_bytes(region.row_bytes)

    def _region(self, access: Access) -> Region:
        return self.plan.kernel.region[self.plan.kernel.piece[access.buffer].region]

    def steps(self, operation: Operation) -> int:
        """Instructions of a product: each multiplies 32 bytes of elements along k."""
        part = self.plan.part(operation, "a")
        depth = part.rows if operation.transpose_a else part.columns
        return depth * DTYPE_BITS[part.region.dtype] // 8 // 32

    def operand(
        self, operation: Operation, operand: str, case: Case, iteration: Turn | None
    ) -> list[Footprint]:
        """Where the pieces of an operand of a product lie; none if that is in registers."""
        pieces = dict(operation.operands)[operand]
        found = [
            access
            for access in self.program.operation[operation.name].accesses
            if access.buffer in pieces
            and self.program.allocation[access.allocation].space in (Space.SMEM, Space.TMEM)
        ]
        return [self.footprint(access, case, iteration) for access in found]

    def tile_operation(self, name: str) -> TileOperation:
        return self.program.operation[name]


def _happens(access: Access, case: Case, iteration: Turn | None) -> bool:
    """Whether an access happens: the first iterations of a tile may use an initial value."""
    if not access.initial or iteration is None:
        return not access.initial
    first = case.shifts + case.ends if iteration.base else iteration.offset
    return first >= access.initial


def offset_in(footprint: Footprint, at: Array) -> int | None:
    """How far behind the beginning of a slot an address lies, if that is always the same."""
    offset = at - footprint.first
    first = int(offset.flat[0])
    return first if bool((offset == first).all()) else None


def inside(footprint: Footprint, at: Array) -> bool:
    """Whether all addresses lie in a slot."""
    return bool(((at >= footprint.first) & (at < footprint.first + footprint.size)).all())


def within(footprint: Footprint, at: Array) -> bool:
    """Whether all addresses lie in the parts of a slot."""
    offset = at - footprint.first
    hit = np.zeros(offset.shape, bool)
    for begin, end in footprint.parts:
        hit |= (offset >= begin) & (offset < end)
    return bool(hit.all())


def partition(parts: list[tuple[int, int]], offsets: list[int], panel: int) -> bool:
    """Whether copies of one size that begin at ``offsets`` make up ``parts``, each in one panel."""
    total = sum(end - begin for begin, end in parts)
    if not offsets or total % len(offsets):
        return False
    before, positions = 0, list[int]()
    for begin, end in sorted(parts):
        positions += [before + o - begin for o in offsets if begin <= o < end]
        before += end - begin
    size = total // len(offsets)
    if any(offset % panel + size > panel for offset in offsets):
        return False
    return sorted(positions) == list(np.arange(len(offsets)) * size)

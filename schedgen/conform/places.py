"""Where a program's barriers and buffers lie, and which bytes an operation may touch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schedgen.codegen.plan import PANEL_BYTES, Plan
from schedgen.conform.cases import Case, Turn
from schedgen.conform.values import Array, Value
from schedgen.kernel import DTYPE_BITS, Operation, Space
from schedgen.program.model import Access, Number, TileOperation

WORD = 8


@dataclass(frozen=True, slots=True)
class Place:
    """The slot that an operation accesses: from ``first`` on, ``size`` bytes or columns.

    ``parts`` are the ranges in it, ascending; ``needed``: whether some instruction has to be there.
    """

    store: str
    space: Space
    write: bool
    first: Array
    size: int
    parts: tuple[tuple[int, int], ...]
    needed: bool


class Places:
    """Of one program."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.program = plan, plan.program

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
        first = self.plan.barrier_words[name]
        return WORD * (first + value % slots), value // slots % 2

    def of(self, operation: str, case: Case, iteration: Turn | None) -> list[Place]:
        """All that an operation accesses in shared and tensor memory."""
        tile = self.program.operation[operation]
        return [
            self.place(access, case, iteration)
            for access in tile.accesses
            if self.program.store[access.store].space in (Space.SMEM, Space.TMEM)
        ]

    def place(self, access: Access, case: Case, iteration: Turn | None) -> Place:
        store = self.program.store[access.store]
        slot = self.slot(access.version, store.slots, case, iteration)
        size = store.size // store.slots
        smem = store.space is Space.SMEM
        parts = self._bytes(access) if smem else ((0, size),)
        needed = access.write or not access.initial
        return Place(
            store.name, store.space, access.write, store.address + size * slot, size, parts, needed
        )

    def _bytes(self, access: Access) -> tuple[tuple[int, int], ...]:
        """Ranges of bytes of a piece in its slot."""
        piece = self.plan.kernel.piece[access.buffer]
        shape = self.plan.kernel.region[piece.region].shape
        rows = shape[0] if len(shape) > 1 else 1
        width = self._row_bytes(piece.region)
        if len(shape) < 2 or 1 in shape:
            return ((0, rows * width),)
        panel = next(span for span in PANEL_BYTES if width % span == 0)
        panels = range(piece.byte0 // panel, -(-piece.byte1 // panel))
        return tuple(
            ((p * rows + piece.row0) * panel, (p * rows + piece.row1) * panel) for p in panels
        )

    def _row_bytes(self, region: str) -> int:
        of = self.plan.kernel.region[region]
        return of.shape[-1] * DTYPE_BITS[of.dtype] // 8

    def steps(self, operation: Operation) -> int:
        """Instructions of a product: each multiplies 32 bytes of a row."""
        part = self.plan.part(operation, "a")
        return part.columns * DTYPE_BITS[part.region.dtype] // 8 // 32

    def operand(
        self, operation: Operation, operand: str, case: Case, iteration: Turn | None
    ) -> list[Place]:
        """Where an operand of a product lies; none if that is in registers."""
        found = [
            access
            for access in self.plan.accesses(operation, operand)
            if self.program.store[access.store].space in (Space.SMEM, Space.TMEM)
        ]
        return [self.place(access, case, iteration) for access in found]

    def tile_operation(self, name: str) -> TileOperation:
        return self.program.operation[name]


def offset_in(place: Place, at: Array) -> int | None:
    """How far behind the beginning of a slot an address lies, if that is always the same."""
    offset = at - place.first
    first = int(offset.flat[0])
    return first if bool((offset == first).all()) else None


def inside(place: Place, at: Array) -> bool:
    """Whether all addresses lie in a slot."""
    return bool(((at >= place.first) & (at < place.first + place.size)).all())


def partition(parts: list[tuple[int, int]], offsets: list[int]) -> bool:
    """Whether pieces of one size that begin at ``offsets`` make up ``parts``."""
    total = sum(end - begin for begin, end in parts)
    if not offsets or total % len(offsets):
        return False
    before, positions = 0, list[int]()
    for begin, end in sorted(parts):
        positions += [before + o - begin for o in offsets if begin <= o < end]
        before += end - begin
    size = total // len(offsets)
    return sorted(positions) == list(np.arange(len(offsets)) * size)

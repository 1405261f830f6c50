"""Operations of a program: who executes them, what they touch, how long they take."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from schedgen.kernel import Space


class Engine(StrEnum):
    """Who executes an operation, once its role has come to it."""

    THREADS = "threads"
    """The threads of the role; complete when the next step begins."""
    TENSOR = "tensor"
    """The tensor queue of the CTA (tcgen05), in order; completion is known through a commit."""
    WGMMA = "wgmma"
    """The tensor queue of the issuing warpgroup, in order; completion is known through a
    wait_group.
    """
    COPY_IN = "copy in"
    """Bulk copies to shared memory, unordered; each reports its bytes to a barrier."""
    COPY_OUT = "copy out"
    """Bulk copies from shared memory, in order of issue for wait_groups by the issuing role."""

    @property
    def asynchronous(self) -> bool:
        return self is not Engine.THREADS


@dataclass(frozen=True, slots=True)
class Number:
    """``scale * c + offset``; c counts the iterations of all tiles so far, or the tiles."""

    scale: int = 1
    offset: int = 0
    per_tile: bool = False

    def at(self, tile: int, iteration: int) -> int:
        """The value in tile number ``tile``, at cumulative iteration ``iteration``."""
        return self.scale * (tile if self.per_tile else iteration) + self.offset

    @property
    def text(self) -> str:
        """``2c+3`` for iterations, ``t-1`` for tiles."""
        scale = "" if self.scale == 1 else str(self.scale)
        offset = f"{self.offset:+d}" if self.offset else ""
        return f"{scale}{'t' if self.per_tile else 'c'}{offset}"

    def moved(self, by: int) -> Number:
        return Number(self.scale, self.offset + by, self.per_tile)


@dataclass(frozen=True, slots=True)
class Allocation:
    """Storage with ``slots`` slots of ``rows`` times ``row_bytes``, at ``address``.

    Addresses are bytes in shared memory and columns in tensor memory; registers have none (-1).
    Several buffers may live in one allocation: the turns of a ring, tenants of a host.
    """

    name: str
    space: Space
    slots: int
    rows: int
    row_bytes: int
    address: int
    size: int
    """What all slots occupy: bytes, columns, or registers per thread."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How the four warps of a role divide what its threads touch.

    Warp w has the rows, or the bytes of each row, with ``coordinate // per_warp % 4 == w``. Two
    accesses with equal ``lanes`` give each element to the same thread of the warp; otherwise only
    the warp is known to be the same.
    """

    axis: Literal["rows", "bytes"]
    per_warp: int
    lanes: str


@dataclass(frozen=True, slots=True)
class Access:
    """Rows [row0, row1), bytes [byte0, byte1) of each row, in slot ``version mod slots``.

    Within one tile, accesses to the same bytes are meant to happen in the order of ``(version,
    *order)``, for storage that keeps its slot for a tile in the order of ``(section, iteration,
    *order)``; those of an earlier tile come before those of a later one. ``order`` is (tenant or
    not, iterations after the version was written, number in the spec). An access with ``initial`` n
    does not happen in the first n iterations of a tile, where the operation uses the initial value.

    ``spread`` says which threads of a role touch what; without one, any of them may touch any byte.
    Engines that are no threads have none.
    """

    allocation: str
    version: Number
    rows: tuple[int, int]
    bytes: tuple[int, int]
    write: bool
    order: tuple[int, int, int]
    buffer: str
    initial: int = 0
    spread: Spread | None = None

    def overlaps(self, other: Access) -> bool:
        return (
            self.allocation == other.allocation
            and max(self.rows[0], other.rows[0]) < min(self.rows[1], other.rows[1])
            and max(self.bytes[0], other.bytes[0]) < min(self.bytes[1], other.bytes[1])
        )


@dataclass(frozen=True, slots=True)
class TileOperation:
    """An operation of the kernel as the program sees it. Times are [low, high] cycles.

    ``busy``: cycles for which its in-order engine serves nothing else; ``units``: cycles of
    capacity that it takes from each unit of the machine.
    """

    name: str
    engine: Engine
    accesses: tuple[Access, ...]
    latency: tuple[int, int]
    hold: tuple[int, int]
    busy: int = 0
    units: tuple[tuple[str, int], ...] = ()


def taken(one: TileOperation, first: Access, other: TileOperation, second: Access) -> bool:
    """Whether ``other``, a product, needs registers that ``one``, a product before it, has for
    something else until it is complete: as its left operand, or for other results.

    ``first`` and ``second`` are accesses of theirs to registers. Products that add to the same tile
    may follow each other at once.
    """
    if not (first.overlaps(second) and (first.write or second.write)):
        return False
    results = [
        {access.buffer for access in operation.accesses if access.write}
        for operation in (one, other)
    ]
    return first.buffer != second.buffer or first.buffer not in results[0] & results[1]

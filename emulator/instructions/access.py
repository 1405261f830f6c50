"""How ld, st, atom, ldmatrix and their like reach bytes, and what the race checker hears of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from schedgen.emulator.instructions.operands import executing, spread
from schedgen.emulator.machine.addresses import resolver
from schedgen.emulator.machine.block import SharedMemory
from schedgen.emulator.machine.lanes import Lanes
from schedgen.emulator.machine.memory import Flat
from schedgen.emulator.machine.spots import Offsets, Spot, spot_of
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_CONSTANT = frozenset({"param", "param::entry", "const"})
"""Spaces that nobody writes, so that no order matters."""


@dataclass(frozen=True)
class Access:
    """Accesses of one instruction: ``count`` elements of ``width`` bytes in a row per lane.

    ``space`` is a state space, ``""`` for generic addresses. ``strong`` are accesses other than
    weak ones; ``acquire`` and ``release`` those with that ordering.
    """

    where: Instruction
    space: str
    width: int
    count: int
    strong: bool = False
    acquire: bool = False
    release: bool = False

    def load(self, warp: Warp, addresses: Lanes) -> Lanes:
        """(count, 32) elements; zero in lanes that do not execute."""
        return spread(warp, self.fetch(warp, executing(warp, addresses)))

    def store(self, warp: Warp, addresses: Lanes, values: Lanes) -> None:
        """Stores (count, 32) elements of the lanes that execute."""
        self.put(warp, executing(warp, addresses), executing_rows(warp, values))

    def fetch(self, warp: Warp, addresses: Lanes) -> Lanes:
        """(count, n) elements from n addresses."""
        parts = resolver(self.space)(warp, addresses, self.where)
        result: Any = None
        for flat, offsets, lanes in parts:
            values = flat.load(offsets, self.width, self.count, self.where)
            self.report(warp, flat, offsets, write=False)
            if lanes is None:
                return values
            if result is None:
                result = np.zeros((self.count, len(addresses)), values.dtype)
            result[:, lanes] = values
        return result

    def single(self, warp: Warp, addresses: Lanes) -> tuple[Flat, Spot] | None:
        """The memory that all addresses are in and what is known of the offsets, if that is
        known; they are checked then."""
        ((flat, offsets, _), *others) = resolver(self.space)(warp, addresses, self.where)
        if others or flat.origin or (spot := spot_of(offsets)) is None:
            return None
        flat.check(offsets, self.width * self.count, self.where)
        return flat, spot

    def put(self, warp: Warp, addresses: Lanes, values: Lanes) -> None:
        """Stores (count, n) elements to n addresses."""
        for flat, offsets, lanes in resolver(self.space)(warp, addresses, self.where):
            mine = values if lanes is None else values[:, lanes]
            same = warp.machine.tracking and flat.holds(offsets, mine, self.width, self.count)
            flat.store(offsets, mine, self.width, self.count, self.where)
            self.report(warp, flat, offsets, write=True, same=same)

    def report(
        self, warp: Warp, flat: Flat, offsets: Offsets, *, write: bool, same: bool = False
    ) -> None:
        """Checks rule B2 and tells the race checker of an ordinary access; ``same``: a write that
        left what was there."""
        size = self.width * self.count
        if isinstance(flat, SharedMemory):
            flat.plain(offsets, size, self.where)
        machine = warp.machine
        if machine.tracking and flat is not warp.local and self.space not in _CONSTANT:
            machine.tracker.generic(
                warp.number,
                flat.cells(offsets, size),
                write=write,
                line=self.where.line,
                atomic=self.strong,
                acquire=self.acquire,
                release=self.release,
                same=same,
            )


def executing_rows(warp: Warp, values: Lanes) -> Lanes:
    """(…, executing lanes) of (…, 32)."""
    return values if warp.full else values[..., warp.active]

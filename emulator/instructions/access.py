"""How ld, st, atom, ldmatrix and their like reach bytes, and what the race checker hears of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from schedgen.emulator.instructions.operands import executing, spread
from schedgen.emulator.machine.addresses import resolver
from schedgen.emulator.machine.block import SharedMemory
from schedgen.emulator.machine.lanes import EmulationError, Lanes, Read, gathered
from schedgen.emulator.machine.memory import Flat, Found
from schedgen.emulator.machine.spots import Offsets, Spot, spot_of, spot_of_all
from schedgen.emulator.native.elements import exchange
from schedgen.emulator.order.tracker import Cells
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_exchange = exchange()
_OWN = frozenset({"shared", "shared::cta"})
"""Spaces that are the shared memory of the executing CTA."""
_known: dict[tuple[bytes, int, int], tuple[Spot, Sequence[Offsets]]] = {}
"""By addresses of several warps in these, their bytes and how many warps there are, in a CTA that
is alone in its cluster."""
_KEPT = 4096
_CONSTANT = frozenset({"param", "param::entry", "const"})
"""Spaces that nobody writes, so that no order matters."""


class Several(NamedTuple):
    """Accesses of several warps to one shared memory: what is known of all offsets, and the cells
    of each warp and of all."""

    flat: SharedMemory
    spot: Spot
    cells: Sequence[Cells]
    whole: Cells


@dataclass(frozen=True)
class Access:
    """Accesses of one instruction: ``count`` elements of ``width`` bytes in a row per lane.

    ``space`` is a state space, ``""`` for generic addresses. ``strong`` are accesses other than
    weak ones; ``acquire`` and ``release`` those with that ordering; ``adds``: to what is there.
    """

    where: Instruction
    space: str
    width: int
    count: int
    strong: bool = False
    acquire: bool = False
    release: bool = False
    adds: bool = False

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
            if self.acquire and not self._counted(warp, flat, offsets):
                values = values - np.minimum(values, values.dtype.type(1))
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

    def several(self, warps: Sequence[Warp], read: Read, *, write: bool) -> Several | None:
        """The shared memory that the addresses of several warps are in, and what is known of the
        offsets; None where that is not known, or has to be looked at warp by warp. Then nothing
        has happened."""
        if self.strong:
            return None
        try:
            found = self._one_memory(warps, [read(warp) for warp in warps])
            if found is None:
                return None
            flat, spot, every = found
            flat.check(spot.offsets, self.width * self.count, self.where)
            flat.plain(spot.offsets, self.width * self.count, self.where)
        except EmulationError:
            return None  # it will be met again, in the warp whose fault it is
        if write and not spot.different:
            return None
        size = self.width * self.count
        cells, whole = spot.kept(
            (flat.cta, size),
            lambda: ([flat.cells(one, size) for one in every], flat.cells(spot.offsets, size)),
        )
        several = Several(flat, spot, cells, whole)
        machine, line = warps[0].machine, self.where.line
        numbers = [warp.number for warp in warps]
        if machine.tracking and not machine.tracker.together(
            numbers, cells, whole, write=write, line=line
        ):
            return None
        return several

    def _one_memory(
        self, warps: Sequence[Warp], lanes: Sequence[Lanes]
    ) -> tuple[SharedMemory, Spot, Sequence[Offsets]] | None:
        """The shared memory that addresses of several warps are in, what is known of all offsets,
        and those of each warp; None: there is no such one. Raises EmulationError."""
        block = warps[0].block
        key = None
        if self.space in _OWN and block.cluster.size == 1:  # addresses say all
            key = b"".join([one.tobytes() for one in lanes]), lanes[0].itemsize, len(lanes)
            known = _known.get(key)
            if known is not None:
                return block.shared, *known
        resolve = resolver(self.space)
        every: list[Offsets] = []
        memories: set[Flat] = set()
        for warp, mine in zip(warps, lanes, strict=True):
            ((flat, offsets, _), *others) = resolve(warp, mine, self.where)
            if others:
                return None
            every.append(offsets)
            memories.add(flat)
        (flat, *others), spot = memories, spot_of_all(every)
        if others or spot is None or not isinstance(flat, SharedMemory):
            return None
        if key is not None:
            if len(_known) >= _KEPT:
                _known.clear()
            _known[key] = spot, every
        return flat, spot, every

    def load_several(self, warps: Sequence[Warp], read: Read) -> Lanes | None:
        """(warps, count, 32) elements; None: nothing was done."""
        found = self.several(warps, read, write=False)
        if found is None:
            return None
        values = found.flat.views[self.width][self._elements(found)]
        self.report_several(warps, write=False)
        return values

    def store_several(self, warps: Sequence[Warp], read: Read, values: Sequence[Lanes]) -> bool:
        """Stores (count, 32) elements of each warp; False: nothing was done."""
        found = self.several(warps, read, write=True)
        if found is None:
            return False
        rows = gathered(values).reshape(len(warps), self.count, -1)
        self.put_several(warps, found, self.width, self._elements(found), rows)
        return True

    def put_several(
        self, warps: Sequence[Warp], found: Several, width: int, index: Offsets, values: Lanes
    ) -> None:
        """Puts (warps, …) elements of ``width`` bytes."""
        view = found.flat.views[width]
        same = [False] * len(warps)
        bits = _exchange(view, index, values, len(warps))
        if bits is not None:
            same = [bool(bits >> at & 1) for at in range(len(warps))]
            self.report_several(warps, write=True, same=same)
            return
        if warps[0].machine.tracking:
            equal = (view[index] == values).tobytes()
            size = len(equal) // len(warps)
            same = [0 not in equal[at : at + size] for at in range(0, len(equal), size)]
        view[index] = values
        self.report_several(warps, write=True, same=same)

    def report_several(
        self, warps: Sequence[Warp], *, write: bool, same: Sequence[bool] = ()
    ) -> None:
        """Tells the race checker of an access of each of some warps."""
        machine = warps[0].machine
        if machine.tracking:
            machine.tracker.entered(
                write=write, line=self.where.line, same=same or [False] * len(warps)
            )

    def _elements(self, found: Several) -> Offsets:
        """(warps, count, lanes) numbers of elements."""

        def elements(offsets: Offsets) -> Offsets:
            each = offsets.reshape(len(found.cells), 1, -1) // self.width
            return each + np.arange(self.count)[:, None]

        return found.spot.index((len(found.cells), self.width, self.count), elements)

    def put(self, warp: Warp, addresses: Lanes, values: Lanes) -> None:
        """Stores (count, n) elements to n addresses."""
        for flat, offsets, lanes in resolver(self.space)(warp, addresses, self.where):
            mine = values if lanes is None else values[:, lanes]
            found = None
            if warp.machine.tracking:
                found = flat.found(offsets, mine, self.width, self.count)
            flat.store(offsets, mine, self.width, self.count, self.where)
            self.report(warp, flat, offsets, write=True, found=found)

    def _counted(self, warp: Warp, flat: Flat, offsets: Offsets) -> bool:
        """Whether what is read with ``.acquire`` is what is there: see `predecessor_count`."""
        machine = warp.machine
        if not machine.tracking or self.count > 1 or isinstance(flat, SharedMemory):
            return True
        return machine.tracker.predecessor_count(warp.number, flat.cells(offsets, self.width))

    def report(
        self,
        warp: Warp,
        flat: Flat,
        offsets: Offsets,
        *,
        write: bool,
        found: Found | None = None,
    ) -> None:
        """Checks rule B2 and tells the race checker of an ordinary access; ``found``: what a write
        found in memory, where that is known."""
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
                adds=self.adds,
                same=found is not None and found.same,
                changed=None if found is None else found.changed,
            )


def executing_rows(warp: Warp, values: Lanes) -> Lanes:
    """(…, executing lanes) of (…, 32)."""
    return values if warp.full else values[..., warp.active]

"""Byte memories that lanes read and write: host memory in registered ranges, and what derives.

Addresses in kernel parameters and tensor maps are those of CPU tensors, so global memory is host
memory, seen through numpy views. An access outside of every registered range is an error that
names the nearest one.
"""

from __future__ import annotations

import bisect
import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.machine.lanes import EmulationError, Lanes
from schedgen.emulator.machine.spots import Offsets, Spot, spot_of
from schedgen.emulator.order.tracker import Cells, Space
from schedgen.emulator.ptx.tree import Instruction

_ALIGN = 16  # of the base of the views: the widest access
_WIDEST = np.dtype(f"V{_ALIGN}")
_COUNTS: dict[int, Any] = {n: np.arange(n, dtype=np.int64)[:, None] for n in (1, 2, 4, 8, 16)}


class Flat:
    """A range of bytes. Offsets count from its first byte.

    Args:
        data: the bytes, from ``base`` on; its memory begins at a multiple of 16 bytes.
        skip: bytes of ``data`` before the first one that may be accessed.
        size: bytes that may be accessed.
        name: for messages, as ``tensor 'C'``.
        cta: number of the CTA whose memory it is, or -1.
        origin: what to add to an offset for the index that the race checker gets.
    """

    def __init__(
        self,
        data: NDArray[np.uint8],
        size: int,
        name: str,
        space: Space,
        *,
        skip: int = 0,
        cta: int = -1,
        origin: int = 0,
    ) -> None:
        whole = data[: len(data) // _ALIGN * _ALIGN]
        self.views: dict[int, Any] = {
            1: whole, 2: whole.view(np.uint16), 4: whole.view(np.uint32), 8: whole.view(np.uint64),
            16: whole.view(_WIDEST),
        }  # fmt: skip
        self.bytes = data[skip : skip + size]
        """The accessible bytes, for copies."""
        self.size = size
        self.name = name
        self.space = space
        self.cta = cta
        self.origin = origin
        self._skip = skip

    @classmethod
    def private(cls, size: int, name: str) -> Flat:
        """Memory of its own, zero, that is not shared: the race checker need not know it."""
        return cls(np.zeros(-(-size // _ALIGN) * _ALIGN, np.uint8), size, name, Space.GLOBAL)

    def check(
        self, offsets: Offsets, size: int, where: Instruction, align: int | None = None
    ) -> None:
        """Checks that accesses of ``size`` bytes are inside, and aligned to their size.

        Args:
            offsets: where they begin; at least one.
            size: bytes of each.
            where: the instruction, for messages.
            align: what their addresses must be a multiple of, if not of ``size``.

        Raises:
            EmulationError: one is not.
        """
        spot = spot_of(offsets) or Spot(offsets)
        low, high = spot.low, spot.high
        if low < 0 or high + size > self.size:
            raise EmulationError(
                f"PTX line {where.line}: {where.name}: {size} bytes at offset "
                f"{low if low < 0 else high} of {self.name}, which has {self.size} bytes; check "
                "the address arithmetic, or the shapes of the tensors passed"
            )
        align = align or size
        joined = spot.joined
        if self.origin % align:
            joined = 0
            for lane in offsets.tolist():
                joined |= lane + self.origin
        if joined % align:
            bad = next(lane for lane in offsets.tolist() if (lane + self.origin) % align)
            raise EmulationError(
                f"PTX line {where.line}: {where.name}: address {bad + self.origin:#x} ({bad} bytes "
                f"into {self.name}) is not a multiple of {align} bytes"
            )

    def load(self, offsets: Offsets, width: int, count: int, where: Instruction) -> Lanes:
        """(count, lanes) elements of ``width`` bytes, ``count`` in a row from each offset."""
        self.check(offsets, width * count, where)
        view = self.views[width]
        return view[self._index(offsets, width, count)]

    def store(
        self, offsets: Offsets, values: Lanes, width: int, count: int, where: Instruction
    ) -> None:
        """Puts (count, lanes) elements. Of lanes with one address the last wins."""
        self.check(offsets, width * count, where)
        self.views[width][self._index(offsets, width, count)] = values

    def found(self, offsets: Offsets, values: Lanes, width: int, count: int) -> Found | None:
        """What (count, lanes) elements find that are about to be put; None: not all of them are in
        the range and aligned."""
        spot = spot_of(offsets)
        if spot is not None and not self.origin:
            low, high, aligned = spot.low, spot.high + width * count, not spot.joined % width
        else:
            low, high = int(offsets.min()), int(offsets.max()) + width * count
            aligned = not ((offsets + self.origin) % width).any()
        if low < 0 or high > self.size or not aligned:
            return None
        return self.finds(self._index(offsets, width, count), values, width)

    def finds(self, index: Offsets, values: Lanes, width: int) -> Found:
        """What elements of ``width`` bytes find in places of the view of these."""
        before = self.views[width][index]
        same = 0 not in (before == values).tobytes()
        return Found(same, index, before, values, self.origin - self._skip)

    def cells(self, offsets: Offsets, size: int) -> Cells:
        """What an access of ``size`` bytes from each offset touches."""
        index = offsets + self.origin if self.origin else offsets
        return Cells(self.space, self.cta, index, size)

    def _index(self, offsets: Offsets, width: int, count: int) -> Offsets:
        if self._skip:
            offsets = offsets + self._skip
        elif (spot := spot_of(offsets)) is not None:
            return spot.index((width, count), lambda o: _COUNTS[count] + o // width)
        elements = offsets // width if width > 1 else offsets
        return _COUNTS[count] + elements


class Found:
    """What a write of elements finds in memory.

    Attributes:
        same: all that it writes.
    """

    __slots__ = ("_before", "_index", "_shift", "_values", "same")

    def __init__(
        self, same: bool, index: Offsets, before: Lanes, values: Lanes, shift: int
    ) -> None:
        self.same = same
        self._index = index
        self._before = before
        self._values = values
        self._shift = shift

    def changed(self) -> Offsets:
        """The bytes in which it finds something else, as the race checker numbers them. Of lanes
        that write one byte each has to find its own value there."""
        before, width = self._before, self._before.dtype.itemsize
        values = np.ascontiguousarray(np.broadcast_to(self._values, before.shape))
        values = values.astype(before.dtype, copy=False)
        differ = np.ascontiguousarray(before).view(np.uint8) != values.view(np.uint8)
        first = self._index * width + self._shift
        every = first[..., None] + np.arange(width)
        return np.unique(every[differ.reshape(every.shape)])


class HostMemory:
    """Global memory: registered ranges of the memory of this process."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._regions: list[Flat] = []
        self._released: set[int] = set()
        self._slack: set[int] = set()
        self.on_released: Callable[[Instruction, Flat], None] | None = None
        """Told of accesses to ranges that are registered as released."""
        self.on_slack: Callable[[Instruction, Flat], None] | None = None
        """Told of accesses to ranges that are registered as no tensor's."""

    def register(
        self, address: int, size: int, name: str, *, released: bool = False, slack: int = 0
    ) -> Flat:
        """Makes ``size`` bytes at a host address accessible to kernels.

        The caller keeps them alive. A range that is registered already may be registered again.
        Behind it are ``slack`` bytes, as allocators round up, that no kernel has a right to.

        Raises:
            EmulationError: the range overlaps another one.
        """
        if size <= 0:
            raise EmulationError(f"{name} has {size} bytes; a range needs at least one")
        at = bisect.bisect_left(self._starts, address)
        if at < len(self._starts) and self._starts[at] == address:
            same = self._regions[at]
            if same.size == size:
                return same
        for other in self._regions[max(at - 1, 0) : at + 1]:
            if other.origin < address + size and address < other.origin + other.size:
                raise EmulationError(
                    f"{name} at {address:#x} ({size} bytes) overlaps {other.name} at "
                    f"{other.origin:#x} ({other.size} bytes); register the storage once, as a whole"
                )
        skip = address % _ALIGN
        # The views begin and end at multiples of 16 bytes; `check` keeps accesses inside.
        whole = -(-(skip + size) // _ALIGN) * _ALIGN
        raw = (ctypes.c_uint8 * whole).from_address(address - skip)
        data: NDArray[np.uint8] = np.ctypeslib.as_array(raw)
        region = Flat(data, size, name, Space.GLOBAL, skip=skip, origin=address)
        self._starts.insert(at, address)
        self._regions.insert(at, region)
        if released:
            self._released.add(address)
        if slack:
            self.register(address + size, slack, f"what is behind {name}")
            self._slack.add(address + size)
        return region

    def map(self, address: int, data: NDArray[np.uint8], size: int, name: str) -> Flat:
        """Makes ``size`` bytes of ``data``, whose memory begins at a multiple of 16 bytes, be at an
        address where no memory of the process is."""
        region = Flat(data, size, name, Space.GLOBAL, origin=address)
        at = bisect.bisect_left(self._starts, address)
        self._starts.insert(at, address)
        self._regions.insert(at, region)
        return region

    def unregister(self, address: int) -> None:
        """Forgets the range that starts at an address."""
        at = self._starts.index(address)
        del self._starts[at], self._regions[at]

    def find(self, address: int) -> Flat | None:
        """The range that contains an address."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        region = self._regions[at]
        return region if address < region.origin + region.size else None

    def region(self, address: int, where: Instruction) -> Flat:
        """The range that contains an address.

        Raises:
            EmulationError: there is none.
        """
        region = self.find(address)
        if region is None:
            raise EmulationError(
                f"PTX line {where.line}: {where.name}: address {address:#x} is in no registered "
                f"tensor{self._nearest(address)}"
            )
        if region.origin in self._released and self.on_released is not None:
            self.on_released(where, region)
        if region.origin in self._slack and self.on_slack is not None:
            self.on_slack(where, region)
        return region

    def _nearest(self, address: int) -> str:
        if not self._regions:
            return "; none is registered"
        near = min(self._regions, key=lambda region: _distance(region, address))
        side = "before the start" if address < near.origin else "behind the end"
        distance = _distance(near, address)
        return f"; it is {distance} {'byte' if distance == 1 else 'bytes'} {side} of {near.name}"


def _distance(region: Flat, address: int) -> int:
    if address < region.origin:
        return region.origin - address
    return address - (region.origin + region.size)

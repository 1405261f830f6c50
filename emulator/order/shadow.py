"""Per cell of one memory: who wrote it last, and who accessed it since.

The number of an access (`records.Records`) is stored in each cell that it touched. A plain write
takes the place of everything before it: what comes after the write and is ordered after it, is
ordered after that too. Reads, and atomic writes, are kept per agent, the last one of each.
"""

from __future__ import annotations

from enum import IntEnum
from math import gcd
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.order.places import Place, Span, divided

Numbers = NDArray[np.int32]
PAGE = 12  # log2 of the cells that one bit of a set of pages stands for
UNIT = 16
"""Cells that are kept as one to begin with."""
_FEW = 64
"""Numbers that are compared faster without numpy."""


class Manner(IntEnum):
    """Accesses that do not take the place of others."""

    READ = 0
    ATOMIC_READ = 1
    ATOMIC_WRITE = 2


EVERY = tuple(Manner)
ATOMIC_WRITES = (Manner.ATOMIC_WRITE,)

Key = tuple[int, int, Manner]
"""Cluster and column of the agent, and manner."""


class Layer(Protocol):
    """Some accesses of a shadow."""

    def overlap(self, place: Place, number: int) -> NDArray[np.int64]:
        """The cells of a place that access ``number`` touched."""
        ...


class Shadow(Protocol):
    """The shadow of one memory, or of a part of it. ``pages`` are those of the place.

    Attributes:
        changes: how often accesses were entered.
    """

    changes: int

    def last_writes(self, place: Place) -> list[int]:
        """The numbers of the last plain writes of these cells, 0 for cells without one."""
        ...

    @property
    def written(self) -> Layer:
        """The last plain writes."""
        ...

    def touches(
        self, place: Place, pages: int, manners: tuple[Manner, ...]
    ) -> list[tuple[Layer, int]]:
        """The other accesses to these cells."""
        ...

    def write(self, place: Place, pages: int, number: int) -> None:
        """A plain write takes the place of everything; 0: the cells are as new."""
        ...

    def touch(self, key: Key, place: Place, pages: int, number: int) -> None:
        """Any other access."""
        ...


class Dense:
    """The accesses of one agent in one manner, or all plain writes, by aligned groups of ``unit``
    cells."""

    __slots__ = ("manner", "numbers", "pages", "unit")

    def __init__(self, size: int, manner: Manner | None = None, unit: int = 1) -> None:
        self.numbers: Numbers = np.zeros(size // unit, np.int32)
        self.manner = manner
        self.unit = unit
        self.pages = 0
        """Bit set of pages in which there may be any."""

    def overlap(self, place: Place, number: int) -> NDArray[np.int64]:
        return place.cells()[place.get(np.repeat(self.numbers, self.unit)) == number]

    def refine(self, unit: int) -> None:
        """Goes over to smaller groups."""
        self.numbers = np.repeat(self.numbers, self.unit // unit)
        self.unit = unit


class DenseShadow:
    """Shared or tensor memory: few agents, and all of it is used.

    Nearly all accesses are to aligned groups of 4 or 16 cells, which are kept as one as long as
    none has touched a part of such a group.

    Args:
        size: cells.
        unit: of the groups.
    """

    def __init__(self, size: int, unit: int = UNIT) -> None:
        self._size = size
        self.changes = 0
        self.unit = gcd(size, unit)
        self._written = Dense(size, unit=self.unit)
        self._touched: dict[Key, Dense] = {}
        self._atomics = False

    @property
    def written(self) -> Layer:
        return self._written

    def everything(self) -> list[tuple[Layer, int]]:
        """The last accesses to all cells."""
        layers = [self._written, *self._touched.values()]
        return [(one, n) for one in layers for n in distinct(one.numbers) if n]

    def last_writes(self, place: Place) -> list[int]:
        return distinct(self._groups(place).get(self._written.numbers))

    def touches(
        self, place: Place, pages: int, manners: tuple[Manner, ...]
    ) -> list[tuple[Layer, int]]:
        found: list[tuple[Layer, int]] = []
        if manners is ATOMIC_WRITES and not self._atomics:
            return found
        place = self._groups(place)
        for touched in self._touched.values():
            if touched.pages & pages and touched.manner in manners:
                numbers = distinct(place.get(touched.numbers))
                found += [(touched, number) for number in numbers if number]
        return found

    def write(self, place: Place, pages: int, number: int) -> None:
        self.changes += 1
        groups = self._groups(place)
        groups.put(self._written.numbers, number)
        inner = -1
        for touched in self._touched.values():
            if touched.pages & pages:
                if inner < 0:
                    inner = _inner_pages(place)
                groups.put(touched.numbers, 0)
                touched.pages &= ~inner

    def touch(self, key: Key, place: Place, pages: int, number: int) -> None:
        self.changes += 1
        place = self._groups(place)
        touched = self._touched.get(key)
        if touched is None:
            touched = self._touched[key] = Dense(self._size, key[2], self.unit)
            self._atomics |= key[2] is Manner.ATOMIC_WRITE
        place.put(touched.numbers, number)
        touched.pages |= pages
        if touched.manner is Manner.ATOMIC_WRITE:
            self._initialize(place, number)

    def _groups(self, place: Place) -> Place:
        """The groups that a place consists of, which may have to become smaller."""
        if place.scaled is not None and place.scaled[0] == self.unit:
            return place.scaled[1]
        if place.grain % self.unit:
            self.unit = gcd(place.grain, self.unit)
            for layer in (self._written, *self._touched.values()):
                layer.refine(self.unit)
        return divided(place, self.unit)

    def _initialize(self, place: Place, number: int) -> None:
        """An atomic write, too, is the first write of cells that had none."""
        before = place.get(self._written.numbers)
        if not before.all():
            place.put(self._written.numbers, np.where(before == 0, number, before))


def distinct(numbers: Numbers) -> list[int]:
    """The different values, ascending. They come in runs."""
    if numbers.size <= _FEW:
        bits = numbers.tobytes()
        if bits == bits[:4] * numbers.size:
            return [numbers.item(0)] if bits else []
        return sorted(set(numbers.tolist()))
    first = int(numbers[0])
    changes = numbers[1:] != numbers[:-1]
    if 1 not in changes.tobytes():  # several times faster than any()
        return [first]
    found = set(numbers[1:][changes].tolist())
    found.add(first)
    return sorted(found)


def pages_of(place: Place) -> int:
    """The bit set of the pages in which a place may have cells."""
    start, stop = place.bounds()
    first, last = start >> PAGE, (stop - 1) >> PAGE
    return ((1 << (last - first + 1)) - 1) << first


def _inner_pages(place: Place) -> int:
    """The pages all of whose cells belong to the place, if that is easily seen."""
    if not isinstance(place, Span):
        return 0
    first, last = -(-place.start >> PAGE), place.stop >> PAGE
    return ((1 << (last - first)) - 1) << first if last > first else 0

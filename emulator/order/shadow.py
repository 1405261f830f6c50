"""Per cell of one memory: who wrote it last, and who accessed it since.

The number of an access (`records.Records`) is stored in each cell that it touched. A plain write
takes the place of everything before it: what comes after the write and is ordered after it, is
ordered after that too. Reads, and atomic writes, are kept per agent, the last one of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from math import gcd
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.native.rows import Rows
from schedgen.emulator.order.dense import Dense
from schedgen.emulator.order.places import Place, Span, divided
from schedgen.emulator.order.records import Entry

PAGE = 12  # log2 of the cells that one bit of a set of pages stands for
UNIT = 16
"""Cells that are kept as one to begin with."""
_NOBODY = [0]
"""Numbers of cells that nobody has touched."""
_FEW_CELLS, _FEW_GROUPS = 64, 64
"""Cells of an access, and groups whose cells differ, up to which groups stay as large as they
are."""


class Manner(IntEnum):
    """Accesses that do not take the place of others."""

    READ = 0
    ATOMIC_READ = 1
    ATOMIC_WRITE = 2


EVERY = tuple(Manner)
_ATOMIC_WRITE = Manner.ATOMIC_WRITE  # which Python 3.11 finds faster
ATOMIC_WRITES = (Manner.ATOMIC_WRITE,)

Key = tuple[int, int, Manner]
"""Cluster and column of the agent, and manner."""


class Layer(Protocol):
    """Some accesses of a shadow."""

    def overlap(self, place: Place, number: int) -> NDArray[np.int64]:
        """The cells of a place that access ``number`` touched."""
        ...


Touches = Sequence[tuple[Layer, int]]
"""Accesses, by the layer that they are in and their number."""


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

    def touches(self, place: Place, pages: int, manners: tuple[Manner, ...]) -> Touches:
        """The other accesses to these cells."""
        ...

    def write(self, place: Place, pages: int, number: int, before: Touches) -> None:
        """A plain write takes the place of everything; 0: the cells are as new. ``before`` are all
        other accesses to these cells, as `touches` finds them."""
        ...

    def touch(self, key: Key, place: Place, pages: int, number: int) -> None:
        """Any other access."""
        ...


class Touched(Dense):
    """The accesses of one agent in one manner."""

    __slots__ = ("manner", "pages")

    def __init__(self, size: int, manner: Manner, unit: int) -> None:
        super().__init__(size, unit)
        self.manner = manner
        self.pages = 0
        """Bit set of pages in which there may be any."""


class Order(NamedTuple):
    """What a plain access by an agent is ordered after.

    Attributes:
        cluster: of the agent.
        vector: per column of the cluster, the clock up to which it is ordered after that agent.
        entries: all accesses by number.
        cta: where earlier writes by others matter although they are ordered before; else -1.
    """

    cluster: int
    vector: NDArray[np.int32]
    entries: Sequence[Entry]
    cta: int

    def after(self, numbers: Sequence[int] | None, fresh: bool) -> bool:
        """Whether nothing is to be said of earlier accesses. ``fresh``: nor if there is none."""
        if numbers is None:
            return False
        cluster, vector, entries, cta = self
        size = vector.size
        for number in numbers:
            if number > 0:
                agent, clock, origin, _ = entries[number]
                column = agent.column
                if agent.cluster != cluster or column >= size or vector.item(column) < clock:
                    return False
                if cta >= 0 and origin.cta != cta:
                    return False
            elif number or not fresh:
                return False
        return True


class DenseShadow:
    """Shared or tensor memory: few agents, and all of it is used.

    Nearly all accesses are to aligned groups of cells, which are kept as one as long as hardly any
    touches a part of such a group.

    Args:
        size: cells.
        unit: of the groups.
    """

    def __init__(self, size: int, unit: int = UNIT) -> None:
        self._size = size
        self.changes = 0
        self.unit = gcd(size, unit)
        self._grain = size
        """What all places consist of that were not of whole groups."""
        self._written = Dense(size, self.unit)
        self._touched: dict[Key, Touched] = {}
        self.atomics = False
        """Whether there were atomic writes."""

    @property
    def written(self) -> Layer:
        return self._written

    def entered(
        self,
        place: Place,
        pages: int,
        number: int,
        key: Key | None,
        order: Order,
        touched: bool,
    ) -> bool:
        """Enters an access if nothing is to be said of it: all before it is ordered before it by
        what `order` says, and nothing unusual is in its place. That is what nearly all accesses
        are, at a fraction of the time of looking closely; else False, and nothing is done.

        Args:
            place, pages: where it is.
            number: of the access.
            key: None of a plain write; of a read, where it is kept.
            order: what it is ordered after.
            touched: whether it may conflict with other accesses than plain writes.
        """
        scaled = place.scaled
        if not scaled or scaled[0] != self.unit:
            return False
        rows = scaled[1].known
        if type(rows) is not Rows or not order.after(
            rows.found(self._written.numbers), key is None
        ):
            return False
        layers: list[Touched] = []
        if touched:
            for layer in self._touched.values():
                if layer.pages & pages:
                    found = rows.found(layer.numbers)
                    if found != _NOBODY:
                        if not order.after(found, True):
                            return False
                        layers.append(layer)
        if key is None:
            rows.put(self._written.numbers, number)
            for layer in layers:
                rows.put(layer.numbers, 0)
            if type(place) is Span and (inner := _inner_pages(place)):
                for layer in self._touched.values():
                    layer.pages &= ~inner
        else:
            mine = self._touched.get(key)
            if mine is None:
                return False
            rows.put(mine.numbers, number)
            mine.pages |= pages
        self.changes += 1
        return True

    def everything(self) -> list[tuple[Layer, int]]:
        """The last accesses to all cells."""
        return [(one, n) for one in self._layers() for n in one.every() if n]

    def last_writes(self, place: Place) -> list[int]:
        scaled = place.scaled
        groups = scaled[1] if scaled and scaled[0] == self.unit else self._groups(place)
        written = self._written
        return written.found_in(place.cells()) if groups is None else written.found(groups)

    def touches(self, place: Place, pages: int, manners: tuple[Manner, ...]) -> Touches:
        if manners is ATOMIC_WRITES and not self.atomics:
            return ()
        found: list[tuple[Layer, int]] = []
        scaled = place.scaled
        groups = scaled[1] if scaled and scaled[0] == self.unit else self._groups(place)
        for touched in self._touched.values():
            if touched.pages & pages and touched.manner in manners:
                whole = groups is not None
                numbers = touched.found(groups) if whole else touched.found_in(place.cells())
                if numbers != _NOBODY:
                    found += [(touched, number) for number in numbers if number]
        return found

    def write(self, place: Place, pages: int, number: int, before: Touches) -> None:
        self.changes += 1
        scaled = place.scaled
        groups = scaled[1] if scaled and scaled[0] == self.unit else self._groups(place)
        layers: dict[int, Touched] = {}
        if before:
            layers = {id(layer): layer for layer, _ in before if isinstance(layer, Touched)}
        if groups is None:
            self._written.put_in(place.cells(), number)
            for layer in layers.values():
                layer.put_in(place.cells(), 0)
            return
        self._written.put(groups, number)
        for layer in layers.values():
            layer.put(groups, 0)
        if type(place) is Span and (inner := _inner_pages(place)):
            for touched in self._touched.values():
                touched.pages &= ~inner

    def written_over(self, place: Place, number: int) -> bool:
        """As `write`, where that is simple and nothing but plain writes came before; else False."""
        scaled = place.scaled
        if not scaled or scaled[0] != self.unit or place.count >> PAGE:
            return False
        rows = scaled[1].known
        if type(rows) is not Rows or rows.put(self._written.numbers, number) is False:
            return False
        self.changes += 1
        return True

    def touch(self, key: Key, place: Place, pages: int, number: int) -> None:
        self.changes += 1
        scaled = place.scaled
        groups = scaled[1] if scaled and scaled[0] == self.unit else self._groups(place)
        touched = self._touched.get(key)
        if touched is None:
            touched = self._touched[key] = Touched(self._size, key[2], self.unit)
            self.atomics |= key[2] is _ATOMIC_WRITE
        if groups is None:
            touched.put_in(place.cells(), number)
        else:
            touched.put(groups, number)
        touched.pages |= pages
        if touched.manner is _ATOMIC_WRITE:  # the first write of cells that had none
            self._written.initialize(place, groups, number)

    def _layers(self) -> list[Dense]:
        return [self._written, *self._touched.values()]

    def _groups(self, place: Place) -> Place | None:
        """The groups that a place consists of, which may have to become smaller; None: it has
        parts of some, and there are few of these."""
        if place.scaled is not None and place.scaled[0] == self.unit:
            return place.scaled[1]
        if place.grain % self.unit:
            self._grain = gcd(self._grain, place.grain)
            layers = self._layers()
            if place.count <= _FEW_CELLS and all(one.mixed <= _FEW_GROUPS for one in layers):
                return None
            self.unit = gcd(self._grain, self.unit)
            for layer in layers:
                layer.refine(self.unit)
        return divided(place, self.unit)


def pages_of(place: Place) -> int:
    """The bit set of the pages in which a place may have cells."""
    start, stop = place.bounds()
    first, last = start >> PAGE, (stop - 1) >> PAGE
    return ((1 << (last - first + 1)) - 1) << first


def _inner_pages(place: Span) -> int:
    """The pages all of whose cells belong to the place."""
    first, last = -(-place.start >> PAGE), place.stop >> PAGE
    return ((1 << (last - first)) - 1) << first if last > first else 0

"""Per cell of one memory: who wrote it last, and who accessed it since.

The number of an access (`records.Records`) is stored in each cell that it touched. A plain write
takes the place of everything before it: what comes after the write and is ordered after it, is
ordered after that too. Reads, and atomic writes, are kept per agent, the last one of each.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.order.places import Blocks, Place, Span

Numbers = NDArray[np.int32]
_PAGE = 11  # log2 of the cells that one bit of `Touched.pages` stands for
_PAGE_CELLS = 1 << _PAGE


class Manner(IntEnum):
    """Accesses that do not take the place of others."""

    READ = 0
    ATOMIC_READ = 1
    ATOMIC_WRITE = 2


class Touched:
    """The accesses of one agent in one manner."""

    __slots__ = ("manner", "numbers", "pages")

    def __init__(self, size: int, manner: Manner) -> None:
        self.numbers: Numbers = np.zeros(size, np.int32)
        self.manner = manner
        self.pages = 0
        """Bit set of pages in which there may be any."""


class Shadow:
    """The shadow of one memory, or of a part of global memory.

    Args:
        size: cells.
        lazy: keep what is read in a list until somebody writes; most of global memory is only read.
    """

    def __init__(self, size: int, *, lazy: bool = False) -> None:
        self.size = size
        self.writer: Numbers | None = None if lazy else np.zeros(size, np.int32)
        self.touched: dict[tuple[int, int, Manner], Touched] = {}
        """By cluster and column of the agent, and manner."""
        self._unwritten: dict[object, tuple[tuple[int, int, Manner], Place, int]] = {}

    def last_writes(self, place: Place) -> list[int]:
        """The numbers of the last plain writes of these cells, 0 for cells without one."""
        if self.writer is None:
            return []
        return distinct(place.get(self.writer))

    def touches(
        self, place: Place, pages: int, manners: tuple[Manner, ...]
    ) -> list[tuple[Touched, list[int]]]:
        """The other accesses to these cells, by agent and manner."""
        if self.writer is None and Manner.READ in manners:
            self._write_begins()
        return [
            (touched, distinct(place.get(touched.numbers)))
            for touched in self.touched.values()
            if touched.pages & pages and touched.manner in manners
        ]

    def write(self, place: Place, pages: int, number: int) -> None:
        """A plain write takes the place of everything."""
        if self.writer is None:
            self._write_begins()
        assert self.writer is not None
        place.put(self.writer, number)
        for touched in self.touched.values():
            if touched.pages & pages:
                place.put(touched.numbers, 0)
                touched.pages &= ~_inner_pages(place)

    def touch(
        self, agent: tuple[int, int], manner: Manner, place: Place, pages: int, number: int
    ) -> None:
        """Any other access."""
        key = (*agent, manner)
        if self.writer is None and manner is not Manner.ATOMIC_WRITE:
            name = key, _token(place)
            self._unwritten.pop(name, None)  # the latest goes last
            self._unwritten[name] = key, place, number
            return
        if self.writer is None:
            self._write_begins()
        self._touch(key, place, pages, number)

    def initialize(self, place: Place, number: int) -> None:
        """An atomic write, too, is the first write of cells that had none."""
        if self.writer is not None:
            before = place.get(self.writer)
            if not before.all():
                place.put(self.writer, np.where(before == 0, number, before))

    def _touch(self, key: tuple[int, int, Manner], place: Place, pages: int, number: int) -> None:
        touched = self.touched.get(key)
        if touched is None:
            touched = self.touched[key] = Touched(self.size, key[2])
        place.put(touched.numbers, number)
        touched.pages |= pages

    def _write_begins(self) -> None:
        self.writer = np.zeros(self.size, np.int32)
        for key, place, number in self._unwritten.values():
            self._touch(key, place, pages_of(place), number)
        self._unwritten.clear()


def distinct(numbers: Numbers) -> list[int]:
    """The different values, ascending. They come in runs."""
    first = int(numbers[0])
    changes = (numbers[1:] != numbers[:-1]).nonzero()[0]
    if changes.size == 0:
        return [first]
    found = set(numbers[changes + 1].tolist())
    found.add(first)
    return sorted(found)


def pages_of(place: Place) -> int:
    """The bit set of the pages in which a place may have cells."""
    start, stop = place.bounds()
    first, last = start >> _PAGE, (stop - 1) >> _PAGE
    return ((1 << (last - first + 1)) - 1) << first


def _inner_pages(place: Place) -> int:
    """The pages all of whose cells belong to the place, if that is easily seen."""
    if not isinstance(place, Span):
        return 0
    first, last = -(-place.start >> _PAGE), place.stop >> _PAGE
    return ((1 << (last - first)) - 1) << first if last > first else 0


def _token(place: Place) -> object:
    """Equal for the same place twice."""
    if isinstance(place, Blocks) and place.index.size <= _PAGE_CELLS:
        return place.width, place.index.tobytes()
    return place

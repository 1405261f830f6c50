"""The shadow of global memory: very many agents, most of which read what nobody ever writes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.order.dense import Dense
from schedgen.emulator.order.places import Blocks, Place
from schedgen.emulator.order.shadow import Key, Layer, Manner, Touches, pages_of

# Python 3.11 takes as long to find a member in its enumeration as for several calls.
_READ, _ATOMIC_WRITE = Manner.READ, Manner.ATOMIC_WRITE

_TOGETHER = 4
_GROUP = (1 << _TOGETHER) - 1
"""Pages that share a list of entries: boxes have rows far apart, in many pages."""
_SMALL = 2048  # entries of an index that is compared with others by its contents


class _Entry:
    """The last access of one agent, in one manner, to a place or what is left of it."""

    __slots__ = ("key", "name", "number", "pages", "place")

    def __init__(self, key: Key, place: Place, pages: int, number: int, name: object) -> None:
        self.key = key
        self.place = place
        self.pages = pages
        self.number = number
        self.name = name

    def overlap(self, place: Place, number: int) -> NDArray[np.int64]:
        assert number == self.number
        return np.intersect1d(place.cells(), self.place.cells())


class SparseShadow:
    """A part of global memory. Plain writes are kept by cell, all else as a list by page.

    Args:
        size: cells.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self.changes = 0
        self._written: Dense | None = None
        self._marks: NDArray[np.bool_] | None = None
        self._entries: dict[object, _Entry] = {}
        self._pages: dict[int, dict[object, _Entry]] = {}
        self._atomics = False

    @property
    def written(self) -> Layer:
        return self._numbers()

    def last_writes(self, place: Place) -> list[int]:
        return [0] if self._written is None else self._written.found(place)

    def touches(self, place: Place, pages: int, manners: tuple[Manner, ...]) -> Touches:
        if _READ not in manners and not self._atomics:
            return []
        near = [entry for entry in self._near(pages) if entry.key[2] in manners]
        if not near:
            return []
        marks = self._mark(place)
        found: list[tuple[Layer, int]] = [
            (entry, entry.number) for entry in near if entry.place.get(marks).any()
        ]
        place.put(marks, False)
        return found

    def write(self, place: Place, pages: int, number: int, before: Touches) -> None:
        self.changes += 1
        self._numbers().put(place, number)
        if not before:
            return
        marks = self._mark(place)
        for entry, _ in before:
            assert isinstance(entry, _Entry)
            covered = entry.place.get(marks)
            self._remove(entry)
            if not covered.all():
                rest = Blocks(1, entry.place.cells()[~covered])
                self.touch(entry.key, rest, pages_of(rest), entry.number)
        place.put(marks, False)

    def touch(self, key: Key, place: Place, pages: int, number: int) -> None:
        self.changes += 1
        name = key, _token(place)
        known = self._entries.get(name)
        if known is not None:
            known.number = max(known.number, number)
            return
        entry = self._entries[name] = _Entry(key, place, pages, number, name)
        for page in _numbers(pages):
            self._pages.setdefault(page, {})[name] = entry
        self._atomics |= key[2] is _ATOMIC_WRITE

    def accessed(self, *, write: bool) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Cells that were written, or only read or read before they were written: the first ones
        of consecutive cells, and those behind the last ones."""
        if write and self._written is not None:
            bounds = np.diff(self._written.numbers != 0, prepend=False, append=False).nonzero()[0]
            yield bounds[::2], bounds[1::2]
        for entry in self._entries.values():
            if (entry.key[2] is _ATOMIC_WRITE) == write:
                starts, width = entry.place.spans()
                yield starts, starts + width

    def _near(self, pages: int) -> Iterator[_Entry]:
        """The entries that have cells in some of the pages."""
        if not self._entries:
            return iter(())
        found: dict[object, _Entry] = {}
        for page in _numbers(pages):
            found.update(self._pages.get(page, {}))
        return iter(found.values())

    def _remove(self, entry: _Entry) -> None:
        del self._entries[entry.name]
        for page in _numbers(entry.pages):
            del self._pages[page][entry.name]

    def _numbers(self) -> Dense:
        if self._written is None:
            self._written = Dense(self._size)
        return self._written

    def _mark(self, place: Place) -> NDArray[np.bool_]:
        """True in the cells of a place, to be set back by the caller."""
        if self._marks is None:
            self._marks = np.zeros(self._size, np.bool_)
        place.put(self._marks, True)
        return self._marks


def _numbers(pages: int) -> Iterator[int]:
    """Numbers of groups of pages, of which some are in the set."""
    at = 0
    while pages:
        if pages & _GROUP:
            yield at
        pages >>= _TOGETHER
        at += 1


def _token(place: Place) -> object:
    """Equal for the same place twice."""
    if isinstance(place, Blocks) and place.index.size <= _SMALL:
        return place.width, place.index.tobytes()
    return place

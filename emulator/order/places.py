"""Which cells of a memory an access touches, in the form in which numpy reaches them fastest."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.native.rows import Rows, listed, rows

Cells1 = NDArray[Any]
_SMALL = 1024
"""Entries up to which looking for a regular pattern costs less than it saves."""


@dataclass(slots=True, unsafe_hash=True)
class Span:
    """Consecutive cells."""

    start: int
    stop: int
    scaled: Scaled = field(default=None, init=False, repr=False, compare=False)
    known: Known = field(default=0, init=False, repr=False, compare=False)

    @property
    def grain(self) -> int:
        """The place consists of aligned groups of so many cells."""
        return gcd(self.start, self.stop)

    def divided(self, unit: int) -> Span:
        """The same place in a memory of groups of ``unit`` cells, which divides the grain."""
        return Span(self.start // unit, self.stop // unit)

    @property
    def count(self) -> int:
        """How many cells it has."""
        return self.stop - self.start

    def native(self) -> Rows | None:
        return rows(self.start, 1, 0, self.stop - self.start)

    def get(self, memory: Cells1) -> Cells1:
        return memory[self.start : self.stop]

    def put(self, memory: Cells1, value: Any) -> None:
        memory[self.start : self.stop] = value

    def bounds(self) -> tuple[int, int]:
        return self.start, self.stop

    def cells(self) -> NDArray[np.int64]:
        """The numbers of the cells, in the order of `get`."""
        return np.arange(self.start, self.stop)

    def spans(self) -> tuple[NDArray[np.int64], int]:
        """The first cells of consecutive ones, and how many these are."""
        return np.array([self.start]), self.stop - self.start


@dataclass(slots=True, unsafe_hash=True)
class Grid:
    """``width`` cells of each of some consecutive rows of a memory that is ``stride`` wide."""

    stride: int
    row: int
    rows: int
    column: int
    width: int
    scaled: Scaled = field(default=None, init=False, repr=False, compare=False)
    known: Known = field(default=0, init=False, repr=False, compare=False)

    @property
    def grain(self) -> int:
        return gcd(self.stride, self.column, self.width)

    def divided(self, unit: int) -> Grid:
        column, width = self.column // unit, self.width // unit
        return Grid(self.stride // unit, self.row, self.rows, column, width)

    @property
    def count(self) -> int:
        return self.rows * self.width

    def native(self) -> Rows | None:
        return rows(self.row * self.stride + self.column, self.rows, self.stride, self.width)

    def get(self, memory: Cells1) -> Cells1:
        return self._window(memory).ravel()

    def put(self, memory: Cells1, value: Any) -> None:
        window = self._window(memory)
        window[...] = value.reshape(window.shape) if isinstance(value, np.ndarray) else value

    def bounds(self) -> tuple[int, int]:
        first = self.row * self.stride + self.column
        return first, first + (self.rows - 1) * self.stride + self.width

    def cells(self) -> NDArray[np.int64]:
        return (self.spans()[0][:, None] + np.arange(self.width)).ravel()

    def spans(self) -> tuple[NDArray[np.int64], int]:
        return (np.arange(self.rows) + self.row) * self.stride + self.column, self.width

    def _window(self, memory: Cells1) -> Cells1:
        table = memory.reshape(-1, self.stride)
        return table[self.row : self.row + self.rows, self.column : self.column + self.width]


@dataclass(slots=True, eq=False)
class Blocks:
    """Aligned blocks of ``width`` cells; ``index`` has their numbers."""

    width: int
    index: NDArray[np.int64]
    scaled: Scaled = field(default=None, init=False, repr=False)
    known: Known = field(default=0, init=False, repr=False, compare=False)
    _cells: NDArray[np.int64] | None = field(default=None, init=False, repr=False)

    @property
    def grain(self) -> int:
        return self.width

    def divided(self, unit: int) -> Blocks:
        return Blocks(self.width // unit, self.index)

    @property
    def count(self) -> int:
        return self.index.size * self.width

    def native(self) -> Rows | None:
        return listed(self.index, self.width)

    def get(self, memory: Cells1) -> Cells1:
        if self.width == 1:
            return memory[self.index]
        # Many times faster than indexing rows, as is an index of cells to put something there.
        return memory.reshape(-1, self.width).take(self.index, 0).ravel()

    def put(self, memory: Cells1, value: Any) -> None:
        memory[self.index if self.width == 1 else self.cells()] = value

    def bounds(self) -> tuple[int, int]:
        return int(self.index.min()) * self.width, (int(self.index.max()) + 1) * self.width

    def cells(self) -> NDArray[np.int64]:
        if self._cells is None:
            self._cells = (self.index[:, None] * self.width + np.arange(self.width)).ravel()
        return self._cells

    def spans(self) -> tuple[NDArray[np.int64], int]:
        return self.index * self.width, self.width


Place = Span | Grid | Blocks
Known = Rows | int | None
"""What is native of a place; or how often it was asked for; None: nothing."""


def different(where: Place, numbers: NDArray[np.int32]) -> list[int] | None:
    """The different numbers in the cells of a place, ascending; None: they have to be looked at."""
    known = where.known
    if not isinstance(known, Rows):
        known = _native(where, known)
        if known is None:
            return None
    return known.found(numbers)


def fill(where: Place, numbers: NDArray[np.int32], number: int) -> None:
    """Writes a number to all cells of a place."""
    known = where.known
    if not isinstance(known, Rows):
        known = _native(where, known)
        if known is None:
            where.put(numbers, number)
            return
    if known.put(numbers, number) is False:
        raise IndexError(f"{where} is not inside of a memory of {numbers.size} cells")


def _native(where: Place, times: int | None) -> Rows | None:
    """Places that come again are worth it."""
    if times == 0:
        where.known = 1
    elif times is not None:
        where.known = where.native()
    return where.known if isinstance(where.known, Rows) else None


Scaled = tuple[int, Place] | None
"""Of a place: a unit that it was divided by, and what came of that."""


def divided(place: Place, unit: int) -> Place:
    """A place in units that divide its grain; remembered with the place."""
    if place.scaled is None or place.scaled[0] != unit:
        place.scaled = unit, place if unit == 1 else place.divided(unit)
    return place.scaled[1]


def place(index: NDArray[np.int64] | slice, width: int, size: int) -> Place:
    """Where an access is in a memory of ``size`` cells.

    Args:
        index: cells as in `tracker.Cells`, in 0…size-1.
        width: consecutive cells that each entry stands for.
    """
    if isinstance(index, slice):
        return Span(int(index.start), int(index.stop))
    count = index.size
    first, last = int(index[0]), int(index[-1])
    if count == 1:
        return Span(first, first + width)
    if count <= _SMALL:
        step = (last - first) // (count - 1)
        regular = step >= 0 and bool((index[1:] - index[:-1] == step).all())
        if regular and step in (0, width):
            return Span(first, last + width)
        column = first % step if regular and step else 0
        if regular and step and size % step == 0 and column + width <= step:
            return Grid(step, first // step, count, column, width)
        if not regular and (low := _in_a_row(index, width)) >= 0:
            return Span(low, low + count * width)
    elif width == 1 and (span := _whole(index)) is not None:
        return span
    return _blocks(index, width, size)


def _in_a_row(index: NDArray[np.int64], width: int) -> int:
    """The first cell of entries that follow each other but for their order, as those of several
    warps do; else -1."""
    low = int(index.min())
    if int(index.max()) - low != (index.size - 1) * width:
        return -1
    return low if bool((np.sort(index) == np.arange(index.size) * width + low).all()) else -1


def _whole(index: NDArray[np.int64]) -> Span | None:
    """The span that ``index`` fills in some order, as the rows of a swizzled tile do."""
    low, high = int(index.min()), int(index.max()) + 1
    if high - low != index.size:
        return None
    met = np.zeros(index.size, np.bool_)
    met[index - low] = True
    return Span(low, high) if met.all() else None


def _blocks(index: NDArray[np.int64], width: int, size: int) -> Place:
    if width == 1:
        return Blocks(1, index)
    block = int(np.gcd.reduce(index))
    block = int(np.gcd(np.gcd(block, width), size))
    index = index // block
    if block < width:
        index = (index[:, None] + np.arange(width // block)).ravel()
    return Blocks(block, index)

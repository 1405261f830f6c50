"""Numbers of accesses for each cell of a memory, by aligned groups of cells.

Nearly all accesses are to whole groups, which have one number. Where a few are to parts of groups,
as of the word in which an address is handed on, these groups alone have a number for each cell: the
rest of the memory costs no more than before.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.native.rows import Rows
from schedgen.emulator.order.places import Place, different, fill

Numbers = NDArray[np.int32]
_PART = 16
"""Up to this part of a memory, cells are looked up each, instead of in a copy of all."""
_FIRST = 8
"""Groups with a number for each cell for which there is room at first."""


class Dense:
    """The number of an access for each cell of a memory.

    Args:
        size: cells.
        unit: of the aligned groups, which divides the size.

    Attributes:
        numbers: of each group; below 0 where its cells differ.
        mixed: groups that ever had cells that differ.
    """

    __slots__ = ("_rows", "mixed", "numbers", "unit")

    def __init__(self, size: int, unit: int = 1) -> None:
        self.numbers: Numbers = np.zeros(size // unit, np.int32)
        self.unit = unit
        self.mixed = 0
        self._rows: Numbers = np.zeros((0, unit), np.int32)
        """Row ``-1 - number`` has the numbers of the cells of a group."""

    def overlap(self, place: Place, number: int) -> NDArray[np.int64]:
        """The cells of a place that have a number."""
        cells = place.cells()
        few = cells.size * _PART < self.numbers.size * self.unit
        own = self._of(cells) if few else place.get(self.cells())
        return cells[own == number]

    def cells(self) -> Numbers:
        """The number of each cell."""
        every = np.repeat(self.numbers, self.unit)
        mixed = (self.numbers < 0).nonzero()[0]
        if mixed.size:
            every.reshape(-1, self.unit)[mixed] = self._rows[-1 - self.numbers[mixed]]
        return every

    def found(self, groups: Place) -> list[int]:
        """The different numbers in whole groups, ascending."""
        known = groups.known
        if type(known) is Rows:  # as `different`, which is called very often
            found = known.found(self.numbers)
        else:
            found = different(groups, self.numbers)
        if found is None:
            found = distinct(groups.get(self.numbers))
        return found if not found or found[0] >= 0 else self._resolved(found)

    def put(self, groups: Place, number: int) -> None:
        """Gives a number to whole groups."""
        known = groups.known
        if type(known) is not Rows or known.put(self.numbers, number) is False:
            fill(groups, self.numbers, number)

    def every(self) -> list[int]:
        """The different numbers of all cells."""
        found = distinct(self.numbers)
        return found if found[0] >= 0 else self._resolved(found)

    def found_in(self, cells: NDArray[np.int64]) -> list[int]:
        """The different numbers in some cells."""
        return distinct(self._of(cells))

    def put_in(self, cells: NDArray[np.int64], number: int) -> None:
        """Gives a number to some cells of groups."""
        groups, inside = np.divmod(cells, self.unit)
        for group in sorted(set(groups.tolist())):
            before = self.numbers.item(group)
            if before == number:
                continue
            row = -1 - before if before < 0 else self._new_row(before)
            self._rows[row, inside[groups == group]] = number
            same = bool((self._rows[row] == number).all())
            self.numbers[group] = number if same else -1 - row

    def initialize(self, place: Place, groups: Place | None, number: int) -> None:
        """Gives a number to those cells of a place that have none."""
        if groups is not None:
            before = groups.get(self.numbers)
            least = int(before.min())
            if least == 0:
                groups.put(self.numbers, np.where(before == 0, number, before))
            if least >= 0:
                return
        cells = place.cells()
        self.put_in(cells[self._of(cells) == 0], number)

    def refine(self, unit: int) -> None:
        """Goes over to smaller groups, of ``unit`` cells, in which no cells differ."""
        every = self.cells()
        self.numbers = np.ascontiguousarray(every[::unit])
        self._rows = np.zeros((0, unit), np.int32)
        self.unit = unit
        self.mixed = 0

    def _of(self, cells: NDArray[np.int64]) -> Numbers:
        groups, inside = np.divmod(cells, self.unit)
        numbers = self.numbers[groups]
        mixed = numbers < 0
        if mixed.any():
            numbers[mixed] = self._rows[-1 - numbers[mixed], inside[mixed]]
        return numbers

    def _resolved(self, found: list[int]) -> list[int]:
        """Numbers of cells in place of those of groups whose cells differ."""
        rows = self._rows[[-1 - number for number in found if number < 0]]
        return sorted({*rows.ravel().tolist(), *(number for number in found if number >= 0)})

    def _new_row(self, number: int) -> int:
        """A row for the cells of one more group, all of which have a number."""
        if self.mixed == len(self._rows):
            self._make_room()
        row = self.mixed
        self._rows[row] = number
        self.mixed += 1
        return row

    def _make_room(self) -> None:
        """Forgets rows of groups that were written as a whole since, or makes more."""
        used = (self.numbers < 0).nonzero()[0]
        rows = np.zeros((max(_FIRST, 2 * used.size), self.unit), np.int32)
        rows[: used.size] = self._rows[-1 - self.numbers[used]]
        self.numbers[used] = -1 - np.arange(used.size, dtype=np.int32)
        self._rows, self.mixed = rows, used.size


def distinct(numbers: Numbers) -> list[int]:
    """The different values, ascending. They come in runs, and mostly there is one."""
    bits = numbers.tobytes()
    if bits[4:] == bits[:-4]:  # several times faster than a comparison of numbers
        return [numbers.item(0)] if bits else []
    if numbers.size > _FEW:
        starts = numbers[1:][numbers[1:] != numbers[:-1]]
        return sorted({numbers.item(0), *starts.tolist()})
    return sorted(set(numbers.tolist()))


_FEW = 64
"""Numbers that are compared faster without numpy."""

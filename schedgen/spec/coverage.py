"""Whether stores that depend on the output tile store every element of a tensor once.

Where only some output tiles are computed, conditions of stores say which elements each of them
stores. A gap would be left undefined, and an element that two tiles store may differ between them.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm

import numpy as np

from schedgen.expressions import evaluate
from schedgen.kernel import Kernel, Kind, Operation
from schedgen.spec.parameters import literal
from schedgen.spec.values import Value
from schedgen.tensors import Place

_PERIODS = 2
"""Of the pattern that blocks of rows and of columns make together."""
_MOST_TILES = 1 << 14


def coverage_mistakes(kernel: Kernel) -> list[tuple[str, str]]:
    """Tensors with what is wrong, in words; a kernel of which all tiles store all is not looked at.

    Only tensors that output tiles cut along both axes.
    """
    rows, columns = kernel.tile_extents
    block = {axis.extent: axis.block for axis in kernel.grid}
    if not (rows in block and columns in block):
        return []
    found: list[tuple[str, str]] = []
    stores = [o for o in kernel.operations if o.kind is Kind.STORE and not o.boundary]
    for tensor in dict.fromkeys(o.tensor for o in stores if o.tensor is not None):
        mine = [o for o in stores if o.tensor == tensor]
        cut = all(len(_sides(o)) == 2 for o in mine)
        if cut and (kernel.tiles != "all" or any(o.when is not None for o in mine)):
            whole = next(a.whole for a in kernel.arguments if a.name == tensor)
            wrong = _Coverage(kernel, block[rows], block[columns]).mistake(mine, whole=whole)
            found += [(tensor, wrong)] if wrong else []
    return found


def _sides(store: Operation) -> list[Place]:
    """The two axes of the tensor that a tile lies along."""
    return [place for place in store.places if place.side]


class _Coverage:
    """A square of output tiles, as large as the pattern needs to repeat."""

    def __init__(self, kernel: Kernel, row_block: int, column_block: int) -> None:
        self.kernel, self.blocks = kernel, (row_block, column_block)
        self.size = _PERIODS * lcm(row_block, column_block)

    def mistake(self, stores: list[Operation], *, whole: bool) -> str:
        """An element that is not stored once, '' if there is none; ``whole``: nor left out."""
        rows, columns = self.size // self.blocks[0], self.size // self.blocks[1]
        if rows * columns > _MOST_TILES:
            return ""
        ends = [n for s in stores for p in _sides(s) for n in (p.size, p.block, p.offset)]
        step = gcd(self.size, *ends)
        counts = np.zeros((self.size // step,) * 2, int)
        for row in range(rows):
            for column in range(columns):
                if self.kernel.tiles == "all" or self._computed(row, column):
                    for store in stores:
                        self._count(counts, step, store, row, column)
        wrong = np.argwhere(counts != 1 if whole else counts > 1)
        if not len(wrong):
            return ""
        at = ", ".join(str(int(n) * step) for n in wrong[0])
        times = int(counts[tuple(wrong[0])])
        return (
            f"element ({at}) of a matrix is stored {times} times"
            if times
            else (f"element ({at}) of a matrix is never stored")
        )

    def _computed(self, row: int, column: int) -> bool:
        """Whether a tile reaches to the diagonal or below it."""
        return (row + 1) * self.blocks[0] > column * self.blocks[1]

    def _count(
        self, counts: np.ndarray, step: int, store: Operation, row: int, column: int
    ) -> None:
        if store.when is not None and not evaluate(store.when, self._values(row, column)):
            return
        at = {self.kernel.tile_extents[0]: row, self.kernel.tile_extents[1]: column}
        box: list[slice] = []
        for place in _sides(store):
            start = place.block * at.get(place.along, 0) + place.offset
            box.append(slice(start // step, (start + place.size) // step))
        counts[tuple(box)] += 1

    def _values(self, row: int, column: int) -> dict[str, Value]:
        extents = {extent for argument in self.kernel.arguments for extent in argument.shape}
        values: dict[str, Value] = dict.fromkeys(sorted(extents), Fraction(self.size))
        values |= {name: literal(text) for name, text in self.kernel.parameters}
        return values | {"tile_row": Fraction(row), "tile_column": Fraction(column)}

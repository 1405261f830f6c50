"""Cells of tensor memory in an order in which those of an access lie together.

Accesses are to some columns of 32 or 128 lanes, now and then of 16. Cells that are numbered row by
row, as addresses have it, make as many pieces of that as there are lanes. Here 16 lanes of a column
come one after the other, then those of the next column.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.order.places import Place, place

LANES, COLUMNS = 128, 512
TENSOR_CELLS = LANES * COLUMNS
"""PTX ISA 9.7.16.1."""
_TOGETHER = 16
"""Lanes whose cells of one column follow each other."""
TENSOR_UNIT = 16 * _TOGETHER
"""Cells that are kept as one to begin with: 16 columns."""


def inside(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers here of cells ``lane * 512 + column``."""
    lanes, columns = np.divmod(cells, COLUMNS)
    groups, lanes = np.divmod(lanes, _TOGETHER)
    return (groups * COLUMNS + columns) * _TOGETHER + lanes


def outside(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """The contrary, ascending."""
    rest, lanes = np.divmod(cells, _TOGETHER)
    groups, columns = np.divmod(rest, COLUMNS)
    return np.sort((groups * _TOGETHER + lanes) * COLUMNS + columns)


def tensor_place(index: NDArray[np.int64] | slice, width: int) -> Place:
    """Where an access is; arguments as in `tracker.Cells`."""
    if isinstance(index, slice):
        index, width = np.arange(index.start, index.stop, dtype=np.int64), 1
    first = index[::_TOGETHER]
    lanes = first[:, None] + np.arange(_TOGETHER) * COLUMNS
    whole = index.size % _TOGETHER == 0 and not (first // COLUMNS % _TOGETHER).any()
    if whole and (lanes.ravel() == index).all():
        return place(inside(first), width * _TOGETHER, TENSOR_CELLS)
    every = np.sort(inside((index[:, None] + np.arange(width)).ravel()))
    cells = every[np.concatenate([[True], every[1:] != every[:-1]])]
    starts = np.concatenate([[True], np.diff(cells) != 1]).nonzero()[0]
    lengths = np.diff(starts, append=cells.size)
    if (lengths == lengths[0]).all():
        return place(cells[starts], int(lengths[0]), TENSOR_CELLS)
    return place(cells, 1, TENSOR_CELLS)

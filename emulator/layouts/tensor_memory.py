"""Tensor memory: where matrices of tcgen05.mma lie, and what tcgen05.ld, st and cp move.

The ISA gives these layouts as figures (sections 9.7.16.2.3, 9.7.16.8 to 9.7.16.10); the formulas
here come from CUTLASS: ``tmem_frg``, ``tmem_frg_ws`` and ``tmem_sf_frg`` in
``include/cute/atom/mma_traits_sm100_frag.hpp`` and the traits of loads, stores and copies in
``include/cute/atom/copy_traits_sm100.hpp``.

A cell is 32 bits; its number is ``lane * 512 + column``. Memory is a (128, 512) array of them.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.layouts.errors import LayoutError

LANES = 128
COLUMNS = 512

Cells = NDArray[np.int64]
"""Numbers of cells."""


@dataclass(frozen=True, slots=True)
class DataPath:
    """Where the part of D that one CTA holds lies (section 9.7.16.10.5).

    The matrix is cut into blocks of ``lanes`` rows, or, where ``by_columns``, of all rows and a
    part of the columns. Block b lies in lanes ``b * (128 / blocks)`` and up.

    Attributes:
        name: the ISA's letter.
        blocks: how many.
        lanes: rows of a block.
        by_columns: whether blocks are parts of the columns.
    """

    name: str
    blocks: int
    lanes: int
    by_columns: bool

    @property
    def step(self) -> int:
        """Lanes from one block to the next."""
        return LANES // self.blocks

    @property
    def rows(self) -> int:
        """Rows of the matrix in this CTA."""
        return self.lanes if self.by_columns else self.lanes * self.blocks

    def width(self, n: int) -> int:
        """Columns that a matrix of n columns takes."""
        return n // self.blocks if self.by_columns else n


_WHOLE = DataPath("D", blocks=1, lanes=128, by_columns=False)
_PATHS = {  # (cta_group, M, .ws) -> layout
    (2, 256, False): DataPath("A", blocks=1, lanes=128, by_columns=False),
    (2, 128, False): DataPath("B", blocks=2, lanes=64, by_columns=True),
    (1, 128, False): _WHOLE,
    (1, 128, True): _WHOLE,
    (1, 64, True): DataPath("E", blocks=2, lanes=64, by_columns=True),
    (1, 64, False): DataPath("F", blocks=4, lanes=16, by_columns=False),
    (1, 32, True): DataPath("G", blocks=4, lanes=32, by_columns=True),
}


def data_path(group: int, m: int, *, stationary: bool = False) -> DataPath:
    """The layout of D of a dense product.

    Args:
        group: what follows ``.cta_group::``.
        m: of the instruction, over both CTAs for group 2.
        stationary: whether it is ``.ws``.

    Raises:
        LayoutError: there is no such product.
    """
    if (group, m, stationary) not in _PATHS:
        raise LayoutError(f"no tcgen05.mma has M = {m} with cta_group::{group}")
    return _PATHS[group, m, stationary]


def check_window(path: DataPath, address: int, width: int, matrix: str) -> tuple[int, int]:
    """Lane and column of a tensor-memory address at which a matrix of a layout begins.

    Args:
        path: the layout.
        address: ``lane << 16 | column``.
        width: columns of tensor memory that it takes.
        matrix: its name, for messages.

    Raises:
        LayoutError: the lane is not one at which the layout begins, or the columns end earlier.
    """
    lane, column = address >> 16, address & 0xFFFF
    allowed = (0, 16) if path.name == "F" else (0,)
    if lane not in allowed:
        raise LayoutError(
            f"{matrix} at tensor-memory address {address:#010x} begins in lane {lane}; layout "
            f"{path.name} begins in lane {' or '.join(map(str, allowed))}"
        )
    if column + width > COLUMNS:
        raise LayoutError(
            f"{matrix} at tensor-memory address {address:#010x} takes {width} columns from column "
            f"{column}; there are {COLUMNS}"
        )
    return lane, column


def window(
    memory: NDArray[Any], path: DataPath, lane: int, column: int, width: int
) -> NDArray[Any]:
    """The cells of a matrix: a view (blocks, lanes of a block, width) of (128, 512) cells."""
    blocks = memory.reshape(path.blocks, path.step, COLUMNS)
    return blocks[:, lane : lane + path.lanes, column : column + width]


def from_window(path: DataPath, found: NDArray[Any]) -> NDArray[Any]:
    """A window as a matrix (rows, n)."""
    if path.by_columns:
        return found.transpose(1, 0, 2).reshape(path.rows, -1)
    return found.reshape(path.rows, -1)


def to_window(path: DataPath, matrix: NDArray[Any]) -> NDArray[Any]:
    """A matrix (rows, n) in the shape of its window."""
    if path.by_columns:
        return matrix.reshape(path.rows, path.blocks, -1).transpose(1, 0, 2)
    return matrix.reshape(path.blocks, path.lanes, -1)


@lru_cache(maxsize=1024)
def window_lanes(path: DataPath, lane: int, column: int) -> Cells:
    """The first cell of each lane of a window, flat and not writeable."""
    lanes = window(np.arange(LANES * COLUMNS).reshape(LANES, COLUMNS), path, lane, column, 1)
    return _frozen(lanes.reshape(-1).astype(np.int64))


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape of tcgen05.ld and st (section 9.7.16.8).

    Attributes:
        lanes: of tensor memory that it touches: 16 or 32.
        registers: per thread for ``.x1``.
        columns: per ``.x1``.
        most: the largest ``.num``.
    """

    lanes: int
    registers: int
    columns: int
    most: int


SHAPES = {
    "32x32b": Shape(32, 1, 1, 128),
    "16x64b": Shape(16, 1, 2, 128),
    "16x128b": Shape(16, 2, 4, 64),
    "16x256b": Shape(16, 4, 8, 32),
    "16x32bx2": Shape(16, 1, 1, 128),
}


@lru_cache(maxsize=256)
def moved(shape: str, num: int, *, packed: bool = False, half: int = 0) -> Cells:
    """Cells that each register of a warp holds, relative to ``taddr``.

    Args:
        shape: a key of `SHAPES`.
        num: what follows ``.x``.
        packed: with ``.pack::16b`` or ``.unpack::16b``: a register holds the low halves of the
            cell found here and of the next one.
        half: immHalfSplitoff of ``16x32bx2``.

    Returns:
        (registers, 32 threads), not writeable.

    Raises:
        LayoutError: there is no such ``.num``.
    """
    form = SHAPES[shape]
    if num & (num - 1) or not 1 <= num <= form.most:
        raise LayoutError(f".{shape} has no .x{num}; the largest is .x{form.most}")
    i = np.arange(form.registers * num, dtype=np.int64)[:, None]
    t = np.arange(32, dtype=np.int64)[None, :]
    match shape:
        case "32x32b":
            lane, column = t + 0 * i, i + 0 * t
        case "16x64b":
            lane, column = 8 * (t & 1) + (t >> 2) + 0 * i, 2 * i + ((t >> 1) & 1)
        case "16x128b":
            lane, column = (t >> 2) + 8 * (i & 1), 4 * (i >> 1) + (t & 3)
        case "16x256b":
            lane, column = (t >> 2) + 8 * ((i & 3) >> 1), 8 * (i >> 2) + 2 * (t & 3) + (i & 1)
        case _:
            lane, column = (t & 15) + 0 * i, i + 0 * t
    if packed:
        column = 2 * column
    if shape == "16x32bx2":
        column = column + np.where(t >= 16, half, 0)
    return _frozen(lane * COLUMNS + column)


@lru_cache(maxsize=256)
def moved_lanes(shape: str, num: int, *, packed: bool = False, half: int = 0) -> tuple[Cells, int]:
    """The same cells as runs: the first cell of each, relative to ``taddr``, and their length."""
    form = SHAPES[shape]
    lanes = np.arange(form.lanes, dtype=np.int64) * COLUMNS
    if shape == "16x32bx2":
        lanes = np.concatenate([lanes, lanes + half])
    return _frozen(lanes), form.columns * num * (1 + packed)


@dataclass(frozen=True, slots=True)
class Copy:
    """A shape of tcgen05.cp: rows of shared memory and the lanes that receive each.

    Attributes:
        rows: of the source.
        bits: of a row.
        lanes: (copies of a row, rows): lanes relative to that of ``taddr``.
    """

    rows: int
    bits: int
    lanes: tuple[tuple[int, ...], ...]


def _copies(rows: int, *offsets: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(range(offset, offset + rows)) for offset in offsets)


COPIES = {
    ("128x256b", ""): Copy(128, 256, _copies(128, 0)),
    ("128x128b", ""): Copy(128, 128, _copies(128, 0)),
    ("64x128b", "warpx2::02_13"): Copy(64, 128, _copies(64, 0, 64)),
    ("64x128b", "warpx2::01_23"): Copy(
        64,
        128,
        ((*range(32), *range(64, 96)), (*range(32, 64), *range(96, 128))),
    ),
    ("32x128b", "warpx4"): Copy(32, 128, _copies(32, 0, 32, 64, 96)),
    ("4x256b", ""): Copy(4, 256, ((0, 32, 64, 96),)),
}
"""(shape, multicast) -> what is copied."""


@lru_cache(maxsize=256)
def scale_cells(rows: int, blocks: int) -> Cells:
    """Cells of the scale factors of an operand, relative to the first (section 9.7.16.10.7).

    Row r lies in lane r mod 32 of every quarter of the lanes and in column r div 32; its factors
    are bytes of that cell.

    Args:
        rows: M of A or N of B.
        blocks: 1; or 2 where halves of the rows lie in halves of the lanes, as B's do in layout B.

    Returns:
        (copies, rows), not writeable. Every copy is read by its own quarter of the data path.
    """
    row = np.arange(rows, dtype=np.int64)
    part, inside = row // (rows // blocks), row % (rows // blocks)
    first = (part * (LANES // blocks) + inside % 32) * COLUMNS + inside // 32
    copies = np.arange(4 // blocks, dtype=np.int64)[:, None] * 32 * COLUMNS
    return _frozen(first + copies)


def _frozen(cells: Cells) -> Cells:
    cells.flags.writeable = False
    return cells

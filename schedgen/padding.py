"""Rows in shared memory that are shorter than what bulk copies bring.

A copy brings a multiple of `COPIED_BYTES`, from any element of a row of a tensor on: behind the
elements of the tile it brings their neighbours, or zeros behind the end of the tensor. A buffer of
a single row has room for them, and nothing reads them.
"""

from __future__ import annotations

from collections.abc import Collection

from schedgen.kernel import Piece, Region
from schedgen.layouts import DTYPE_BITS


def padding(region: Region) -> int:
    """Bytes of a row behind its elements."""
    columns = region.shape[1] if len(region.shape) == 2 else 1
    return region.row_bytes - -(-columns * DTYPE_BITS[region.dtype] // 8)


def copied_columns(region: Region) -> int:
    """Elements that a copy of a whole row brings."""
    return region.row_bytes * 8 // DTYPE_BITS[region.dtype]


def loaded_bytes(region: Region, pieces: Collection[Piece]) -> int:
    """Bytes that a load of ``pieces`` of a region brings; of a row with padding that is all."""
    return region.slot_bytes if padding(region) else sum(piece.bytes for piece in pieces)

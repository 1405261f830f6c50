"""Tiles of less than a bulk copy brings: what comes with them, and who reads which part of it.

A tile of 1, 2, 4 or 8 bytes lies in 16 bytes of its tensor, at a multiple of its own size. All of
these are copied, since a bulk copy can do no less and can begin nowhere else.
"""

from __future__ import annotations

from math import prod

from schedgen.kernel import Kernel, Kind, Operation, Region
from schedgen.layouts import BULK_BYTES, DTYPE_BITS


def is_small(kernel: Kernel, region: Region) -> bool:
    """Whether a bulk copy brings more than a region."""
    size = _size(region)
    vector = len(region.shape) < 2 or region.rows == 1
    return vector and size < BULK_BYTES and BULK_BYTES % size == 0 and bool(loads(kernel, region))


def room(kernel: Kernel, region: Region) -> tuple[int, int]:
    """Rows and columns of a region in shared memory, with what comes with it."""
    rows, columns = (*region.shape, 1)[:2]
    if not is_small(kernel, region):
        return rows, columns
    more = BULK_BYTES // _size(region)
    return (more * rows, 1) if len(region.shape) < 2 else (rows, more * columns)


def together(kernel: Kernel) -> set[int]:
    """How many tiles come with one copy, of all that are less than one."""
    small = (region for region in kernel.regions if is_small(kernel, region))
    return {BULK_BYTES // _size(region) for region in small}


def loads(kernel: Kernel, region: Region) -> list[Operation]:
    """The bulk copies that bring a region."""
    pieces = {piece.name for piece in kernel.pieces if piece.region == region.name}
    found = (one for one in kernel.operations if one.kind is Kind.LOAD)
    return [load for load in found if pieces & {*load.writes}]


def _size(region: Region) -> int:
    return prod(region.shape) * DTYPE_BITS[region.dtype] // 8

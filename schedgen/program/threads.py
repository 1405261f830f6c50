"""Which threads of a role touch which elements: a fact that every access of a program carries.

A role that computes has four warps. Its threads divide a tile as tensor memory or the results of
wgmma hand it out (codegen's ``Share`` writes just that), and a tile in shared memory is read and
written in the same division, or across it where it is transposed. Values per column are read by
everybody.
"""

from __future__ import annotations

from schedgen.kernel import GATHERS, Kernel, Kind, Operation, Piece, Region, Space
from schedgen.layouts import DTYPE_BITS, PACKED, TMEM_LANES
from schedgen.machine import Machine
from schedgen.program.operations import Spread

WARPS = 4
"""Warps of a role that computes."""


def rows_of_role(machine: Machine) -> int:
    """Rows that the threads of a role have between them: the lanes of tensor memory, or the rows of
    a wgmma result (PTX ISA, tcgen05 and wgmma register fragments).
    """
    return 128 if machine.tmem_columns else 64


def spread_of(
    kernel: Kernel, machine: Machine, operation: Operation, piece: Piece, *, write: bool
) -> Spread | None:
    """The threads that touch ``piece`` in ``operation``, which a role of four warps executes.

    None: any thread may touch any byte of it.
    """
    region, rows = kernel.region[piece.region], rows_of_role(machine)
    if region.space is Space.REGISTERS:
        return None
    if region.space is Space.TMEM:
        return Spread("rows", 32, "lane")
    if len(region.shape) == 1:
        if rows == 128:
            return _whole(Spread("rows", 32, "row"), piece, rows)
        # The four threads of a row all read its value, and one of them writes it.
        return _whole(Spread("rows", 16, "first of four" if write else "four"), piece, rows)
    if region.rows == 1:
        return None
    if operation.turned == ("to" if write else "from"):
        return _across(region, piece, rows)
    if operation.kind in GATHERS:  # eight neighbouring threads share a row (codegen's gather)
        return _whole(Spread("rows", rows // WARPS, "rows of 16 bytes"), piece, rows)
    lanes = _lanes(region, rows, _columns(kernel, operation, region))
    if rows < TMEM_LANES and operation.kind is Kind.MAP and region.dtype in PACKED:
        lanes = "fragment of numbers"  # of one thread those of each 8, and not of each 8 elements
    return _whole(Spread("rows", rows // WARPS, lanes), piece, rows)


def _lanes(region: Region, rows: int, columns: int) -> str:
    """A name for the map of a warp's threads to the elements of its rows, of ``columns`` each."""
    if rows == 128:
        return "row"
    bits = DTYPE_BITS[region.dtype]
    matrices = bits == 16 and columns % 16 == 0
    return "matrices" if matrices else f"fragment of {bits} bits"


def _columns(kernel: Kernel, operation: Operation, region: Region) -> int:
    """Columns of the widest operand of ``operation`` in ``region``."""
    widest = 0
    for _, names in operation.operands:
        pieces = [kernel.piece[name] for name in names]
        if pieces[0].region == region.name:
            low, high = min(p.byte0 for p in pieces), max(p.byte1 for p in pieces)
            widest = max(widest, (high - low) * 8 // DTYPE_BITS[region.dtype])
    return widest


def _whole(spread: Spread, piece: Piece, rows: int) -> Spread | None:
    """``spread`` if the piece has rows of all warps, which is what the rest of a role counts on."""
    return None if piece.row0 % rows or piece.row1 % rows else spread


def _across(region: Region, piece: Piece, rows: int) -> Spread | None:
    """A transposed tile: what was a row is a column now."""
    size = DTYPE_BITS[region.dtype] // 8
    period = rows * size
    if piece.byte0 % period or piece.byte1 % period:
        return None
    lanes = "column" if rows == 128 else f"transposed {_lanes(region, rows, region.rows)}"
    return Spread("bytes", rows // WARPS * size, lanes)

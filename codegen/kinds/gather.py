"""Rows that threads take through a list, from a global tensor to shared memory."""

from __future__ import annotations

from schedgen.codegen.errors import EmitError
from schedgen.codegen.fragment import THREADS, Fragment
from schedgen.codegen.kinds.body import Body
from schedgen.codegen.operands import operands_of
from schedgen.codegen.plan import Plan
from schedgen.kernel import Operation
from schedgen.layouts import DTYPE_BITS

ROWS, FOUND, THERE = "of_rows", "found", "there"
"""Parameters: the matrix, where a thread's rows of a tile begin, which of these there are."""
TENSORS = (ROWS, FOUND)
PARAMETERS = (*TENSORS, THERE)
_PIECE = 16
"""Bytes that a thread loads at a time."""


def text(body: Body, operation: Operation) -> str:
    """``sA = rows of a``."""
    return f"{body.operands['to'].parameter} = rows of {operation.tensor}, as a list says"


def division(plan: Plan, fragment: Fragment, operation: Operation) -> tuple[int, int, int]:
    """Rows of a tile, how many threads copy 16 bytes of one row side by side, and the rows that
    four warps divide between them.

    Raises EmitError if threads have no whole rows.
    """
    to = operands_of(plan, operation)["to"]
    columns = min(plan.views[to.part.region.name].panel, to.part.columns)
    panel = columns * DTYPE_BITS[to.dtype] // 8
    across = panel // _PIECE
    down = THREADS // across
    if to.part.rows % down or fragment.rows % down:
        raise EmitError(
            f"{operation.name}: {THREADS} threads load {_PIECE} bytes each of {down} rows of "
            f"{panel} bytes, and {min(to.part.rows, fragment.rows)} rows are not a multiple",
            operation,
            rule="rows-of-threads",
            fix="give the tile rows of a multiple of 128 bytes",
        )
    return to.part.rows, across, fragment.rows


def write(body: Body, operation: Operation) -> None:
    """All of a tile at once."""
    _, _, band = division(body.plan, body.fragment, operation)
    body.elements.uses |= {*PARAMETERS, "column_0", "thread"}
    body.source.uses("gather_rows")
    arguments = [body.operands["to"].parameter, *PARAMETERS, "column_0", "thread"]
    body.source.call("gather_rows", [*arguments, str(band)])

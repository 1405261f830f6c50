"""Rows that threads take through a list, from a global tensor to shared memory."""

from __future__ import annotations

from schedgen.codegen.errors import EmitError
from schedgen.codegen.fragment import THREADS
from schedgen.codegen.kinds.body import Body
from schedgen.kernel import Operation
from schedgen.layouts import DTYPE_BITS

ROWS, INDEX, FIRST, COUNT = "of_rows", "of_index", "begin_rows", "n_rows"
"""Parameters: matrix and list, the list's first element of an output tile's number, how many that
has.
"""
TENSORS = (ROWS, INDEX)
PARAMETERS = (*TENSORS, FIRST, COUNT)
_PIECE = 16
"""Bytes that a thread loads at a time."""


def text(body: Body, operation: Operation) -> str:
    """``sA = rows of a``."""
    return f"{body.operands['to'].parameter} = rows of {operation.tensor}, as a list says"


def write(body: Body, operation: Operation) -> None:
    """All of a tile at once."""
    to = body.operands["to"]
    columns = min(body.plan.views[to.part.region.name].panel, to.part.columns)
    panel = columns * DTYPE_BITS[to.dtype] // 8
    down = THREADS // (panel // _PIECE)
    if to.part.rows % down or body.fragment.rows % down:
        raise EmitError(
            f"{operation.name}: {THREADS} threads load {_PIECE} bytes each of {down} rows of "
            f"{panel} bytes, and {min(to.part.rows, body.fragment.rows)} rows are not a multiple",
            operation,
            rule="rows-of-threads",
            fix="give the tile rows of a multiple of 128 bytes",
        )
    body.elements.uses |= {ROWS, INDEX, FIRST, COUNT, "row_0", "column_0", "thread"}
    body.source.uses("gather_rows")
    arguments = [to.parameter, ROWS, INDEX, FIRST, COUNT, "row_0", "column_0", "thread"]
    body.source.call("gather_rows", [*arguments, str(body.fragment.rows)])

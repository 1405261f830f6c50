"""Running sums along the rows of a tile."""

from __future__ import annotations

from schedgen.codegen.errors import EmitError
from schedgen.codegen.kinds.body import Body
from schedgen.codegen.operands import Shape
from schedgen.kernel import Operation


def text(body: Body, operation: Operation) -> str:
    """``rC = running sum(rS)``."""
    del operation
    return f"{body.operands['to'].parameter} = running sum({body.operands['from'].parameter})"


def write(body: Body, operation: Operation) -> None:
    """Sums in registers, from where they go to another memory if the result is there."""
    source, to = body.operands["from"], body.operands["to"]
    if to.shape is not Shape.TILE:
        raise EmitError(
            f"{operation.name}: '{to.parameter}' is no tile that sums can be written to",
            rule="operand-of-scan",
            fix="give it as many rows and columns as what is added up",
        )
    registers = body.in_registers(source)
    body.source.uses("row_sums")
    made = f"out_{to.parameter}"
    body.source.add(f"{made} = row_sums({registers})")
    if to.in_registers:
        body.pieces.keep(made, to)
    else:
        body.pieces.store(made, to, body.columns, "")

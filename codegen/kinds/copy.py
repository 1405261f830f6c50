"""Copies of tiles by threads."""

from __future__ import annotations

from schedgen.codegen.kinds.body import Body
from schedgen.codegen.operands import Shape
from schedgen.exchanges import exchanges
from schedgen.expressions import Name
from schedgen.kernel import Operation


def text(body: Body, operation: Operation) -> str:
    """``rS = S``."""
    to, source = body.operands["to"].parameter, body.operands["from"].parameter
    return f"{to} = {source}" + (", transposed" if operation.transposed else "")


def write(body: Body, operation: Operation) -> None:
    """Between registers and another memory at once, else element by element."""
    source, to = body.operands["from"], body.operands["to"]
    if exchanges(body.plan.kernel, operation):
        body.source.uses("exchange_bytes")
        body.source.add(f"exchange_bytes({source.parameter}, {to.parameter})")
    elif source.in_registers and to.shape is Shape.TILE and not to.in_registers:
        body.pieces.store(source.parameter, to, body.columns, "")
    elif (
        to.in_registers
        and not source.in_registers
        and source.shape is Shape.TILE
        and source.dtype == to.dtype
    ):
        body.pieces.load(source, to.parameter, body.columns, "")
    else:
        body.write_formulas([("to", Name("from"))])

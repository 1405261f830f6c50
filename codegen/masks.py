"""When a mask keeps a whole tile, so that its elements need not be looked at."""

from __future__ import annotations

from schedgen.codegen.errors import EmitError
from schedgen.codegen.formulas import code
from schedgen.expressions import (
    Binary,
    Boolean,
    Compare,
    Expression,
    Logical,
    Name,
    Number,
    Unary,
    references,
)


def always(keep: Expression, row: str, column: str, rows: int, columns: int) -> str:
    """A condition under which ``keep`` holds for all rows and columns from the given ones on.

    Each comparison is taken where it is least likely to hold. Sums of rows and columns are
    monotone, so the corners decide; the condition may fail although all is kept, never the other
    way round.
    """
    return _worst(keep, row, column, rows - 1, columns - 1, wanted=True)


def _worst(
    node: Expression, row: str, column: str, high_row: int, high_column: int, *, wanted: bool
) -> str:
    def again(other: Expression, wanted: bool) -> str:
        return _worst(other, row, column, high_row, high_column, wanted=wanted)

    match node:
        case Logical(operator, left, right):
            return f"({again(left, wanted)} {operator} {again(right, wanted)})"
        case Unary("not", operand):
            return f"(not {again(operand, not wanted)})"
        case Compare("<" | "<=" | ">" | ">=" as operator, left, right):
            large = (operator in ("<", "<=")) == wanted  # the left side is taken as large as can be

            def side(expression: Expression, largest: bool) -> str:
                corner = {"row": high_row, "column": high_column}
                names = {"row": row, "column": column}

                def look(name: Name) -> str:
                    if name.name not in corner:
                        return name.name
                    up = largest == (_sign(expression, name.name) > 0)
                    return f"({names[name.name]} + {corner[name.name]})" if up else names[name.name]

                return code(expression, look)

            return f"({side(left, large)} {operator} {side(right, not large)})"
        case _ if {"row", "column"} & {name.name for name in references(node)}:
            raise EmitError("a mask has to compare sums of rows and columns")
        case _:
            return code(node, lambda name: name.name)


def _sign(node: Expression, name: str) -> int:
    """Whether a sum grows (1) or falls (-1) with a name; 0 if it does not depend on it."""
    match node:
        case Name(found):
            return 1 if found == name else 0
        case Number() | Boolean():
            return 0
        case Unary("+", operand):
            return _sign(operand, name)
        case Unary("-", operand):
            return -_sign(operand, name)
        case Binary("+", left, right):
            return _sign(left, name) or _sign(right, name)
        case Binary("-", left, right):
            return _sign(left, name) or -_sign(right, name)
        case _ if name in {found.name for found in references(node)}:
            raise EmitError("a mask has to compare sums of rows and columns")
        case _:
            return 0

"""Masks: when a tile is kept as a whole, and up to which column each of its rows is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from schedgen.codegen.errors import EmitError
from schedgen.codegen.formulas import code, integer
from schedgen.expressions import (
    Binary,
    Boolean,
    Call,
    Compare,
    Expression,
    Logical,
    Name,
    Number,
    Unary,
    references,
    render,
)
from schedgen.expressions.nodes import CompareOperator, walk
from schedgen.expressions.solving import OPPOSITE, solved

ORDERED = ("<", "<=", ">", ">=")
"""Comparisons that hold from some number on, or up to one."""


# -- whole tiles ----------------------------------------------------------------------------------


def always(keep: Expression, row: str, column: str, rows: int, columns: int) -> str:
    """A condition under which ``keep`` holds for all rows and columns from the given ones on.

    Each comparison is taken where it is least likely to hold. Sums of rows and columns are
    monotone, so the corners decide; the condition may fail although all is kept, never the other
    way round.

    Raises:
        EmitError: a comparison is of something else.
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

                try:
                    return integer(expression, {name: look(Name(name)) for name in corner})
                except EmitError:  # of numbers that are not whole
                    return code(expression, look)

            return f"({side(left, large)} {operator} {side(right, not large)})"
        case _ if {"row", "column"} & {name.name for name in references(node)}:
            raise _no_sum(node)
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
        case Binary("+" | "-" as operator, left, right):
            first, second = _sign(left, name), _sign(right, name)
            second = second if operator == "+" else -second
            if first * second < 0:
                raise EmitError(
                    f"'{render(node)}' of a mask adds '{name}' and takes it away",
                    rule="no-emitter-for-mask",
                    fix=f"write it without '{name}'",
                )
            return first or second
        case Binary("*", Number(factor), other) | Binary("*", other, Number(factor)):
            return _sign(other, name) * ((factor > 0) - (factor < 0))
        case _ if name in {found.name for found in references(node)}:
            raise _no_sum(node)
        case _:
            return 0


def _no_sum(node: Expression) -> EmitError:
    return EmitError(
        f"'{render(node)}' of a mask is no comparison of sums of rows and columns",
        rule="no-emitter-for-mask",
        fix="write such a condition as a map: {rS: 'where(condition, rS, -inf)'}",
    )


def left_to_ask(keep: Expression) -> Expression:
    """What ``keep`` is for single elements where it does not hold for all of them: conditions that
    are the same for all and are joined by ``or`` do not hold then.
    """
    if isinstance(keep, Logical) and keep.operator == "or":
        for same, other in ((keep.left, keep.right), (keep.right, keep.left)):
            if {"row", "column"}.isdisjoint(name.name for name in references(same)):
                return left_to_ask(other)
    return keep


# -- single elements ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limits:
    """A row keeps its columns from the largest of ``first`` on, before the smallest of ``end``."""

    first: tuple[Expression, ...] = ()
    end: tuple[Expression, ...] = ()


def limits(keep: Expression, whole: Collection[str]) -> Limits | None:
    """The columns that a row keeps, if ``keep`` says no more than that, in whole numbers.

    So that an element needs a single comparison. ``whole`` has the names of whole numbers.
    """
    match keep:
        case Logical("and", left, right):
            one, other = limits(left, whole), limits(right, whole)
            if one is None or other is None:
                return None
            return Limits(one.first + other.first, one.end + other.end)
        case Logical("or", left, right):
            return _either(limits(left, whole), limits(right, whole))
        case Unary("not", Compare(operator, left, right)) if operator in ORDERED:
            return limits(Compare(OPPOSITE[operator], left, right), whole)
        case Compare(operator, left, right) if operator in ORDERED:
            return _limit(operator, left, right, {*whole, "row"})
        case _:
            return None


def _either(one: Limits | None, other: Limits | None) -> Limits | None:
    """The columns that one of two keeps, if that is a single range: both have no first column, or
    none has an end.
    """
    if one is None or other is None:
        return None
    if not one.first and not other.first:
        return Limits(end=(Call("max", (_of("min", one.end), _of("min", other.end))),))
    if not one.end and not other.end:
        return Limits(first=(Call("min", (_of("max", one.first), _of("max", other.first))),))
    return None


def _of(function: str, bounds: tuple[Expression, ...]) -> Expression:
    return bounds[0] if len(bounds) == 1 else Call(function, bounds)


def _limit(
    operator: CompareOperator, left: Expression, right: Expression, whole: set[str]
) -> Limits | None:
    """Of one comparison, solved for the column."""
    bound = solved(operator, left, right, "column")
    # which the other side is no sum of if the column is on both
    if bound is None or not _is_whole(bound.value, whole):
        return None
    return Limits(end=(bound.value,)) if bound.upper else Limits(first=(bound.value,))


def _is_whole(node: Expression, whole: set[str]) -> bool:
    """Whether it is a sum of whole numbers."""
    return all(
        part.value.denominator == 1
        if isinstance(part, Number)
        else part.name in whole
        if isinstance(part, Name)
        else isinstance(part, Binary | Unary) and part.operator in ("+", "-", "*")
        for part in walk(node)
    )

"""Which columns a condition can hold in, for a range of rows.

Whatever is found is an envelope: outside of it the condition is false; inside it may be either.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from schedgen.expressions.nodes import (
    Binary,
    Call,
    Compare,
    CompareOperator,
    Expression,
    Logical,
    Name,
    Number,
    Unary,
)
from schedgen.expressions.solving import OPPOSITE, solved, whole_and_positive


@dataclass(frozen=True, slots=True)
class Columns:
    """From ``first`` on, before ``end``; None: nothing is known on that side."""

    first: Expression | None = None
    end: Expression | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """From ``first`` to ``last``, both included. ``whole`` has the names of whole numbers."""

    first: Expression
    last: Expression
    whole: frozenset[str]


def columns_of(
    keep: Expression, rows: Rows, *, row: str = "row", column: str = "column"
) -> Columns:
    """The columns outside of which ``keep`` holds for none of the rows.

    What is not a comparison of whole numbers, solved for the column with ``+``, ``-`` and ``//`` of
    a number, says nothing. Rows may stand in anything that grows or falls with them.
    """
    return _Search(rows, row, column).of(keep, True)


@dataclass(frozen=True, slots=True)
class _Search:
    rows: Rows
    row: str
    column: str

    def of(self, node: Expression, wanted: bool) -> Columns:
        """Of a condition, or where it is not ``wanted`` of its opposite."""
        match node:
            case Unary("not", operand):
                return self.of(operand, not wanted)
            case Logical(operator, left, right):
                both = (operator == "and") == wanted
                return (_both if both else _either)(self.of(left, wanted), self.of(right, wanted))
            case Compare(operator, left, right):
                return self._compared(operator if wanted else OPPOSITE[operator], left, right)
            case _:
                return Columns()

    def _compared(self, operator: CompareOperator, left: Expression, right: Expression) -> Columns:
        if operator == "==":
            return _both(self._compared(">=", left, right), self._compared("<=", left, right))
        bound = solved(operator, left, right, self.column)
        value = None if bound is None else self._extreme(bound.value, bound.upper)
        if bound is None or value is None:
            return Columns()
        return Columns(end=value) if bound.upper else Columns(first=value)

    def _extreme(self, node: Expression, largest: bool) -> Expression | None:
        """The largest or smallest value of a whole number for all rows; None if nobody knows."""
        match node:
            case Number(value):
                return node if value.denominator == 1 else None
            case Name(name, 0) if name == self.row:
                return self.rows.last if largest else self.rows.first
            case Name(name, 0):
                return node if name in self.rows.whole else None
            case Unary("+" | "-" as sign, operand):
                found = self._extreme(operand, largest == (sign == "+"))
                return None if found is None else Unary(sign, found)
            case Binary("+" | "-" as sign, left, right):
                one = self._extreme(left, largest)
                other = self._extreme(right, largest == (sign == "+"))
                return None if one is None or other is None else Binary(sign, one, other)
            case Binary("*", a, b):
                a, b = (a, b) if _constant(b) is not None else (b, a)
                factor = _constant(b)
                if factor is None or factor.denominator != 1:
                    return None
                found = self._extreme(a, largest == (factor >= 0))
                return None if found is None else Binary("*", found, b)
            case Binary("//", a, Number(size) as number) if whole_and_positive(size):
                found = self._extreme(a, largest)
                return None if found is None else Binary("//", found, number)
            case Binary("%", a, Number(size)) if whole_and_positive(size):
                known = self._extreme(a, largest) is not None
                return Number(size - 1 if largest else Fraction(0)) if known else None
            case Call("min" | "max" as function, arguments):
                found = [self._extreme(each, largest) for each in arguments]
                known = tuple(each for each in found if each is not None)
                return Call(function, known) if len(known) == len(found) else None
            case _:
                return None


def _constant(node: Expression) -> Fraction | None:
    """The number that is written there, with its sign."""
    match node:
        case Number(value):
            return value
        case Unary("-", Number(value)):
            return -value
        case _:
            return None


def _both(one: Columns, other: Columns) -> Columns:
    return Columns(
        _joined("max", one.first, other.first) or one.first or other.first,
        _joined("min", one.end, other.end) or one.end or other.end,
    )


def _either(one: Columns, other: Columns) -> Columns:
    return Columns(_joined("min", one.first, other.first), _joined("max", one.end, other.end))


def _joined(function: str, one: Expression | None, other: Expression | None) -> Expression | None:
    if one is None or other is None or one == other:
        return one if one == other else None
    return Call(function, (one, other))

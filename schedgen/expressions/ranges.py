"""Which columns a condition can hold in, for a range of rows.

Whatever is found is an envelope: outside of it the condition is false; inside it may be either.
"""

from __future__ import annotations

from collections.abc import Collection
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
    references,
)

_ONE = Number(Fraction(1))
_MIRRORED: dict[CompareOperator, CompareOperator] = {
    "<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!=",
}  # fmt: skip
_OPPOSITE: dict[CompareOperator, CompareOperator] = {
    "<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "==",
}  # fmt: skip


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
                return self._compared(operator if wanted else _OPPOSITE[operator], left, right)
            case _:
                return Columns()

    def _compared(self, operator: CompareOperator, left: Expression, right: Expression) -> Columns:
        if self.column in _names(right):
            left, right, operator = right, left, _MIRRORED[operator]
        if operator == "!=" or self.column not in _names(left):
            return Columns()
        if operator == "==":
            return _both(self._compared(">=", left, right), self._compared("<=", left, right))
        while left != Name(self.column):
            match left:
                case Binary("+" | "-" as sign, a, b) if self.column in _names(a):
                    left, right = a, Binary("-" if sign == "+" else "+", right, b)
                case Binary("+", a, b):
                    left, right = b, Binary("-", right, a)
                case Binary("-", a, b):
                    left, right, operator = b, Binary("-", a, right), _MIRRORED[operator]
                case Unary("+" | "-" as sign, a):
                    left, right = a, Unary(sign, right)
                    operator = operator if sign == "+" else _MIRRORED[operator]
                case Binary("//", a, Number(size) as count) if _positive(size):
                    # a // c < r is a < c r, and a // c <= r is a < c (r + 1)
                    right = Binary("+", right, _ONE) if operator in ("<=", ">") else right
                    left, right = a, Binary("*", right, count)
                    operator = "<" if operator in ("<", "<=") else ">="
                case _:
                    return Columns()
        upper = operator in ("<", "<=")
        bound = self._extreme(right, upper)
        if bound is None:
            return Columns()
        bound = Binary("+", bound, _ONE) if operator in ("<=", ">") else bound
        return Columns(end=bound) if upper else Columns(first=bound)

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
            case Binary("//", a, Number(size) as number) if _positive(size):
                found = self._extreme(a, largest)
                return None if found is None else Binary("//", found, number)
            case Binary("%", a, Number(size)) if _positive(size):
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


def _positive(size: Fraction) -> bool:
    return size.denominator == 1 and size > 0


def _names(node: Expression) -> Collection[str]:
    return {name.name for name in references(node)}


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

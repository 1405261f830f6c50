"""Comparisons solved for a name: what that is more or less than."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from schedgen.expressions.nodes import (
    Binary,
    CompareOperator,
    Expression,
    Name,
    Number,
    Unary,
    references,
)

ONE = Number(Fraction(1))
MIRRORED: dict[CompareOperator, CompareOperator] = {
    "<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!=",
}  # fmt: skip
"""The comparison of the same sides exchanged."""
OPPOSITE: dict[CompareOperator, CompareOperator] = {
    "<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "==",
}  # fmt: skip
"""What holds where a comparison does not."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A whole number is less than ``value``, if it is an ``upper`` one, else ``value`` or more."""

    upper: bool
    value: Expression


def mentioned(node: Expression) -> set[str]:
    """The names in an expression."""
    return {name.name for name in references(node)}


def solved(
    operator: CompareOperator, left: Expression, right: Expression, name: str
) -> Bound | None:
    """What a comparison of whole numbers says of ``name``: solved with ``+``, ``-`` and ``//`` of a
    positive number. None for ``==`` and ``!=``, and if the name cannot be brought to one side.
    """
    if operator in ("==", "!="):
        return None
    if name in mentioned(right):
        left, right, operator = right, left, MIRRORED[operator]
    while left != Name(name):
        match left:
            case Binary("+" | "-" as sign, a, b) if name in mentioned(a):
                left, right = a, Binary("-" if sign == "+" else "+", right, b)
            case Binary("+", a, b):
                left, right = b, Binary("-", right, a)
            case Binary("-", a, b):
                left, right, operator = b, Binary("-", a, right), MIRRORED[operator]
            case Unary("+" | "-" as sign, a):
                left, right = a, Unary(sign, right)
                operator = operator if sign == "+" else MIRRORED[operator]
            case Binary("//", a, Number(size) as count) if whole_and_positive(size):
                # a // c < r is a < c r, and a // c <= r is a < c (r + 1)
                right = Binary("+", right, ONE) if operator in ("<=", ">") else right
                left, right = a, Binary("*", right, count)
                operator = "<" if operator in ("<", "<=") else ">="
            case _:
                return None
    value = Binary("+", right, ONE) if operator in ("<=", ">") else right
    return Bound(operator in ("<", "<="), value)


def whole_and_positive(size: Fraction) -> bool:
    """Whether one can divide whole numbers by it."""
    return size.denominator == 1 and size > 0

"""Names replaced by what they stand for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from schedgen.expressions.nodes import (
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
    walk,
)

ZERO = Number(Fraction(0))


def fold(node: Expression, values: Mapping[str, Expression]) -> Expression:
    """``node`` with values for names, and without conditions that these decide."""
    match node:
        case Name(name, 0):
            return values.get(name, node)
        case Unary(operator, operand):
            inner = fold(operand, values)
            if operator == "not" and isinstance(inner, Boolean):
                return Boolean(not inner.value)
            return Unary(operator, inner)
        case Binary(operator, left, right):
            return Binary(operator, fold(left, values), fold(right, values))
        case Compare(operator, left, right):
            return Compare(operator, fold(left, values), fold(right, values))
        case Logical(operator, left, right):
            return _logical(node, fold(left, values), fold(right, values))
        case Call("where", (condition, then, other)):
            chosen = fold(condition, values)
            if isinstance(chosen, Boolean):
                return fold(then if chosen.value else other, values)
            return Call("where", (chosen, fold(then, values), fold(other, values)))
        case Call(function, arguments):
            return Call(function, tuple(fold(argument, values) for argument in arguments))
        case _:
            return node


def of_this_iteration(node: Expression, names: Collection[str]) -> Expression:
    """``node`` with the values that ``names`` have now instead of those one iteration ago."""

    def renewed(part: Expression) -> Expression:
        return of_this_iteration(part, names)

    match node:
        case Name(name, 1) if name in names:
            return replace(node, distance=0)
        case Unary():
            return replace(node, operand=renewed(node.operand))
        case Binary() | Compare() | Logical():
            return replace(node, left=renewed(node.left), right=renewed(node.right))
        case Call():
            return replace(node, arguments=tuple(map(renewed, node.arguments)))
        case _:
            return node


def replaced(node: Expression, part: Expression, by: Expression) -> Expression:
    """``node`` with ``by`` wherever ``part`` stands in it."""
    if node == part:
        return by
    match node:
        case Unary():
            return replace(node, operand=replaced(node.operand, part, by))
        case Binary() | Compare() | Logical():
            left, right = (replaced(side, part, by) for side in (node.left, node.right))
            return replace(node, left=left, right=right)
        case Call():
            arguments = tuple(replaced(argument, part, by) for argument in node.arguments)
            return replace(node, arguments=arguments)
        case _:
            return node


def common(formulas: Sequence[Expression], name: str) -> Expression:
    """The largest part of the first one without which none of ``formulas`` names ``name``: what
    they make of it before they differ; the name itself if that is nothing.
    """
    known = Name(name)
    for part in walk(formulas[0]):
        if part != known and known in references(part) and not isinstance(part, Compare | Logical):
            rest = (replaced(formula, part, ZERO) for formula in formulas)
            if not any(known in references(formula) for formula in rest):
                return part
    return known


def _logical(node: Logical, left: Expression, right: Expression) -> Expression:
    decides = node.operator == "or"
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Boolean):
            return one if one.value == decides else other
    return Logical(node.operator, left, right)

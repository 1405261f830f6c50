"""Derivatives of formulas with respect to one of their names.

Formulas that are 0 or 1 are left out of sums and products, so that a formula in which the name
stands by itself has the derivative 1. Of functions with a corner the derivative there is that of
one side: of ``abs`` and ``relu`` the one below, of ``max`` and ``min`` that of the argument which
is taken, the first of equal ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from schedgen.expressions.errors import ExpressionError
from schedgen.expressions.folding import ZERO, fold
from schedgen.expressions.nodes import (
    Binary,
    Call,
    Compare,
    Expression,
    Name,
    Number,
    Unary,
    references,
)
from schedgen.expressions.parsing import parse

ONE = Number(Fraction(1))
_OF_X: Mapping[str, str] = {
    "exp2": "0.6931471805599453 * exp2(x)",
    "log2": "1.4426950408889634 * rcp(x)",
    "exp": "exp(x)",
    "log": "rcp(x)",
    "rcp": "-(rcp(x) * rcp(x))",
    "rsqrt": "-0.5 * (rsqrt(x) * rcp(x))",
    "sqrt": "0.5 * rsqrt(x)",
    "tanh": "1 - tanh(x) * tanh(x)",
    "sigmoid": "sigmoid(x) * (1 - sigmoid(x))",
    "abs": "where(x > 0, 1, -1)",
    "relu": "where(x > 0, 1, 0)",
    "silu": "sigmoid(x) * (1 + x * (1 - sigmoid(x)))",
    # of x * (1 + t) / 2, where t is tanh(u) and u is x * (c0 + c1 * x * x)
    "gelu": "0.5 * (1 + tanh(x * (0.7978845608028654 + 0.035677408136300125 * (x * x)))) + 0.5 * x"
    " * (1 - tanh(x * (0.7978845608028654 + 0.035677408136300125 * (x * x)))"
    " * tanh(x * (0.7978845608028654 + 0.035677408136300125 * (x * x))))"
    " * (0.7978845608028654 + 0.10703222440890037 * (x * x))",
}
"""What each function grows by where its argument x does."""


def derivative(node: Expression, name: str) -> Expression:
    """What a formula grows by where the buffer ``name`` does, element by element.

    Args:
        node: a formula (`check_formula`), in which conditions stand in ``where`` only.
        name: what is differentiated by, of this iteration. Conditions do not count: where one that
            names it changes, the formula jumps, which no derivative says.

    Raises:
        ExpressionError: a function of the name has no derivative: ``floor`` and the like.
    """
    return _Derivative(Name(name)).of(node)


@dataclass(frozen=True, slots=True)
class _Derivative:
    name: Name

    def of(self, node: Expression) -> Expression:
        if self.name not in references(node):
            return ZERO
        match node:
            case Name():
                return ONE
            case Unary("+", operand):
                return self.of(operand)
            case Unary("-", operand):
                return _negative(self.of(operand))
            case Binary("+" | "-" as sign, left, right):
                return _sum(sign, self.of(left), self.of(right))
            case Binary("*", left, right):
                one, two = self._product(self.of(left), right), self._product(left, self.of(right))
                return _sum("+", one, two)
            case Binary("/", left, right):  # l' / r - l / r * r' / r
                shrinks = self._product(node, _quotient(self.of(right), right))
                return _sum("-", _quotient(self.of(left), right), shrinks)
            case Call("fma", (x, y, z)):
                return self.of(Binary("+", Binary("*", x, y), z))
            case Call("where", (condition, then, other)):
                one, two = self.of(then), self.of(other)
                return one if one == two else Call("where", (condition, one, two))
            case Call("min" | "max" as function, arguments):
                return self._chosen(function, arguments)
            case Call(function, (argument,)) if function in _OF_X:
                outer = fold(parse(_OF_X[function]), {"x": argument})
                return self._product(outer, self.of(argument))
            case _:
                shown = f"'{node.function}'" if isinstance(node, Call) else "this"
                message = f"{shown} of '{self.name.name}' has no derivative"
                fix = f"write it without '{self.name.name}'"
                raise ExpressionError(message, node.offset, node.length, fix)

    def _chosen(self, function: str, arguments: tuple[Expression, ...]) -> Expression:
        """Of the least or the largest of several arguments."""
        first, *rest = arguments
        taken, found = first, self.of(first)
        for other in rest:
            grows = self.of(other)
            if grows != found:
                keep = Compare("<=" if function == "min" else ">=", taken, other)
                found = Call("where", (keep, found, grows))
            taken = Call(function, (taken, other))
        return found

    def _product(self, left: Expression, right: Expression) -> Expression:
        """Of two formulas, with what is free of the name first: scalars are multiplied once."""
        factors = [*_factors(left), *_factors(right)]
        if ZERO in factors:
            return ZERO
        factors.sort(key=lambda factor: self.name in references(factor))
        first, *rest = [factor for factor in factors if factor != ONE] or [ONE]
        for other in rest:
            first = Binary("*", first, other)
        return first


def _factors(node: Expression) -> list[Expression]:
    match node:
        case Binary("*", left, right):
            return [*_factors(left), *_factors(right)]
        case _:
            return [node]


def _negative(node: Expression) -> Expression:
    return ZERO if node == ZERO else Unary("-", node)


def _sum(sign: Literal["+", "-"], left: Expression, right: Expression) -> Expression:
    if right == ZERO:
        return left
    if left == ZERO:
        return right if sign == "+" else _negative(right)
    return Binary(sign, left, right)


def _quotient(left: Expression, right: Expression) -> Expression:
    return ZERO if left == ZERO else Binary("/", left, right)

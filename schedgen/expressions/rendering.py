"""Canonical text of an expression: one spelling per tree, minimal parentheses."""

from __future__ import annotations

from decimal import Decimal
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
    Text,
    Unary,
)

_LOWEST, _OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN, _ATOM = range(9)
_BINARY_LEVEL = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT}
_LOGICAL_LEVEL = {"or": _OR, "and": _AND}
_LONGEST_INTEGER = 10**18
"""From here on an integer is written with an exponent, if that is shorter."""


def render(expression: Expression) -> str:
    """Return the canonical text of ``expression``; ``parse(render(e)) == e`` for every parsed e.

    A literal that no text parses to (negative, or with an infinite decimal fraction such as 1/3)
    is written as arithmetic of the same value.
    """
    return _render(expression, _LOWEST)


def decimal_text(value: Fraction) -> str | None:
    """Return the shortest plain decimal spelling of ``value`` >= 0, None if it has none."""
    if value.denominator == 1 and value < _LONGEST_INTEGER:
        return str(value.numerator)
    # A denominator below 2**k divides 10**k if it divides any power of ten.
    mantissa = value * 10 ** value.denominator.bit_length()
    if mantissa.denominator != 1:
        return None
    digits = str(mantissa.numerator)
    significant = digits.rstrip("0")
    exponent = len(digits) - len(significant) - value.denominator.bit_length()
    parts = (0, tuple(map(int, significant)), exponent)
    return str(Decimal(parts)).lower().replace("e+", "e")


def _render(node: Expression, context: int) -> str:
    """Return the text of ``node``, in parentheses if it binds less tightly than ``context``."""
    text, level = _text_and_level(node)
    return f"({text})" if level < context else text


def _text_and_level(node: Expression) -> tuple[str, int]:
    match node:
        case Number(value):
            return _number(value)
        case Text(value):
            quote = '"' if "'" in value else "'"
            return f"{quote}{value}{quote}", _ATOM
        case Boolean(value):
            return ("true" if value else "false"), _ATOM
        case Name(name, distance):
            return (f"{name}@{distance}" if distance else name), _ATOM
        case Unary("not", operand):
            return f"not {_render(operand, _NOT)}", _NOT
        case Unary(sign, operand):
            return f"{sign}{_render(operand, _SIGN)}", _SIGN
        case Compare(operator, left, right):
            # Both operands bind tighter: comparisons do not chain.
            sides = _render(left, _SUM), _render(right, _SUM)
            return f"{sides[0]} {operator} {sides[1]}", _COMPARE
        case Binary(operator, left, right):
            return _left_associative(operator, _BINARY_LEVEL[operator], left, right)
        case Logical(operator, left, right):
            return _left_associative(operator, _LOGICAL_LEVEL[operator], left, right)
        case Call(function, arguments):
            listed = ", ".join(_render(argument, _LOWEST) for argument in arguments)
            return f"{function}({listed})", _ATOM


def _left_associative(
    operator: str, level: int, left: Expression, right: Expression
) -> tuple[str, int]:
    return f"{_render(left, level)} {operator} {_render(right, level + 1)}", level


def _number(value: Fraction) -> tuple[str, int]:
    decimal = decimal_text(abs(value))
    if decimal is None:
        return f"{value.numerator} / {value.denominator}", _PRODUCT
    return (f"-{decimal}", _SIGN) if value < 0 else (decimal, _ATOM)

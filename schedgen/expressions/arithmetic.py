"""Exact arithmetic over the parameters of a spec."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeAlias

from schedgen.expressions.errors import ExpressionError, UnknownName, suggest
from schedgen.expressions.functions import FUNCTIONS
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
from schedgen.expressions.rendering import decimal_text

Value: TypeAlias = Fraction | bool | str
"""What an expression over parameters evaluates to."""

Values: TypeAlias = Mapping[str, Fraction | int | bool | str]
"""The parameters, by name."""

MAX_MAGNITUDE = 10**18
"""Largest numerator or denominator; every size in a spec fits a 64-bit integer."""

_LONGEST_DECIMAL = 20

_BINARY: Mapping[str, Callable[[Fraction, Fraction], Fraction | int]] = {
    "+": Fraction.__add__,
    "-": Fraction.__sub__,
    "*": Fraction.__mul__,
    "/": Fraction.__truediv__,
    "//": Fraction.__floordiv__,
    "%": Fraction.__mod__,
}
_ORDER: Mapping[str, Callable[[Fraction, Fraction], bool]] = {
    "<": Fraction.__lt__,
    "<=": Fraction.__le__,
    ">": Fraction.__gt__,
    ">=": Fraction.__ge__,
}
_FUNCTIONS: Mapping[str, Callable[..., Fraction | int]] = {
    "abs": Fraction.__abs__,
    "ceil": math.ceil,
    "floor": math.floor,
    "max": max,
    "min": min,
}


def evaluate(expression: Expression, values: Values) -> Value:
    """Return the exact value of ``expression``, its names standing for ``values``.

    ``and`` and ``or`` look at their right operand only if the left one does not decide, so
    ``n != 0 and m / n > 2`` is safe. ``//`` and ``%`` round down, as in Python.

    Raises:
        ExpressionError: on an unknown name, a division by zero, operands of the wrong kind, an
            element-wise function, ``name@1``, or a number beyond ``MAX_MAGNITUDE``.
    """
    value = _evaluate(expression, values)
    if isinstance(value, Fraction) and max(abs(value.numerator), value.denominator) > MAX_MAGNITUDE:
        raise _error(expression, "the value is too large: it needs more than 18 digits")
    return value


def evaluate_int(expression: Expression, values: Values) -> int:
    """Return the value of ``expression``, which has to be an integer.

    Raises:
        ExpressionError: as ``evaluate``, and if the value is anything but an integer.
    """
    value = evaluate(expression, values)
    if isinstance(value, Fraction) and value.denominator == 1:
        return value.numerator
    fix = "round it with ceil(...) or floor(...)" if isinstance(value, Fraction) else None
    raise _error(expression, f"{_spell(value)} is not an integer", fix)


def _evaluate(node: Expression, values: Values) -> Value:
    match node:
        case Number(value) | Text(value) | Boolean(value):
            return value
        case Name():
            return _look_up(node, values)
        case Unary("not", operand):
            return not _truth(operand, values, "not")
        case Unary(sign, operand):
            number = _number(operand, values, sign)
            return -number if sign == "-" else number
        case Binary():
            return _binary(node, values)
        case Compare():
            return _compare(node, values)
        case Logical(word, left, right):
            # The left operand decides alone when it is false for ``and``, true for ``or``.
            decided = _truth(left, values, word)
            return decided if decided is (word == "or") else _truth(right, values, word)
        case Call("where", (condition, then, other)):
            return _evaluate(then if _truth(condition, values, "where") else other, values)
        case Call():
            return _call(node, values)


def _look_up(node: Name, values: Values) -> Value:
    if node.distance:
        message = f"'{node.name}@{node.distance}' is the value of an earlier loop iteration"
        raise _error(node, f"{message}; arithmetic over parameters has no loop")
    if node.name not in values:
        fix = suggest(node.name, values)
        if node.name in FUNCTIONS:
            fix = f"'{node.name}' is a function: write {node.name}(...)"
        raise UnknownName(f"unknown name '{node.name}'", node.offset, node.length, fix)
    value = values[node.name]
    if isinstance(value, bool):
        return value
    # str() turns the member of a StrEnum into the plain string that literals are compared with.
    return str(value) if isinstance(value, str) else Fraction(value)


def _binary(node: Binary, values: Values) -> Fraction:
    left = _number(node.left, values, node.operator)
    right = _number(node.right, values, node.operator)
    if right == 0 and node.operator in ("/", "//", "%"):
        raise _error(node.right, "division by zero")
    return Fraction(_BINARY[node.operator](left, right))


def _compare(node: Compare, values: Values) -> bool:
    if node.operator in _ORDER:
        left = _number(node.left, values, node.operator)
        return _ORDER[node.operator](left, _number(node.right, values, node.operator))
    first, second = evaluate(node.left, values), evaluate(node.right, values)
    if type(first) is not type(second):
        raise _error(node, f"cannot compare {_describe(first)} with {_describe(second)}")
    return (first == second) is (node.operator == "==")


def _call(node: Call, values: Values) -> Fraction:
    function = _FUNCTIONS.get(node.function)
    if function is None:
        message = f"{node.function} works on tiles; it has no meaning in arithmetic over parameters"
        raise _error(node, message, f"functions of parameters: {', '.join(sorted(_FUNCTIONS))}")
    return Fraction(function(*(_number(each, values, node.function) for each in node.arguments)))


def _number(node: Expression, values: Values, user: str) -> Fraction:
    value = evaluate(node, values)
    if not isinstance(value, Fraction):
        raise _error(node, f"'{user}' needs a number, not {_describe(value)}")
    return value


def _truth(node: Expression, values: Values, user: str) -> bool:
    value = evaluate(node, values)
    if not isinstance(value, bool):
        raise _error(node, f"'{user}' needs a condition, not {_describe(value)}")
    return value


def _describe(value: Value) -> str:
    match value:
        case bool():
            kind = "truth value"
        case str():
            kind = "string"
        case Fraction():
            kind = "number"
    return f"the {kind} {_spell(value)}"


def _spell(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}'"
    decimal = decimal_text(abs(value))
    if decimal is None or len(decimal) > _LONGEST_DECIMAL:
        return str(value)
    return f"-{decimal}" if value < 0 else decimal


def _error(node: Expression, message: str, fix: str | None = None) -> ExpressionError:
    return ExpressionError(message, node.offset, node.length, fix)

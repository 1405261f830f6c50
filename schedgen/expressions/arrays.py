"""Formulas over coordinates as arrays, for checks that look at many elements at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from schedgen.expressions.errors import ExpressionError
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
)
from schedgen.expressions.rendering import render

Array: TypeAlias = npt.NDArray[Any]

_BINARY: Mapping[str, Callable[[Array, Array], Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "//": np.floor_divide,
    "%": np.mod,
}
_COMPARE: Mapping[str, Callable[[Array, Array], Array]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
_CALLS: Mapping[str, Callable[..., Array]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "where": np.where,
}


def evaluate_arrays(expression: Expression, names: Mapping[str, Array | float | bool]) -> Array:
    """The value of a condition or formula, in float64, element by element; arrays broadcast.

    Raises:
        ExpressionError: a name has no value, or a function is none of whole numbers.
    """

    def again(part: Expression) -> Array:
        return evaluate_arrays(part, names)

    match expression:
        case Number(value):
            return np.asarray(float(value))
        case Boolean(value):
            return np.asarray(value)
        case Name(name, 0) if name in names:
            return np.asarray(names[name])
        case Unary("not", operand):
            return np.logical_not(again(operand))
        case Unary(sign, operand):
            return -again(operand) if sign == "-" else again(operand)
        case Binary(operator, left, right):
            return _BINARY[operator](again(left), again(right))
        case Compare(operator, left, right):
            return _COMPARE[operator](again(left), again(right))
        case Logical(word, left, right):
            both = np.logical_and if word == "and" else np.logical_or
            return both(again(left), again(right))
        case Call("min" | "max" as function, (first, *rest)):
            found = again(first)
            for other in rest:
                found = (np.minimum if function == "min" else np.maximum)(found, again(other))
            return found
        case Call(function, arguments) if function in _CALLS:
            return _CALLS[function](*map(again, arguments))
        case _:
            message = f"'{render(expression)}' is no arithmetic over coordinates"
            raise ExpressionError(message, expression.offset, expression.length)

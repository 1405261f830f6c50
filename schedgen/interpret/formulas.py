"""Element-wise formulas of the spec language on torch tensors, in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch

from schedgen.expressions import (
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
from schedgen.interpret.philox import uniform

Look: TypeAlias = Callable[[Name], torch.Tensor]
"""The value of a name: float32 for numbers, bool for conditions."""

_BINARY: Mapping[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "+": torch.add,
    "-": torch.sub,
    "*": torch.mul,
    "/": torch.div,
    "==": torch.eq,
    "!=": torch.ne,
    "<": torch.lt,
    "<=": torch.le,
    ">": torch.gt,
    ">=": torch.ge,
    "and": torch.logical_and,
    "or": torch.logical_or,
}
_PAIRWISE: Mapping[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "min": torch.minimum,
    "max": torch.maximum,
}
_FUNCTIONS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp2": torch.exp2,
    "log2": torch.log2,
    "exp": torch.exp,
    "log": torch.log,
    "rcp": torch.reciprocal,
    "rsqrt": torch.rsqrt,
    "sqrt": torch.sqrt,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "floor": torch.floor,
    "abs": torch.abs,
    "relu": torch.relu,
    "gelu": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}


def scalar(value: float | bool) -> torch.Tensor:
    """A number as float32, a truth value as bool."""
    kind = torch.bool if isinstance(value, bool) else torch.float32
    return torch.tensor(value, dtype=kind)


def compute(expression: Expression, look: Look) -> torch.Tensor:
    """The value of ``expression``, broadcast as far as its names need it."""
    match expression:
        case Number(value):
            return scalar(float(value))
        case Boolean(value):
            return scalar(value)
        case Name():
            return look(expression)
        case Unary("not", operand):
            return torch.logical_not(compute(operand, look))
        case Unary(sign, operand):
            value = compute(operand, look)
            return -value if sign == "-" else value
        case Binary(operator, left, right) | Compare(operator, left, right):
            return _BINARY[operator](compute(left, look), compute(right, look))
        case Logical(word, left, right):
            return _BINARY[word](compute(left, look), compute(right, look))
        case Call("uniform", arguments):
            return uniform([counter(each, look) for each in arguments])
        case Call(function, arguments):
            return _call(function, [compute(each, look) for each in arguments])
        case Text(value):
            raise ValueError(f"the string '{value}' has no value in a formula")


def counter(expression: Expression, look: Look) -> torch.Tensor:
    """The value of a sum, difference or product of whole numbers, int64 modulo 2^64."""
    match expression:
        case Number(value):
            return torch.tensor(int(value))
        case Name():
            return look(expression).to(torch.int64)
        case Unary(sign, operand):
            value = counter(operand, look)
            return -value if sign == "-" else value
        case Binary(operator, left, right):
            return _BINARY[operator](counter(left, look), counter(right, look))
        case _:
            raise ValueError(f"{type(expression).__name__} is no whole number")


def _call(function: str, values: list[torch.Tensor]) -> torch.Tensor:
    if function == "where":
        condition, yes, no = values
        return torch.where(condition, yes, no)
    if function in _PAIRWISE:
        result = values[0]
        for value in values[1:]:
            result = _PAIRWISE[function](result, value)
        return result
    if function == "fma":  # products are exact in float64, and sums nearly so
        x, y, z = (each.double() for each in values)
        return (x * y + z).to(torch.result_type(torch.add(*values[:2]), values[2]))
    return _FUNCTIONS[function](*values)

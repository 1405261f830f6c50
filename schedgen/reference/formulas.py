"""Element-wise formulas with error bounds, and exact arithmetic over an output tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

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
from schedgen.reference.estimate import (
    UNIT,
    Estimate,
    added,
    applied,
    chosen,
    exact,
    larger,
    loosened,
    multiplied,
)
from schedgen.reference.philox import uniform
from schedgen.reference.rounding import Array, Truth

_LOG2_E = math.log2(math.e)
_SMALL = 4 * UNIT
"""Relative error of ex2, rcp, rsqrt, sqrt and lg2 of the hardware, with some room."""
_WORDS = 2.0**32
_TANH = 2.0**-10.5
_POLYNOMIAL = 1.2e-4
"""Relative error of an exponential that FMA units compute."""


@dataclass(frozen=True)
class Condition:
    """For each element whether a condition holds, and whether that is certain."""

    truth: Truth
    sure: Truth


@dataclass(frozen=True)
class Formulas:
    """Evaluates formulas; ``look`` knows names. With ``polynomial`` exponentials are less exact."""

    look: Callable[[Name], Estimate]
    polynomial: bool = False

    def number(self, expression: Expression) -> Estimate:
        """The value of a formula, broadcast as far as its names need it."""
        match expression:
            case Number(value):
                return exact(float(np.float32(float(value))))
            case Name():
                return self.look(expression)
            case Unary(sign, operand):
                value = self.number(operand)
                if sign == "-":
                    return Estimate(-value.value, value.magnitude, value.error)
                return value
            case Binary("+", left, right):
                return added(self.number(left), self.number(right))
            case Binary("-", left, right):
                return added(self.number(left), self.number(right), -1.0)
            case Binary("*", left, right):
                return multiplied(self.number(left), self.number(right))
            case Binary("/", left, right):
                return multiplied(self.number(left), _reciprocal(self.number(right)))
            case Call("where", (condition, yes, no)):
                held = self.condition(condition)
                return chosen(held.truth, held.sure, self.number(yes), self.number(no))
            case Call("min" | "max" as word, (first, *rest)):
                found = self.number(first)
                for other in rest:
                    found = larger(found, self.number(other), 1.0 if word == "max" else -1.0)
                return found
            case Call("fma", arguments):
                x, y, z = (self.number(each) for each in arguments)
                return added(multiplied(x, y), z)
            case Call("uniform", arguments):
                return exact(uniform([self.counter(each) for each in arguments]))
            case Call(function, (operand,)):
                return self._function(function, self.number(operand))
            case _:
                raise ValueError(f"{type(expression).__name__} is no number")

    def counter(self, expression: Expression) -> Array:
        """The value of a sum, difference or product of whole numbers, modulo 2^32."""
        match expression:
            case Number(value):
                return np.asarray(float(value))
            case Name():
                return self.look(expression).value
            case Unary(sign, operand):
                value = self.counter(operand)
                return -value if sign == "-" else value
            case Binary("*", left, right):
                return _low_product(self.counter(left), self.counter(right))
            case Binary(sign, left, right):
                one, other = self.counter(left), self.counter(right)
                return np.mod(one - other if sign == "-" else one + other, _WORDS)
            case _:
                raise ValueError(f"{type(expression).__name__} is no whole number")

    def condition(self, expression: Expression) -> Condition:
        """Where a condition holds."""
        match expression:
            case Boolean(value):
                return Condition(np.asarray(value), np.asarray(True))
            case Name():  # a parameter that is true or false
                return Condition(self.look(expression).value != 0, np.asarray(True))
            case Unary("not", operand):
                held = self.condition(operand)
                return Condition(~held.truth, held.sure)
            case Logical(word, left, right):
                return _joined(word, self.condition(left), self.condition(right))
            case Compare(operator, left, right):
                return _compared(operator, self.number(left), self.number(right))
            case _:
                raise ValueError(f"{type(expression).__name__} is no condition")

    def _function(self, function: str, x: Estimate) -> Estimate:
        match function:
            case "exp2":
                found = applied(np.exp2, x, lambda _, y: y * math.log(2))
                return _relative(found, _POLYNOMIAL if self.polynomial else _SMALL)
            case "exp":
                found = applied(np.exp, x, lambda _, y: y)
                return _relative(found, _SMALL + 2 * UNIT * np.abs(np.nan_to_num(x.value)))
            case "log2":
                found = applied(np.log2, x, lambda x, _: _LOG2_E / x)
                return loosened(found, _SMALL * (np.abs(found.value) + 1))
            case "log":
                found = applied(np.log, x, lambda x, _: 1 / x)
                return loosened(found, _SMALL * (np.abs(found.value) + 1))
            case "rcp":
                return _reciprocal(x)
            case "rsqrt":
                found = applied(lambda x: 1 / np.sqrt(x), x, lambda x, y: y / (2 * x))
                return _relative(found, _SMALL)
            case "sqrt":
                return _relative(applied(np.sqrt, x, lambda _, y: 1 / (2 * y)), _SMALL)
            case "tanh":
                return _relative(applied(np.tanh, x, lambda _, y: 1 - y * y), _TANH)
            case "sigmoid":
                found = applied(lambda x: 1 / (1 + np.exp(-x)), x, lambda _, y: y * (1 - y))
                return _relative(found, 2 * _SMALL + 2 * UNIT * np.abs(np.nan_to_num(x.value)))
            case "floor":
                return applied(np.floor, x, lambda _, y: 0 * y)
            case "abs":
                return Estimate(np.abs(x.value), x.magnitude, x.error)
            case "relu":
                return larger(x, exact(0.0))
            case "silu":
                return multiplied(x, self._function("sigmoid", x))
            case "gelu":
                return self._gelu(x)
            case _:
                raise ValueError(f"'{function}' is no function of formulas")

    def _gelu(self, x: Estimate) -> Estimate:
        """The tanh approximation, as the spec language defines it."""
        cube = multiplied(multiplied(x, x), x)
        inner = added(x, multiplied(exact(0.044715), cube))
        bent = self._function("tanh", multiplied(exact(math.sqrt(2 / math.pi)), inner))
        half = multiplied(exact(0.5), x)
        return added(half, multiplied(half, bent))


def _low_product(left: Array, right: Array) -> Array:
    """A product modulo 2^32 by halves of one factor, so that float64 has all that is added."""
    one, other = np.mod(left, _WORDS), np.mod(right, _WORDS)
    upper, lower = np.divmod(other, 2.0**16)
    return np.mod(np.mod(one * upper, 2.0**16) * 2.0**16 + one * lower, _WORDS)


def _relative(number: Estimate, unit: float | Array) -> Estimate:
    return loosened(number, unit * np.abs(np.nan_to_num(number.value, posinf=0.0, neginf=0.0)))


def _reciprocal(x: Estimate) -> Estimate:
    """1 / x; nothing is known if x may be 0 and may be something else."""
    found = applied(lambda x: 1 / x, x, lambda x, _: 1 / (x * x))
    may_vanish = (x.error > 0) & (x.error >= np.abs(x.value))
    error = np.where(may_vanish, np.inf, found.error)
    return _relative(Estimate(found.value, found.magnitude, error), _SMALL)


def _joined(word: str, left: Condition, right: Condition) -> Condition:
    """A side that is certain and decides makes the result certain."""
    if word == "and":
        truth = left.truth & right.truth
        decided = (left.sure & ~left.truth) | (right.sure & ~right.truth)
    else:
        truth = left.truth | right.truth
        decided = (left.sure & left.truth) | (right.sure & right.truth)
    return Condition(truth, (left.sure & right.sure) | decided)


_COMPARE: Mapping[str, Callable[[Array, Array], Truth]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def _compared(operator: str, left: Estimate, right: Estimate) -> Condition:
    truth = np.asarray(_COMPARE[operator](left.value, right.value))
    slack = left.error + right.error
    with np.errstate(invalid="ignore"):
        close = np.abs(left.value - right.value) <= slack  # not so if one is no number
    return Condition(truth, (slack == 0) | ~(close | (slack == np.inf)))


def arithmetic(expression: Expression, values: Mapping[str, Fraction | bool | str]) -> Fraction:
    """The exact value of an expression over parameters, extents and the place of a tile; a
    condition is 1 or 0.
    """

    def of(part: Expression) -> Fraction:
        return arithmetic(part, values)

    match expression:
        case Number(value):
            return value
        case Boolean(value):
            return Fraction(value)
        case Name(name):
            return _number(values[name])
        case Unary("not", operand):
            return Fraction(not of(operand))
        case Unary(sign, operand):
            return -of(operand) if sign == "-" else of(operand)
        case Binary(operator, left, right):
            return _EXACT[operator](of(left), of(right))
        case Compare(operator, left, right):
            return Fraction(_compare(operator, left, right, values))
        case Logical("and", left, right):
            return Fraction(bool(of(left)) and bool(of(right)))
        case Logical(_, left, right):
            return Fraction(bool(of(left)) or bool(of(right)))
        case Call("where", (condition, yes, no)):
            return of(yes) if of(condition) else of(no)
        case Call(function, arguments):
            return _rounding(function, [of(each) for each in arguments])
        case Text():
            raise ValueError("a word is no number")


def _rounding(function: str, values: list[Fraction]) -> Fraction:
    match function:
        case "ceil":
            return Fraction(math.ceil(values[0]))
        case "floor":
            return Fraction(math.floor(values[0]))
        case "abs":
            return abs(values[0])
        case _:
            return min(values) if function == "min" else max(values)


def _number(value: Fraction | bool | str) -> Fraction:
    if isinstance(value, str):
        raise ValueError(f"'{value}' is no number")
    return Fraction(value)


def _compare(
    operator: str, left: Expression, right: Expression, values: Mapping[str, Fraction | bool | str]
) -> bool:
    def side(part: Expression) -> Fraction | str:
        if isinstance(part, Text):
            return part.value
        if isinstance(part, Name) and isinstance(word := values[part.name], str):
            return word
        return arithmetic(part, values)

    a, b = side(left), side(right)
    if isinstance(a, str) or isinstance(b, str):
        return (a == b) is (operator == "==")
    return bool(_COMPARE_EXACT[operator](a, b))


_EXACT: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: Fraction(a // b),
    "%": lambda a, b: a % b,
}
_COMPARE_EXACT: Mapping[str, Callable[[Fraction, Fraction], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}

"""Which names of a formula have an influence on its value, whatever they hold.

A name without one is a mistake in a spec, or becomes one: compilers drop it with all that computes
it. Ranges of values decide that, from literals and from what functions can return; names can be
anything, infinities and what is no number included.
"""

from __future__ import annotations

from ctypes import c_float
from dataclasses import dataclass
from math import inf

from schedgen.expressions.nodes import (
    Binary,
    Call,
    Compare,
    Expression,
    Logical,
    Name,
    Number,
    Unary,
    walk,
)


@dataclass(frozen=True, slots=True)
class Range:
    """All values lie from ``low`` to ``high``, or are no numbers, where ``nan`` says so."""

    low: float = -inf
    high: float = inf
    nan: bool = True

    @property
    def constant(self) -> bool:
        return self.low == self.high and not self.nan

    def __or__(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high), self.nan or other.nan)


_ANY = Range()
_RESULTS = {
    "exp2": (0.0, inf),
    "exp": (0.0, inf),
    "sqrt": (0.0, inf),
    "rsqrt": (0.0, inf),
    "abs": (0.0, inf),
    "relu": (0.0, inf),
    "tanh": (-1.0, 1.0),
    "sigmoid": (0.0, 1.0),
}
"""What functions return for numbers."""
_ROUNDING = 2.0**-20
"""More than an operation of float32, or of a compiler that folds it, is off by."""


def without_influence(formula: Expression) -> list[Name]:
    """The names of ``formula`` whose values make no difference to it, as they stand in it."""
    kept: set[int] = set()
    _keep(formula, kept)
    names = [node for node in walk(formula) if isinstance(node, Name)]
    used = {(name.name, name.distance) for name in names if id(name) in kept}
    return [name for name in names if (name.name, name.distance) not in used]


def _keep(node: Expression, kept: set[int]) -> None:
    """Notes what the value of ``node`` depends on."""
    if not isinstance(node, Compare | Logical) and range_of(node).constant:
        return
    match node:
        case Name():
            kept.add(id(node))
        case Unary(_, operand):
            _keep(operand, kept)
        case Compare(_, left, right):
            if decided(node) is None:
                _keep(left, kept)
                _keep(right, kept)
        case Binary(_, left, right) | Logical(_, left, right):
            _keep(left, kept)
            _keep(right, kept)
        case Call("where", (condition, yes, no)):
            holds = decided(condition)
            if holds is None:
                _keep(condition, kept)
            for arm, taken in ((yes, True), (no, False)):
                if holds in (None, taken):
                    _keep(arm, kept)
        case Call(_, arguments):
            for argument in arguments:
                _keep(argument, kept)
        case _:
            pass


def decided(condition: Expression) -> bool | None:
    """Whether ``condition`` holds, if it always or never does."""
    if not isinstance(condition, Compare):
        return None
    left, right = range_of(condition.left), range_of(condition.right)
    below, above = left.high < right.low, left.low > right.high
    number = not (left.nan or right.nan)
    match condition.operator:
        case "<" | "<=":
            never = left.low >= right.high if condition.operator == "<" else above
            always = below if condition.operator == "<" else left.high <= right.low
        case ">" | ">=":
            never = left.high <= right.low if condition.operator == ">" else below
            always = above if condition.operator == ">" else left.low >= right.high
        case _:  # == and != of what is no number are not decided
            return None
    return False if never else (True if always and number else None)


def range_of(node: Expression) -> Range:
    """What the value of ``node`` can be."""
    match node:
        case Number(value):
            single = c_float(float(value)).value  # as the kernel has it
            return Range(single, single, nan=False)
        case Unary("-", operand):
            one = range_of(operand)
            return Range(-one.high, -one.low, one.nan)
        case Unary("+", operand):
            return range_of(operand)
        case Binary(operator, left, right):
            return _arithmetic(operator, range_of(left), range_of(right))
        case Call("where", (condition, yes, no)):
            holds = decided(condition)
            if holds is not None:
                return range_of(yes if holds else no)
            return range_of(yes) | range_of(no)
        case Call("min" | "max", arguments):
            every = [range_of(argument) for argument in arguments]
            choose = min if node.function == "min" else max
            low, high = choose(r.low for r in every), choose(r.high for r in every)
            return Range(low, high, any(r.nan for r in every))
        case Call("uniform"):
            return Range(0.0, 1.0 - 2.0**-23, nan=False)
        case Call(function, arguments):
            low, high = _RESULTS.get(function, (-inf, inf))
            return Range(low, high)
        case _:
            return _ANY


def _arithmetic(operator: str, left: Range, right: Range) -> Range:
    """Of constants only, within what roundings do; anything else may be no number."""
    if not (left.constant and right.constant) or (operator == "/" and not right.low):
        return _ANY
    a, b = left.low, right.low
    match operator:
        case "+" | "-":
            value, size = (a + b if operator == "+" else a - b), abs(a) + abs(b)
        case "*" | "/":
            value = a * b if operator == "*" else a / b
            size = abs(value)
        case _:
            return _ANY
    return Range(value - size * _ROUNDING, value + size * _ROUNDING, nan=False)

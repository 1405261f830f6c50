"""Between which values an expression is for all elements of a block, for all blocks at a time.

Each name is an interval for each block; arithmetic makes intervals of intervals, comparisons what
may hold for some element of a block and what holds for all of them. An interval is never too
narrow: what the kernel rounds is rounded outwards here. It may be too wide, where a name occurs
twice or where elements of a block differ much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from schedgen.expressions import (
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

_ROUNDING = 2.0**-20
"""What the kernel's float32 may be off in one step, and some more."""


@dataclass(frozen=True, slots=True)
class Interval:
    """From ``low`` to ``high``, float64 tensors that broadcast to one element for each block.

    ``whole``: all of its values are whole numbers, with which arithmetic is exact.
    """

    low: Tensor
    high: Tensor
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Truth:
    """Whether a condition holds for ``some`` element of each block, and for ``every`` one.

    If ``some`` is false there is none; if ``every`` is true it holds for all of them.
    """

    some: Tensor
    every: Tensor


def condition(node: Expression, names: Mapping[str, Interval]) -> Truth:
    """Where a condition holds; ``names`` has what its names stand for."""
    match node:
        case Boolean(value):
            found = torch.full((), value, device=_device(names))
            return Truth(found, found)
        case Unary("not", operand):
            one = condition(operand, names)
            return Truth(~one.every, ~one.some)
        case Logical(operator, left, right):
            one, other = condition(left, names), condition(right, names)
            if operator == "and":
                return Truth(one.some & other.some, one.every & other.every)
            return Truth(one.some | other.some, one.every | other.every)
        case Compare(operator, left, right):
            return _compared(operator, number(left, names), number(right, names))
        case _:  # a number as a condition: nobody knows
            found = torch.full((), True, device=_device(names))
            return Truth(found, ~found)


def number(node: Expression, names: Mapping[str, Interval]) -> Interval:
    """The values of a number; of what is not known here from minus to plus infinity."""

    def again(other: Expression) -> Interval:
        return number(other, names)

    match node:
        case Number(value):  # as the kernel has it, and the tensors that it is compared with
            rounded = torch.tensor(float(value), dtype=torch.float32).item()
            return constant(rounded, value.denominator == 1, _device(names))
        case Name(name):
            return names[name]
        case Unary("-", operand):
            one = again(operand)
            return Interval(-one.high, -one.low, one.whole)
        case Unary("+", operand):
            return again(operand)
        case Binary("+", left, right):
            one, other = again(left), again(right)
            return _made(one.low + other.low, one.high + other.high, one, other)
        case Binary("-", left, right):
            one, other = again(left), again(right)
            return _made(one.low - other.high, one.high - other.low, one, other)
        case Binary("*", left, right):
            return _product(again(left), again(right))
        case Binary(operator, left, right):
            return _DIVISIONS[operator](again(left), again(right))
        case Call("where", (when, then, other)):
            return _chosen(condition(when, names), again(then), again(other))
        case Call("min" | "max" as function, arguments):
            return _extreme(function, [again(argument) for argument in arguments])
        case Call("abs", (argument,)):
            one = again(argument)
            low = torch.maximum(one.low, -one.high).clamp(min=0)
            return Interval(low, torch.maximum(one.high, -one.low), one.whole)
        case Call("relu", (argument,)):
            one = again(argument)
            return Interval(one.low.clamp(min=0), one.high.clamp(min=0), one.whole)
        case Call("floor", (argument,)):
            one = again(argument)
            return Interval(one.low.floor(), one.high.floor(), whole=True)
        case _:
            return _unknown(names)


def constant(value: float, whole: bool, device: torch.device) -> Interval:
    """A single number; made on the device, which is not waited for."""
    found = torch.full((), value, dtype=torch.float64, device=device)
    return Interval(found, found, whole)


def known(low: Tensor, high: Tensor, whole: bool) -> Interval:
    """An interval; where a bound is no number nothing is known."""
    infinity = math.inf
    low = low.nan_to_num(-infinity, infinity, -infinity)
    return Interval(low, high.nan_to_num(infinity, infinity, -infinity), whole)


def _device(names: Mapping[str, Interval]) -> torch.device:
    return next(iter(names.values())).low.device


def _unknown(names: Mapping[str, Interval]) -> Interval:
    end = torch.full((), math.inf, dtype=torch.float64, device=_device(names))
    return Interval(-end, end)


def _made(low: Tensor, high: Tensor, *of: Interval) -> Interval:
    """Bounds that arithmetic gave, rounded outwards."""
    whole = all(one.whole for one in of)
    if not whole:
        low, high = low - low.abs() * _ROUNDING, high + high.abs() * _ROUNDING
    return known(low, high, whole)


def _product(one: Interval, other: Interval) -> Interval:
    first, *rest = (a * b for a in (one.low, one.high) for b in (other.low, other.high))
    low = high = first
    for end in rest:  # both hand NaN on
        low, high = torch.minimum(low, end), torch.maximum(high, end)
    return _made(low, high, one, other)


def _quotient(one: Interval, other: Interval) -> Interval:
    """Where the divisor may be 0 nothing is known."""
    around = (other.low <= 0) & (other.high >= 0)
    low = torch.where(around, -math.inf, 1 / other.high)
    high = torch.where(around, math.inf, 1 / other.low)
    found = _product(Interval(one.low, one.high), Interval(low, high))
    wide = torch.full_like(found.low, math.inf)
    return Interval(torch.where(around, -wide, found.low), torch.where(around, wide, found.high))


def _floored(one: Interval, other: Interval) -> Interval:
    """``//``; of whole numbers exactly."""
    found = _quotient(one, other)
    if not (one.whole and other.whole):
        return Interval(found.low.floor(), found.high.floor(), whole=True)
    # Rounded outwards, a quotient that is whole may fall below, but never by a half of 1 / b.
    spare = 0.5 / torch.maximum(other.low.abs(), other.high.abs()).clamp(min=1)
    low = torch.minimum((found.low + spare).floor(), found.high.floor())
    return Interval(low, found.high.floor(), whole=True)


def _rest(one: Interval, other: Interval) -> Interval:
    """``%``: by something above 0 it grows within one turn, else it is anything below; by anything
    else nothing is known.
    """
    turn = _floored(one, other)
    low, high = torch.zeros_like(other.high), other.high - (1 if one.whole and other.whole else 0)
    same = (turn.low == turn.high) & (other.low == other.high) & turn.low.isfinite()
    whole = one.whole and other.whole
    first = torch.where(same, one.low - turn.low * other.low, low)
    last = torch.where(same, one.high - turn.low * other.low, high)
    above = other.low > 0
    low = torch.where(above, torch.minimum(first, last), -math.inf)
    high = torch.where(above, torch.maximum(first, last), math.inf)
    return _made(low, high, Interval(low, high, whole))


_DIVISIONS: Mapping[str, Callable[[Interval, Interval], Interval]] = {
    "/": _quotient,
    "//": _floored,
    "%": _rest,
}


def _extreme(function: str, of: list[Interval]) -> Interval:
    choose = torch.minimum if function == "min" else torch.maximum
    low, high = of[0].low, of[0].high
    for other in of[1:]:
        low, high = choose(low, other.low), choose(high, other.high)
    return Interval(low, high, all(one.whole for one in of))


def _chosen(when: Truth, then: Interval, other: Interval) -> Interval:
    low = torch.where(when.every, then.low, torch.minimum(then.low, other.low))
    high = torch.where(when.every, then.high, torch.maximum(then.high, other.high))
    low = torch.where(when.some, low, other.low)
    high = torch.where(when.some, high, other.high)
    return Interval(low, high, then.whole and other.whole)


def _compared(operator: str, one: Interval, other: Interval) -> Truth:
    match operator:
        case "<":
            return Truth(one.low < other.high, one.high < other.low)
        case "<=":
            return Truth(one.low <= other.high, one.high <= other.low)
        case ">" | ">=":
            return _compared("<" if operator == ">" else "<=", other, one)
        case "==":
            some = (one.low <= other.high) & (other.low <= one.high)
            return Truth(some, (one.low == other.high) & (one.high == other.low))
        case _:
            equal = _compared("==", one, other)
            return Truth(~equal.every, ~equal.some)

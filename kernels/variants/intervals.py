"""Between which values an expression is for all elements of a block.

Each name is an interval for each block; arithmetic makes intervals of intervals, comparisons what
may hold for some element of a block and what holds for all of them. An interval is never too
narrow: what the kernel rounds is rounded outwards here. It may be too wide, where a name occurs
twice or where elements of a block differ much.

These are the only rules. What they are applied to is said by `Operations`: tensors of torch with
one element for each block (`schedgen.kernels.variants.interval_tensors`), or the text of a kernel
that computes a block at a time (`schedgen.kernels.variants.interval_text`). Both have float64,
rounded to the nearest after each operation, so that both find the same.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

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
from schedgen.kernels.variants.interval_text import Value

_ROUNDING = 2.0**-20
"""What the kernel's float32 may be off in one step, and some more."""

T = TypeVar("T", Tensor, Value)
"""Numbers of float64, or conditions: ``+ - * / < <= > >= & ~`` are Python's."""


class Operations(Protocol[T]):
    """What rules need beside operators."""

    def constant(self, value: float) -> T: ...

    def truth(self, value: bool) -> T: ...

    def least(self, one: T, other: T | float) -> T:
        """Not a number if one of both is none; `most` likewise."""
        ...

    def most(self, one: T, other: T | float) -> T: ...

    def absolute(self, one: T) -> T: ...

    def floor(self, one: T) -> T: ...

    def chosen(self, when: T, then: T | float, other: T | float) -> T: ...

    def either(self, one: T, other: T) -> T:
        """Whether one of two conditions holds."""
        ...

    def same(self, one: T, other: T) -> T:
        """Whether they are equal."""
        ...

    def finite(self, one: T) -> T: ...

    def defined(self, one: T, otherwise: float) -> T:
        """A number, or ``otherwise`` where it is none."""
        ...


@dataclass(frozen=True, slots=True)
class Interval(Generic[T]):
    """From ``low`` to ``high``, both float64.

    ``whole``: all of its values are whole numbers, with which arithmetic is exact.
    """

    low: T
    high: T
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Truth(Generic[T]):
    """Whether a condition holds for ``some`` element of a block, and for ``every`` one.

    If ``some`` is false there is none; if ``every`` is true it holds for all of them.
    """

    some: T
    every: T


@dataclass(frozen=True, slots=True)
class Rules(Generic[T]):
    """What follows of expressions, with operations ``on`` what ``names`` stand for."""

    on: Operations[T]
    names: Mapping[str, Interval[T]]

    def condition(self, node: Expression) -> Truth[T]:
        """Where a condition holds."""
        match node:
            case Boolean(value):
                return self._truth(value, value)
            case Unary("not", operand):
                one = self.condition(operand)
                return Truth(~one.every, ~one.some)
            case Logical(operator, left, right):
                one, other = self.condition(left), self.condition(right)
                if operator == "and":
                    return Truth(one.some & other.some, one.every & other.every)
                either = self.on.either
                return Truth(either(one.some, other.some), either(one.every, other.every))
            case Compare(operator, left, right):
                return self._compared(operator, self.number(left), self.number(right))
            case _:  # a number as a condition: nobody knows
                return self._truth(True, False)

    def number(self, node: Expression) -> Interval[T]:
        """The values of a number; of what is not known here from minus to plus infinity."""
        on = self.on
        match node:
            case Number(value):  # as the kernel has it, and the tensors that it is compared with
                return self.constant(as_float32(float(value)), value.denominator == 1)
            case Name(name):
                return self.names[name]
            case Unary("-", operand):
                one = self.number(operand)
                return Interval(-one.high, -one.low, one.whole)
            case Unary("+", operand):
                return self.number(operand)
            case Binary(operator, left, right):
                return self._calculated(operator, self.number(left), self.number(right))
            case Call("where", (when, then, other)):
                return self._chosen(self.condition(when), self.number(then), self.number(other))
            case Call("min" | "max" as function, arguments):
                return self._extreme(function, [self.number(argument) for argument in arguments])
            case Call("abs", (argument,)):
                one = self.number(argument)
                low = on.most(on.most(one.low, -one.high), 0.0)
                return Interval(low, on.most(one.high, -one.low), one.whole)
            case Call("relu", (argument,)):
                one = self.number(argument)
                return Interval(on.most(one.low, 0.0), on.most(one.high, 0.0), one.whole)
            case Call("floor", (argument,)):
                one = self.number(argument)
                return Interval(on.floor(one.low), on.floor(one.high), whole=True)
            case _:
                return Interval(on.constant(-math.inf), on.constant(math.inf))

    def _truth(self, some: bool, every: bool) -> Truth[T]:
        return Truth(self.on.truth(some), self.on.truth(every))

    def constant(self, value: float, whole: bool) -> Interval[T]:
        """A single number."""
        found = self.on.constant(value)
        return Interval(found, found, whole)

    def known(self, low: T, high: T, whole: bool) -> Interval[T]:
        """An interval; where a bound is no number nothing is known."""
        on = self.on
        return Interval(on.defined(low, -math.inf), on.defined(high, math.inf), whole)

    def _made(self, low: T, high: T, *of: Interval[T]) -> Interval[T]:
        """Bounds that arithmetic gave, rounded outwards."""
        whole = all(one.whole for one in of)
        if not whole:
            less, more = (self.on.absolute(end) * _ROUNDING for end in (low, high))
            low, high = low - less, high + more
        return self.known(low, high, whole)

    def _calculated(self, operator: str, one: Interval[T], other: Interval[T]) -> Interval[T]:
        match operator:
            case "+":
                return self._made(one.low + other.low, one.high + other.high, one, other)
            case "-":
                return self._made(one.low - other.high, one.high - other.low, one, other)
            case "*":
                return self._product(one, other)
            case "/":
                return self._quotient(one, other)
            case "//":
                return self._floored(one, other)
            case _:
                return self._rest(one, other)

    def _product(self, one: Interval[T], other: Interval[T]) -> Interval[T]:
        first, *rest = [a * b for a in (one.low, one.high) for b in (other.low, other.high)]
        low = high = first
        for end in rest:  # both hand NaN on
            low, high = self.on.least(low, end), self.on.most(high, end)
        return self._made(low, high, one, other)

    def _quotient(self, one: Interval[T], other: Interval[T]) -> Interval[T]:
        """Where the divisor may be 0 nothing is known."""
        on = self.on
        around = (other.low <= 0.0) & (other.high >= 0.0)
        low = on.chosen(around, -math.inf, 1.0 / other.high)
        high = on.chosen(around, math.inf, 1.0 / other.low)
        found = self._product(Interval(one.low, one.high), Interval(low, high))
        low = on.chosen(around, -math.inf, found.low)
        return Interval(low, on.chosen(around, math.inf, found.high))

    def _floored(self, one: Interval[T], other: Interval[T]) -> Interval[T]:
        """``//``; of whole numbers exactly."""
        on = self.on
        found = self._quotient(one, other)
        low, high = on.floor(found.low), on.floor(found.high)
        if not (one.whole and other.whole):
            return Interval(low, high, whole=True)
        # Rounded outwards, a quotient that is whole may fall below, but never by a half of 1 / b.
        spare = 0.5 / on.most(on.most(on.absolute(other.low), on.absolute(other.high)), 1.0)
        return Interval(on.least(on.floor(found.low + spare), high), high, whole=True)

    def _rest(self, one: Interval[T], other: Interval[T]) -> Interval[T]:
        """``%``: by something above 0 it grows within one turn, else it is anything below; by
        anything else nothing is known.
        """
        on = self.on
        turn = self._floored(one, other)
        whole = one.whole and other.whole
        same = on.same(turn.low, turn.high) & on.same(other.low, other.high) & on.finite(turn.low)
        first = on.chosen(same, one.low - turn.low * other.low, 0.0)
        most = other.high - 1.0 if whole else other.high
        last = on.chosen(same, one.high - turn.low * other.low, most)
        above = other.low > 0.0
        low = on.chosen(above, on.least(first, last), -math.inf)
        high = on.chosen(above, on.most(first, last), math.inf)
        return self._made(low, high, Interval(low, high, whole))

    def _extreme(self, function: str, of: list[Interval[T]]) -> Interval[T]:
        choose = self.on.least if function == "min" else self.on.most
        low, high = of[0].low, of[0].high
        for other in of[1:]:
            low, high = choose(low, other.low), choose(high, other.high)
        return Interval(low, high, all(one.whole for one in of))

    def _chosen(self, when: Truth[T], then: Interval[T], other: Interval[T]) -> Interval[T]:
        on = self.on
        low = on.chosen(when.every, then.low, on.least(then.low, other.low))
        high = on.chosen(when.every, then.high, on.most(then.high, other.high))
        low = on.chosen(when.some, low, other.low)
        high = on.chosen(when.some, high, other.high)
        return Interval(low, high, then.whole and other.whole)

    def _compared(self, operator: str, one: Interval[T], other: Interval[T]) -> Truth[T]:
        match operator:
            case "<":
                return Truth(one.low < other.high, one.high < other.low)
            case "<=":
                return Truth(one.low <= other.high, one.high <= other.low)
            case ">" | ">=":
                return self._compared("<" if operator == ">" else "<=", other, one)
            case "==":
                some = (one.low <= other.high) & (other.low <= one.high)
                every = self.on.same(one.low, other.high) & self.on.same(one.high, other.low)
                return Truth(some, every)
            case _:
                equal = self._compared("==", one, other)
                return Truth(~equal.every, ~equal.some)


def as_float32(value: float) -> float:
    """``value`` as kernels have it."""
    return ctypes.c_float(value).value

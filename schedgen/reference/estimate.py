"""Numbers with a bound of the error that a right float32 computation of them may have.

Sums in another order, contracted multiplications and the approximate functions of the hardware are
right; what they change is bounded here operation by operation, in the way of running error
analysis (Higham, Accuracy and Stability of Numerical Algorithms, 3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from schedgen.reference.rounding import FORMATS, Array, Truth, rounded

UNIT = 2.0**-23
"""Of float32, twice the rounding error: sums of tensor cores truncate."""
TINY = 2.0**-120
"""Absolute error of results that may be flushed to zero, and far above it."""
_LARGEST = FORMATS["f32"].largest


@dataclass(frozen=True)
class Estimate:
    """An array of numbers, all three of one shape or of shapes that broadcast.

    Attributes:
        value: exact arithmetic, rounded where the spec stores it in a data type.
        magnitude: how much the value changes, to first order, for each relative change of whatever
            went into it: of a sum the sum of absolute values.
        error: how far a right result is from the value at most; 0 where both are infinite or not a
            number, infinite where nothing is known.
    """

    value: Array
    magnitude: Array
    error: Array

    def __getitem__(self, at: tuple[slice, ...]) -> Estimate:
        return Estimate(self.value[at], self.magnitude[at], self.error[at])

    def put(self, at: tuple[slice, ...], other: Estimate) -> None:
        """Write ``other`` into a part."""
        self.value[at] = other.value
        self.magnitude[at] = other.magnitude
        self.error[at] = other.error

    def copy(self) -> Estimate:
        return Estimate(self.value.copy(), self.magnitude.copy(), self.error.copy())

    def columns(self, order: Sequence[int]) -> Estimate:
        """Its columns in another order."""
        parts = np.broadcast_arrays(self.value, self.magnitude, self.error)
        return Estimate(*(part[:, order] for part in parts))

    def repeat(self, times: int) -> Estimate:
        """Each column so many times."""
        parts = np.broadcast_arrays(self.value, self.magnitude, self.error)
        return Estimate(*(np.repeat(part, times, axis=1) for part in parts))

    def broadcast(self, shape: tuple[int, ...]) -> Estimate:
        parts = (self.value, self.magnitude, self.error)
        return Estimate(*(np.broadcast_to(part, shape) for part in parts))

    @property
    def transposed(self) -> Estimate:
        return Estimate(self.value.T, self.magnitude.T, self.error.T)

    @property
    def low(self) -> Array:
        with np.errstate(invalid="ignore"):
            return self.value - self.error

    @property
    def high(self) -> Array:
        with np.errstate(invalid="ignore"):
            return self.value + self.error


def exact(values: Array | float) -> Estimate:
    """Numbers without an error."""
    value = np.asarray(values, np.float64)
    magnitude = np.where(np.isfinite(value), np.abs(value), 0.0)
    return Estimate(value, magnitude, np.zeros_like(value))


def unknown(shape: tuple[int, ...]) -> Estimate:
    """What nobody has written: any value is right."""
    return Estimate(np.full(shape, np.nan), np.zeros(shape), np.full(shape, np.inf))


def stored(number: Estimate, dtype: str) -> Estimate:
    """``number`` rounded to a data type: the error grows only where rounding may go another way."""
    value = rounded(number.value, dtype)
    error = _apart(value, rounded(number.low, dtype), rounded(number.high, dtype))
    return Estimate(value, number.magnitude, np.where(number.error == 0, 0.0, error))


def settled(value: Array, magnitude: Array, error: Array) -> Estimate:
    """The float32 result of an operation: with the error of rounding it, infinite if too large.

    Exact operands whose result is a float32 number have no error: coordinates are compared so.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(np.isnan(error), 0.0, error)
        close = np.abs(value) + error > _LARGEST  # may be infinite or not
        value = np.where(np.abs(value) > _LARGEST, np.copysign(np.inf, value), value)
        exactly = (error == 0) & (value == value.astype(np.float32))
        grown = error + np.where(exactly, 0.0, UNIT * np.abs(value) + TINY)
        grown = np.where(close & (error > 0), np.inf, grown)
        grown = np.where(np.isfinite(value), grown, np.where(error == np.inf, np.inf, 0.0))
    return Estimate(value, np.where(np.isfinite(magnitude), magnitude, 0.0), grown)


def added(a: Estimate, b: Estimate, sign: float = 1.0) -> Estimate:
    with np.errstate(invalid="ignore", over="ignore"):
        return settled(a.value + sign * b.value, a.magnitude + b.magnitude, a.error + b.error)


def multiplied(a: Estimate, b: Estimate) -> Estimate:
    with np.errstate(invalid="ignore", over="ignore"):
        value = a.value * b.value
        error = np.abs(a.value) * b.error + np.abs(b.value) * a.error + a.error * b.error
        error = np.where(np.isinf(a.value) | np.isinf(b.value), 0.0, error)
        # Nothing is known of an infinite number times one that may be zero or of either sign.
        loose = (np.isinf(a.value) & (b.error >= np.abs(b.value)) & (b.error > 0)) | (
            np.isinf(b.value) & (a.error >= np.abs(a.value)) & (a.error > 0)
        )
        lost = loose | (a.error == np.inf) | (b.error == np.inf)
        return settled(value, a.magnitude * b.magnitude, np.where(lost, np.inf, error))


def applied(
    function: Callable[[Array], Array], x: Estimate, slope: Callable[[Array, Array], Array]
) -> Estimate:
    """A monotone ``function`` of ``x``; ``slope`` gives the derivative from x and the result."""
    with np.errstate(all="ignore"):
        value = function(x.value)
        error = np.where(x.error == 0, 0.0, _apart(value, function(x.low), function(x.high)))
        grown = np.abs(slope(x.value, value)) * x.magnitude
        grown = np.where(np.isfinite(grown), grown, 0.0)
    return Estimate(value, np.abs(np.nan_to_num(value)) + grown, error)


def loosened(number: Estimate, error: Array) -> Estimate:
    """``number`` with a larger error, where it is finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        return settled(number.value, number.magnitude, number.error + np.nan_to_num(error))


def chosen(truth: Truth, sure: Truth, yes: Estimate, no: Estimate) -> Estimate:
    """``yes`` where ``truth`` is 1 and ``no`` where it is 0; either where that is not ``sure``."""
    value = np.where(truth, yes.value, no.value)
    magnitude = np.where(truth, yes.magnitude, no.magnitude)
    error = np.where(truth, yes.error, no.error)
    other = np.where(truth, no.value, yes.value)
    more = np.where(truth, no.error, yes.error) + _apart(value, other, other)
    return Estimate(value, magnitude, np.where(sure, error, np.maximum(error, more)))


def product(a: Estimate, b: Estimate, unit: float) -> Estimate:
    """a @ b; ``unit`` is the relative error of each addition of its sums."""
    with np.errstate(invalid="ignore", over="ignore"):
        value = a.value @ b.value
        size, other = np.abs(a.value), np.abs(b.value)
        error = size @ b.error + a.error @ other + a.error @ b.error
        error = np.where(np.isnan(error), np.inf, error)
        sums = size @ other
        error = error + unit * (a.value.shape[1] + 2) * np.where(np.isfinite(sums), sums, 0.0)
        return settled(value, a.magnitude @ b.magnitude, error)


def total(x: Estimate) -> Estimate:
    """The sums of rows, as a column."""
    count = x.value.shape[1]
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.abs(x.value).sum(1, keepdims=True)
        error = x.error.sum(1, keepdims=True) + count * UNIT * np.where(
            np.isfinite(size), size, 0.0
        )
        return settled(x.value.sum(1, keepdims=True), x.magnitude.sum(1, keepdims=True), error)


def running(x: Estimate) -> Estimate:
    """The sums of each row up to each of its columns, added up in any order."""
    count: Array = 1.0 + np.arange(x.value.shape[1], dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.abs(x.value).cumsum(1)
        error: Array = x.error.cumsum(1) + count * UNIT * np.where(np.isfinite(size), size, 0.0)
        return settled(x.value.cumsum(1), x.magnitude.cumsum(1), error)


def larger(a: Estimate, b: Estimate, sign: float = 1.0) -> Estimate:
    """The larger one, or with ``sign`` -1 the smaller one; not a number if one is none."""
    value = sign * np.maximum(sign * a.value, sign * b.value)
    error = np.maximum(a.error, b.error)
    with np.errstate(invalid="ignore"):  # an operand that loses for certain has no say
        gap = sign * (a.value - b.value)
        error = np.where(gap >= a.error + b.error, a.error, error)
        error = np.where(-gap >= a.error + b.error, b.error, error)
    return Estimate(value, np.where(a.value == value, a.magnitude, b.magnitude), error)


def largest(x: Estimate) -> Estimate:
    """The largest number of each row, as a column."""
    value = x.value.max(1, keepdims=True)
    high = x.high.max(1, keepdims=True)
    low = np.where(np.isnan(x.low), -np.inf, x.low).max(1, keepdims=True)
    at = x.value.argmax(1)[:, None]
    magnitude = np.take_along_axis(x.magnitude, at, 1)
    known = np.isfinite(x.error).all(1, keepdims=True)
    error = np.where(known, _apart(value, low, high), np.inf)
    return Estimate(value, magnitude, np.where((x.error == 0).all(1, keepdims=True), 0.0, error))


def differ(a: Estimate, b: Estimate) -> Truth:
    """Where two numbers cannot be the same, whatever their errors are."""
    return _apart(a.value, b.value) > a.error + b.error


def _apart(value: Array, *others: Array) -> Array:
    """The largest distance; 0 between equal infinities and between two that are no numbers."""
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.zeros(np.broadcast_shapes(value.shape, *(o.shape for o in others)))
        for other in others:
            same = (value == other) | (np.isnan(value) & np.isnan(other))
            gap = np.where(same, 0.0, np.abs(value - other))
            found = np.maximum(found, np.where(np.isnan(gap), np.inf, gap))
    return found

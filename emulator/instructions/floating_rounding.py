"""Sums and conversions that are rounded once, on arrays.

numpy rounds to the nearest only, and rounds a float32 operation done in float64 twice. Both are
cured by rounding to odd: a float64 that is not exact gets an odd last bit, so that it is never a
tie of a format with two bits less, and lies on the right side of every value of that format
(Boldo and Melquiond, Emulation of FMA and Correctly Rounded Sums, 2008).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.machine.lanes import Lanes

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]

MODES = ("rn", "rz", "rm", "rp")
"""To the nearest with ties to even, towards zero, towards -infinity, towards +infinity."""


def odd_sum(a: Doubles, b: Doubles) -> Doubles:
    """``a + b`` rounded to odd. Exact as to sign and zero like an addition to the nearest."""
    total = a + b
    part = total - a
    rest = (a - (total - part)) + (b - part)  # exact (Knuth); NaN if the total is not finite
    inexact = np.abs(rest) > 0
    if not inexact.any():
        return total
    bits = total.view(np.int64)
    outward = (rest > 0) == (total > 0)
    step = np.where(inexact & (bits & 1 == 0), np.where(outward, 1, -1), 0)
    return (bits + step).view(np.float64)


def directed_sum(a: Singles, b: Singles, mode: str) -> Singles:
    """``a + b`` of float32 values, in a mode other than ``rn``."""
    total = a + b
    # A finite sum of squares tells that nothing is infinite or NaN, without looking at each.
    if not math.isfinite(total.dot(total)):
        wide, other = a.astype(np.float64), b.astype(np.float64)
        return single(exact_zero(odd_sum(wide, other), mode, wide, other), mode)
    part = total - a
    rest = (a - (total - part)) + (b - part)  # exact (Knuth)
    bits = total.view(np.int32)
    sign = bits >> 31  # -1 or 0
    match mode:
        case "rz":
            step = -((rest < 0) & (total > 0) | (rest > 0) & (total < 0)).astype(np.int32)
        case "rm":
            step = (-1 - 2 * sign) * (rest < 0)
        case _:
            step = (1 + 2 * sign) * (rest > 0)
    return exact_zero((bits + step).view(np.float32), mode, a, b)


def single(values: Doubles, mode: str = "rn") -> Singles:
    """float64 rounded to float32."""
    nearest = values.astype(np.float32)
    if mode == "rn":
        return nearest
    back = nearest.astype(np.float64)
    match mode:
        case "rz":
            step = np.where(np.abs(back) > np.abs(values), -1, 0)
        case "rm":
            step = np.where(back > values, np.where(np.signbit(nearest), 1, -1), 0)
        case _:
            step = np.where(back < values, np.where(np.signbit(nearest), -1, 1), 0)
    return (nearest.view(np.int32) + step.astype(np.int32)).view(np.float32)


def odd_single(values: Doubles) -> Singles:
    """float64 rounded to odd in float32, on the way to a narrower format."""
    truncated = single(values, "rz")
    inexact = (truncated != values).astype(np.uint32)  # NaN keeps being NaN
    return (truncated.view(np.uint32) | inexact).view(np.float32)


Exact = Callable[..., Fraction]
"""The value of a function of finite lanes, as a fraction."""


def exact_double(exact: Exact, nearest: Doubles, mode: str, *sources: Doubles) -> Doubles:
    """A float64 result rounded from its exact value, lane by lane; slow.

    Args:
        exact: gives the value.
        nearest: taken where it or a source is not finite, and where the value is exactly zero.
        mode: one of `MODES`.
        sources: arguments of ``exact``.
    """
    lanes = zip(nearest.tolist(), *(source.tolist() for source in sources), strict=True)
    return np.array([_exact(exact, mode, *lane) for lane in lanes], np.float64)


def _exact(exact: Exact, mode: str, nearest: float, *sources: float) -> float:
    if not all(map(math.isfinite, sources)) or math.isnan(nearest):
        return nearest
    try:
        value = exact(*sources)
    except ZeroDivisionError:
        return nearest
    if value == 0:
        return nearest
    return rounded_fraction(value, mode)


def rounded_fraction(value: Fraction, mode: str) -> float:
    """A fraction that is not zero as float64."""
    try:
        result = value.numerator / value.denominator  # rounded once, to the nearest even
    except OverflowError:
        result = math.inf if value > 0 else -math.inf
    if result == 0:
        result = math.copysign(result, value)
    if mode == "rn":
        return result
    if math.isinf(result):
        too_high = result > 0
    elif result == value:
        return result
    else:
        too_high = result > value
    down = mode == "rm" or (mode == "rz" and value > 0)
    if too_high == down:
        return math.nextafter(result, -math.inf if down else math.inf)
    return result


def exact_zero(total: Lanes, mode: str, *terms: Lanes) -> Lanes:
    """The sum of terms that cancel is -0 if rounded towards -infinity, whatever their signs.

    ``total`` is zero only where the sum is exactly zero.
    """
    if mode != "rm" or np.count_nonzero(total) == total.size:
        return total
    positive = np.logical_and.reduce([(term == 0) & ~np.signbit(term) for term in terms])
    return np.where((total == 0) & ~positive, -np.zeros_like(total), total)

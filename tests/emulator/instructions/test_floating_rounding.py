"""Sums rounded to odd or in a direction, and fractions rounded to float64."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedgen.emulator.instructions.floating_rounding import (
    directed_sum,
    odd_single,
    odd_sum,
    rounded_fraction,
    single,
)
from tests.emulator.instructions.exact import MODES, is_finite, rounded, samples, value

FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


@settings(max_examples=60, deadline=None)
@given(FINITE, FINITE, st.integers(-60, 60))
def test_odd_sums(a: float, b: float, exponent: int) -> None:
    """Exact, or the neighbour with an odd last bit; so the next rounding has the right side."""
    for second in (b, math.ldexp(math.frexp(b)[0], math.frexp(a)[1] + exponent)):
        total = odd_sum(np.array([a]), np.array([second]))
        exact = Fraction(a) + Fraction(second)
        found = Fraction(float(total[0]))
        if found != exact:
            assert total.view(np.int64)[0] & 1
            below = math.nextafter(float(total[0]), -math.inf)
            above = math.nextafter(float(total[0]), math.inf)
            assert Fraction(below) < exact < Fraction(above)


def test_odd_sums_without_a_value() -> None:
    a = np.array([np.inf, np.inf, np.nan, 1e308, -0.0, 1.0])
    b = np.array([1.0, -np.inf, 1.0, 1e308, -0.0, -1.0])
    with np.errstate(all="ignore"):
        found = odd_sum(a, b)
    assert found.tolist()[0] == np.inf
    assert np.isnan(found[1:3]).all()
    assert np.signbit(found[4:]).tolist() == [True, False]


@pytest.mark.parametrize("mode", MODES)
def test_float64_to_float32(mode: str) -> None:
    for seed in range(8):
        codes = samples("f64", seed)
        with np.errstate(all="ignore"):
            near = samples("f32", seed)[16:].view(np.float32).astype(np.float64) * (1 + 2.0**-25)
        codes[16:] = near.view(np.uint64)
        with np.errstate(all="ignore"):
            found = single(codes.view(np.float64), mode).view(np.uint32)
        for code, result in zip(codes.tolist(), found.tolist(), strict=True):
            if is_finite(code, "f64") and value(code, "f64"):
                assert result == rounded(value(code, "f64"), "f32", mode)


def test_odd_float32() -> None:
    x = np.array([1 + 2.0**-40, 1 - 2.0**-40, 1.5, -(2.0**-160), 1e300, np.nan])
    with np.errstate(all="ignore"):
        odd = odd_single(x)
    found = odd.view(np.uint32).tolist()
    assert found[:5] == [0x3F800001, 0x3F7FFFFF, 0x3FC00000, 0x80000001, 0x7F7FFFFF]
    assert np.isnan(odd[5])


@pytest.mark.parametrize("mode", MODES[1:])
def test_directed_sums(mode: str) -> None:
    top, tiny = np.float32(3.4028235e38), np.float32(1e-45)
    a = np.array([top, top, -top, 1, 1, -1, 1, 2.0**-126], np.float32)
    b = np.array([top, tiny, -1, tiny, -tiny, tiny, -1, -tiny], np.float32)
    for part in (slice(0, 3), slice(3, 8)):  # with and without the quick way
        with np.errstate(all="ignore"):
            found = directed_sum(a[part], b[part], mode).view(np.uint32)
        for x, y, result in zip(a[part].tolist(), b[part].tolist(), found.tolist(), strict=True):
            exact = Fraction(x) + Fraction(y)
            zero = 1 << 31 if mode == "rm" else 0
            assert result == (rounded(exact, "f32", mode) if exact else zero)


@pytest.mark.parametrize(
    ("exact", "wanted"),
    [
        (Fraction(1, 3), ("1/3", "down", "down", "up")),
        (Fraction(10) ** 400, (math.inf, "top", "top", math.inf)),
        (-(Fraction(10) ** 400), (-math.inf, "-top", -math.inf, "-top")),
        (Fraction(1, 10**400), (0.0, 0.0, 0.0, 5e-324)),
        (-Fraction(1, 10**400), (-0.0, -0.0, -5e-324, -0.0)),
    ],
)
def test_fractions(exact: Fraction, wanted: tuple[float | str, ...]) -> None:
    top = math.nextafter(math.inf, 0)
    third = 1 / 3  # below the fraction
    names = {"1/3": third, "down": third, "up": math.nextafter(third, 1), "top": top, "-top": -top}
    for mode, expected in zip(MODES, wanted, strict=True):
        found = rounded_fraction(exact, mode)
        number = names[expected] if isinstance(expected, str) else expected
        assert (found, math.copysign(1, found)) == (number, math.copysign(1, number))

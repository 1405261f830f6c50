"""2 to the power of x by range reduction and a polynomial: its coefficients and its accuracy."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from schedgen.codegen.emit import emit
from schedgen.codegen.library import COMMON
from schedgen.codegen.library_sm100 import LIBRARY
from schedgen.driver.emulating import emulate
from tests.codegen.dsl import Single, library
from tests.codegen.examples import ARCHITECTURES, SPECS, solved

LARGEST_ERROR = 1.03e-4
NUMBERS = [-126.0, -125.5, -124.99, *np.linspace(-30, 30, 4001).tolist(), 100.3, 127.0, 127.5]


def scalar(x: float) -> float:
    return float(library(COMMON)["exp2_on_fma"](Single(x)))


def minimax() -> tuple[list[float], float]:
    """The polynomial of degree 3 with value 1 at 0 that is closest to 2 ** f on [-1/2, 1/2].

    Lawson's algorithm: least squares, with weights that grow where the relative error is large.
    """
    f = np.linspace(-0.5, 0.5, 2001)
    columns = np.stack([f**k / 2**f for k in (1, 2, 3)], 1)
    wanted = 1 - 1 / 2**f
    weights = np.ones_like(f)
    error, found = wanted, np.zeros(3)
    for _ in range(3000):
        root = np.sqrt(weights)
        found = np.linalg.lstsq(columns * root[:, None], wanted * root, rcond=None)[0]
        error = np.abs(columns @ found - wanted)
        weights = weights * error
        weights /= weights.sum()
    return found.tolist(), float(error.max())


def test_coefficients() -> None:
    wanted, error = minimax()
    assert error < LARGEST_ERROR
    for text in (COMMON, LIBRARY):
        found = sorted(float(n) for n in re.findall(r"\b0\.(?:055|242|693)\d+\b", text))
        assert found == pytest.approx(sorted(wanted), rel=2e-4)
    assert re.findall(r"0\.055\d+|0\.242\d+|0\.693\d+", COMMON) == re.findall(
        r"0\.055\d+|0\.242\d+|0\.693\d+", LIBRARY
    )


def test_accuracy() -> None:
    function = library(COMMON)["exp2_on_fma"]
    errors = [abs(float(function(Single(x))) / 2 ** float(Single(x)) - 1) for x in NUMBERS]
    assert max(errors) < LARGEST_ERROR


@pytest.mark.parametrize(
    ("x", "wanted"),
    [
        *((float(n), 2.0**n) for n in (-126, -1, 0, 1, 10, 127)),
        *((x, 0.0) for x in (-127.0, -130.0, -1e30, -math.inf)),
        *((x, math.inf) for x in (128.0, 1e30, math.inf)),
    ],
)
def test_exact_values(x: float, wanted: float) -> None:
    """A whole power is exact, so that the largest element of a softmax is 1."""
    assert scalar(x) == wanted


def test_undefined_stays_undefined() -> None:
    assert math.isnan(scalar(math.nan))


def test_pairs_are_the_same() -> None:
    functions = library(COMMON, LIBRARY)
    for x, y in [(0.0, -math.inf), (-3.7, 5.25), (math.inf, -126.0), (0.4999, -0.5001)]:
        found = functions["exp2_pair_on_fma"]((Single(x), Single(y)))
        wanted = [scalar(x), scalar(y)]
        assert [float(z) for z in found] == pytest.approx(wanted, rel=3e-7)


@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 8), Fraction(3, 16), Fraction(1)])
def test_share_of_pairs(share: Fraction) -> None:
    """Over 32 elements it is exact, and elements of a pair go the same way."""
    function = library(COMMON)["exp2_in_part"]
    x = Single(0.3)
    exact = float(Single(2**0.3))
    polynomial = [
        float(function(x, v, share.numerator, share.denominator)) != exact for v in range(32)
    ]
    assert sum(polynomial) == 32 * share
    assert polynomial[::2] == polynomial[1::2]


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
def test_generated_kernel(target: str) -> None:
    """In the emulator, where every element is computed by the polynomial, and where half is."""
    errors: list[float] = []
    for share in ("1", "1/2", "0"):
        proven, kernel = solved(SPECS / "exponentials.yaml", target, share=share)
        outcome = emulate(emit(proven, kernel), kernel, ARCHITECTURES[target])
        assert outcome.clean
        errors.append(outcome.errors["y"])
    whole, half, none = errors
    assert none < 1e-6 < half < whole < LARGEST_ERROR

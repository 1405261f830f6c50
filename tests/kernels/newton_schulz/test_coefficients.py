"""Sets of coefficients, by name and given."""

from __future__ import annotations

import re

import numpy as np
import pytest

from schedgen.kernels import ArgumentValueError
from schedgen.kernels.newton_schulz.coefficients import SETS, resolve


def test_polar_express_is_the_published_set() -> None:
    assert resolve("polar_express", 5)[0] == pytest.approx((7.892583, -20.383014, 13.555306))
    assert resolve("polar_express", 5)[4] == pytest.approx((2.191097, -1.441662, 0.328146), 1e-5)


def test_what_polar_express_reaches() -> None:
    """As the docstring of `polar` says."""
    x = np.logspace(-3, 0, 10_001)
    for a, b, c in resolve("polar_express", 5):
        x = a * x + b * x**3 + c * x**5
    assert (round(x.min(), 2), round(x.max(), 2)) == (0.73, 1.12)


def test_the_last_step_is_repeated_and_fewer_are_the_first() -> None:
    assert resolve("you", 7)[5:] == (SETS["you"][-1],) * 2
    assert resolve("you", 2) == SETS["you"][:2]


def test_one_triple_for_all_steps() -> None:
    assert resolve((2, -1.5, 0.5), 3) == ((2.0, -1.5, 0.5),) * 3
    assert resolve([(1, 2, 3), (4, 5, 6)], 2) == ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0))


@pytest.mark.parametrize(
    ("given", "steps", "says"),
    [
        ("muon", 5, "it is 'muon'"),
        ((1.0, 2.0), 5, "three finite numbers"),
        ((1.0, 2.0, float("nan")), 5, "three finite numbers"),
        ([], 5, "three finite numbers"),
        ([(1, 2, 3), (4, 5)], 5, "three finite numbers"),
        ("you", 0, "steps: it is 0"),
    ],
)
def test_refused(given: object, steps: int, says: str) -> None:
    with pytest.raises(ArgumentValueError, match=re.escape(says)):
        resolve(given, steps)  # type: ignore[arg-type]

"""Where the Gram iteration starts again, so that rounding does not blow up.

The Gram iteration follows R = X X^T instead of X. Rounding gives R small negative eigenvalues,
which X X^T cannot have; the polynomials amplify them in the accumulated factor Q. Starting again,
with X <- Q X and R from that X, ends this. A simulation with scalars finds the best places: one
singular value stands for one direction, and R's error is a constant.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from schedgen.kernels.newton_schulz.coefficients import Step

ERROR = 4e-4
"""Of an eigenvalue of R, whose largest is about 1: what float16 operands and results leave, as
Dao-AILab/gram-newton-schulz assumes."""
ACCEPTABLE = 1e3
"""Condition of Q up to which its float16 rounding, 5e-4 relative to its largest entries, leaves
the directions with small singular values meaningful."""
_SINGULAR_VALUES = 10_000
_DECADES = 10


def conditions(coefficients: tuple[Step, ...], restarts: Iterable[int]) -> list[float]:
    """The condition of Q after each iteration, if iterations ``restarts`` start again."""
    places = set(restarts)
    x: NDArray[np.float64] = np.logspace(0, -_DECADES, _SINGULAR_VALUES)
    r = x * x - ERROR
    q = np.ones_like(x)
    found: list[float] = []
    with np.errstate(all="ignore"):  # what overflows is not chosen
        for number, (a, b, c) in enumerate(coefficients):
            if number and number in places:
                x = q * x
                r = x * x - ERROR
                q = np.ones_like(x)
            factor = a + b * r + c * r * r
            q, r = q * factor, r * factor * factor
            size = np.abs(q)
            condition = size.max() / size.min() if size.min() > 0 else np.inf
            found.append(float(condition) if np.isfinite(condition) else float("inf"))
    return found


@cache
def best(coefficients: tuple[Step, ...]) -> tuple[int, ...]:
    """The fewest iterations to start again at that keep Q acceptable, and of these the best.

    If none do, every iteration starts again, which is the standard iteration.
    """
    later = range(1, len(coefficients))
    for count in range(len(coefficients)):
        worst = {
            places: max(conditions(coefficients, places)) for places in combinations(later, count)
        }
        places = min(worst, key=lambda each: worst[each])
        if worst[places] <= ACCEPTABLE:
            return places
    return tuple(later)

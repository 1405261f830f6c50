"""Where the Gram iteration starts again."""

from __future__ import annotations

import pytest

from schedgen.kernels.newton_schulz.coefficients import resolve
from schedgen.kernels.newton_schulz.restarts import ACCEPTABLE, best, conditions


@pytest.mark.parametrize(
    ("name", "places", "worst"),
    [
        # Dao-AILab/gram-newton-schulz finds the same for its two sets
        *(
            ("polar_express", (), 2.69e12),
            ("polar_express", (1,), 456),
            ("polar_express", (2,), 84.6),
        ),
        *(("polar_express", (3,), 1.1e5), ("polar_express", (4,), 2.2e6)),
        *(("you", (), 2.1e8), ("you", (1,), 400.5), ("you", (2,), 53.2), ("you", (4,), 2437)),
    ],
)
def test_published_conditions(name: str, places: tuple[int, ...], worst: float) -> None:
    assert max(conditions(resolve(name, 5), places)) == pytest.approx(worst, rel=0.05)


def test_best() -> None:
    assert best(resolve("polar_express", 5)) == (2,)
    assert best(resolve("you", 5)) == (2,)
    assert best(resolve("cubic5", 5)) == ()  # no restart is needed, so none is made


def test_more_restarts_for_more_steps() -> None:
    steps = resolve("jordan", 12)
    places = best(steps)
    assert len(places) > 1
    assert max(conditions(steps, places)) <= ACCEPTABLE


def test_what_cannot_be_saved_starts_again_always() -> None:
    assert best(resolve("cans", 5)) == (1, 2, 3, 4)

"""How large the tensors of experiments are."""

from __future__ import annotations

import pytest

from schedgen.calibration.sizing import extents
from tests.schedgen.test_ordered import SUMS, bound


@pytest.mark.parametrize("trips", [1, 7])
def test_there_is_a_turn_for_each_iteration(trips: int) -> None:
    kernel = bound(SUMS)
    sizes = extents(kernel, trips)
    assert sizes["n_turns"] == trips
    assert extents(kernel, trips, {"n_turns": 100})["n_turns"] == 100

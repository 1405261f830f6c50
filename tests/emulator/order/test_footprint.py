"""Ranges of global memory that a launch touched."""

from __future__ import annotations

import numpy as np
import pytest

from schedgen.emulator.order.footprint import Ranges
from schedgen.emulator.order.tracker import Cells, Space


def ranges(*addresses: int) -> Ranges:
    cells = np.array(addresses, np.int64)
    return Ranges.of(cells, cells + 1)


def test_ranges_of_single_addresses() -> None:
    found = ranges(7, 3, 4, 5, 9, 4)
    assert found.starts.tolist() == [3, 7, 9]
    assert found.stops.tolist() == [6, 8, 10]
    assert ranges().starts.size == 0


@pytest.mark.parametrize("seed", range(20))
def test_union_and_meeting(seed: int) -> None:
    random = np.random.default_rng(seed)
    first, second = (set(random.integers(0, 60, random.integers(0, 30)).tolist()) for _ in "ab")
    both = ranges(*first) | ranges(*second)
    wanted = ranges(*(first | second))
    assert both.starts.tolist() == wanted.starts.tolist()
    assert both.stops.tolist() == wanted.stops.tolist()
    for low in range(60):
        for width in (1, 2, 5):
            touched = bool(set(range(low, low + width)) & (first | second))
            span = Cells(Space.GLOBAL, -1, slice(low, low + width), 1)
            lanes = Cells(Space.GLOBAL, -1, np.array([90, low]), width)
            assert both.meet(span) == both.meet(lanes) == touched

"""How products that wait for each other are told from others."""

from __future__ import annotations

import pytest

from schedgen.codegen.report import waits_more


@pytest.mark.parametrize(
    ("written", "found", "more"),
    [
        ((64, 8), (36, 8), False),  # attention
        ((64, 8), (36, 10), False),  # chained products
        ((64, 8), (36, 68), True),  # the same with too few registers
        ((8, 4), (10, 6), False),  # two steps for each wait
        ((8, 4), (10, 10), True),
        ((4, 1), (5, 2), False),
        ((4, 1), (5, 5), True),
        ((4, 4), (5, 5), False),
        ((0, 0), (0, 0), False),
    ],
)
def test_shares(written: tuple[int, int], found: tuple[int, int], more: bool) -> None:
    assert waits_more(written, found) is more

"""Which way formulas go with a name."""

from __future__ import annotations

from itertools import product

import pytest

from schedgen.expressions import evaluate_int, parse
from schedgen.expressions.monotone import Way, way


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("n", Way.SAME),
        ("tile_row", Way.UP),
        ("-tile_row + n", Way.DOWN),
        ("n - (tile_row * 128 + n - 7) // 64", Way.DOWN),
        ("ceil((tile_row * 3 + n) / 2)", Way.UP),
        ("min(tile_row, n, 2 * tile_row - 1)", Way.UP),
        ("max(3 - tile_row, n - tile_row)", Way.DOWN),
        ("-(tile_row * 2)", Way.DOWN),
        ("floor(+tile_row / 4)", Way.UP),
        ("tile_row - tile_row", Way.UNKNOWN),
        ("max(tile_row, 4 - tile_row)", Way.UNKNOWN),
        ("tile_row * n", Way.UNKNOWN),
        ("tile_row % 3", Way.UNKNOWN),
        ("n // tile_row", Way.UNKNOWN),
        ("tile_row // (-2)", Way.UNKNOWN),
    ],
)
def test_ways(text: str, found: Way) -> None:
    formula = parse(text)
    assert way(formula, "tile_row") is found
    if found is Way.UNKNOWN:
        return
    for n, row in product(range(-9, 10), range(1, 9)):
        here, there = (evaluate_int(formula, {"n": n, "tile_row": r}) for r in (row, row + 1))
        assert found is not Way.SAME or here == there
        assert found is not Way.UP or here <= there
        assert found is not Way.DOWN or here >= there

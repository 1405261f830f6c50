"""Functions of generated files that find an output tile, with Python's numbers."""

from __future__ import annotations

import pytest

from schedgen.codegen.library import COMMON
from tests.codegen.dsl import library

BLOCKS = [(128, 256), (128, 192), (128, 128), (128, 64), (64, 64), (64, 32), (256, 96), (96, 256)]


@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 9, 16, 17, 63, 64])
def test_every_tile_on_or_below_the_diagonal_once(blocks: tuple[int, int], rows: int) -> None:
    scope, (row, column) = library(COMMON), blocks
    wanted = {(r, c) for r in range(rows) for c in range(rows * row) if c * column < (r + 1) * row}
    count = scope["tiles_in_rows"](rows, row, column)
    found = [scope["in_triangle"](index, rows, row, column) for index in range(count)]
    assert len(found) == len(set(found)) == len(wanted)
    assert set(found) == wanted


def test_tiles_at_one_time_share_operands() -> None:
    """132 neighbours in the middle of a large triangle lie in 8 rows and 17 or 18 columns."""
    scope = library(COMMON)
    found = [scope["in_triangle"](index, 64, 128, 128) for index in range(1200, 1332)]
    assert len({row for row, _ in found}) == 8
    assert len({column for _, column in found}) <= 18

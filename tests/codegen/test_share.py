"""Which elements threads have: each element of a tile once, and values of rows where they say."""

from __future__ import annotations

import pytest

from schedgen.codegen.share import FRAGMENT, ROW, THREADS, Share


@pytest.mark.parametrize("share", [FRAGMENT, ROW], ids=["fragment", "row"])
@pytest.mark.parametrize("columns", [8, 64])
def test_every_element_has_one_thread(share: Share, columns: int) -> None:
    found = [
        (
            eval(share.element_row, {"thread": thread, "v": v}),
            eval(share.element_column, {"thread": thread, "v": v}),
        )
        for thread in range(THREADS)
        for v in range(share.elements(columns))
    ]
    assert sorted(found) == [(r, c) for r in range(share.rows) for c in range(columns)]


@pytest.mark.parametrize("share", [FRAGMENT, ROW], ids=["fragment", "row"])
def test_rows_of_values(share: Share) -> None:
    for thread in (0, 37, 127):
        for v in range(share.elements(16)):
            value = eval(share.row, {"v": v})
            row = eval(share.row_at("n"), {"thread": thread, "n": value})
            assert 0 <= value < share.values
            assert row == eval(share.element_row, {"thread": thread, "v": v})


def test_pairs_are_neighbours() -> None:
    """What packed instructions take at a time is in one row."""
    assert ROW.packed
    assert (ROW.row, ROW.element_column) == ("0", "v")

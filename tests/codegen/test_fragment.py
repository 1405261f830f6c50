"""Which elements threads have: each element of a tile once, and values of rows where they say."""

from __future__ import annotations

import pytest

from schedgen.codegen.fragment import ROW, THREADS, WGMMA, Fragment


@pytest.mark.parametrize("fragment", [WGMMA, ROW], ids=["fragment", "row"])
@pytest.mark.parametrize("columns", [8, 64])
def test_every_element_has_one_thread(fragment: Fragment, columns: int) -> None:
    found = [
        (
            eval(fragment.element_row, {"thread": thread, "v": v}),
            eval(fragment.element_column, {"thread": thread, "v": v}),
        )
        for thread in range(THREADS)
        for v in range(fragment.elements(columns))
    ]
    assert sorted(found) == [(r, c) for r in range(fragment.rows) for c in range(columns)]


@pytest.mark.parametrize("fragment", [WGMMA, ROW], ids=["fragment", "row"])
def test_rows_of_values(fragment: Fragment) -> None:
    for thread in (0, 37, 127):
        for v in range(fragment.elements(16)):
            value = eval(fragment.row, {"v": v})
            row = eval(fragment.row_at("n"), {"thread": thread, "n": value})
            assert 0 <= value < fragment.values
            assert row == eval(fragment.element_row, {"thread": thread, "v": v})


def test_pairs_are_neighbours() -> None:
    """What packed instructions take at a time is in one row."""
    assert ROW.packed
    assert (ROW.row, ROW.element_column) == ("0", "v")


@pytest.mark.parametrize("fragment", [WGMMA, ROW])
@pytest.mark.parametrize("column_0", [0, 264])
def test_columns_of_pairs(fragment: Fragment, column_0: int) -> None:
    """The place in a pair is a bit that nothing else sets."""
    for thread in range(THREADS):
        for v in range(64):
            names = {"thread": thread, "v": v, "column_0": column_0}
            one, other = (
                eval(f"column_0 + {text}", {}, dict(names))
                for text in (fragment.element_column, fragment.paired_column)
            )
            assert one == other

"""Which columns a condition can hold in: nothing outside of what is found is ever kept."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from schedgen.expressions import evaluate, evaluate_arrays, parse
from schedgen.expressions.ranges import Columns, Rows, columns_of

FIRST, LAST, COLUMNS = 37, 52, 200
NAMES = {"shift": Fraction(9), "low": Fraction(FIRST), "high": Fraction(LAST)}
ROWS = Rows(parse("low"), parse("high"), frozenset({"shift"}))


def found(text: str) -> Columns:
    return columns_of(parse(text), ROWS)


@pytest.mark.parametrize(
    ("text", "first", "end"),
    [
        ("column <= row", None, LAST + 1),
        ("column < row + shift", None, LAST + 9),
        ("row - column <= 5", FIRST - 5, None),
        ("row - column <= 5 and column <= row", FIRST - 5, LAST + 1),
        ("not (column > row or column < row - 5)", FIRST - 5, LAST + 1),
        ("column < 20 or column <= row", None, LAST + 1),
        ("column == row or column == row + 8", FIRST, LAST + 9),
        ("column // 16 == row // 16", 32, 64),
        ("(column + 3) // 16 < row // 16", None, 45),
        ("column // 16 > row // 16", 48, None),
        ("column <= max(row, 100) - row % 4", None, 101),
        ("-column >= -2 * row", None, 2 * LAST + 1),
        ("column >= row * -1 + shift", -LAST + 9, None),
        ("column < row + unknown", None, None),
        ("column != row", None, None),
        ("column * 2 < row", None, None),
        ("column < row / 2", None, None),
        ("column + row < column", None, None),
        ("row < 40", None, None),
        ("column < 20 or row < 40", None, None),
        ("column <= row and column * column < row", None, LAST + 1),
        ("column % 2 == 0", None, None),
    ],
)
def test_ends(text: str, first: int | None, end: int | None) -> None:
    columns = found(text)
    values = [None if e is None else evaluate(e, NAMES) for e in (columns.first, columns.end)]
    assert values == [first, end]


@pytest.mark.parametrize(
    "text",
    [
        "column // 7 <= (row - 40) // 3 + shift",
        "not (column // 5 >= row % 9 + 2)",
        "column >= min(row, 45) * 2 - 60 and shift - column > -row",
        "not (column != row - 3) or (column - 5) // 4 == row // 8",
        "column - (row - column) <= 3",
    ],
)
def test_nothing_outside_is_kept(text: str) -> None:
    """Those that are kept are inside, and where an end is known it is reached."""
    row, column = np.arange(FIRST, LAST + 1)[:, None], np.arange(-COLUMNS, COLUMNS)[None, :]
    kept = evaluate_arrays(parse(text), {"row": row, "column": column, "shift": 9.0})
    columns = column[0][np.broadcast_to(kept, (len(row), column.size)).any(0)]
    ends = found(text)
    if ends.first is not None:
        assert columns.min() >= evaluate(ends.first, NAMES)
    if ends.end is not None:
        assert columns.max() < evaluate(ends.end, NAMES)

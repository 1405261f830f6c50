"""Masks: tiles that are kept as a whole, and limits of rows, against all of their elements."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import pytest

from schedgen.codegen.errors import EmitError
from schedgen.codegen.formulas import code, integer
from schedgen.codegen.masks import always, left_to_ask, limits
from schedgen.expressions import parse

ROWS, COLUMNS = 4, 6
CAUSAL = "column < seq_k and column <= row + seq_k - seq_q"
WINDOW = "row - column < 3 and column <= row"
KEEPS = [
    CAUSAL,
    WINDOW,
    "seq_k > column",
    "not (column >= seq_k)",
    "not (column > seq_k or row < column)",
    "seq_q - column > 2 - row",
    "row + row >= column",
    "-row + column <= 1",
    "3 <= column and column < 7",
]
MULTIPLES = [
    "2 * (column - 3) <= row + seq_k - seq_q",
    "row * 3 >= column * 2",
    "5 - 2 * column >= 0 - row",
]


def kept(keep: str, row: int, column: int, seq_q: int, seq_k: int) -> bool:
    return bool(eval(keep, {}, {"row": row, "column": column, "seq_q": seq_q, "seq_k": seq_k}))


@pytest.mark.parametrize("keep", [*KEEPS, *MULTIPLES])
def test_whole_tiles_are_kept(keep: str) -> None:
    """Where `always` holds all elements are kept; and it does hold somewhere."""
    condition = always(parse(keep), "row_0", "column_0", ROWS, COLUMNS)
    found = 0
    for row_0, column_0, seq_q, seq_k in product((0, 4, 8), (0, 6, 12), (1, 9), (2, 15)):
        names = {"row_0": row_0, "column_0": column_0, "seq_q": seq_q, "seq_k": seq_k}
        if eval(condition, {}, names):
            found += 1
            tile = product(range(row_0, row_0 + ROWS), range(column_0, column_0 + COLUMNS))
            assert all(kept(keep, row, column, seq_q, seq_k) for row, column in tile)
    assert found or keep in (WINDOW, KEEPS[-1])


@pytest.mark.parametrize("keep", ["row - row < column", "column < seq_k + row - (row + 1)"])
def test_names_that_cancel_are_refused(keep: str) -> None:
    """Neither corner is the worst one; before, the first sign was taken for all."""
    with pytest.raises(EmitError, match="adds 'row' and takes it away"):
        always(parse(keep), "row_0", "column_0", ROWS, COLUMNS)


@pytest.mark.parametrize("keep", ["row * column < 5", "max(row, column) < 5", "row == column"])
def test_other_masks_are_refused(keep: str) -> None:
    with pytest.raises(EmitError, match="sums of rows and columns"):
        always(parse(keep), "row_0", "column_0", ROWS, COLUMNS)


@pytest.mark.parametrize(
    "keep",
    [
        *(k for k in KEEPS if " or " not in k),
        "column < 3 or column <= row + seq_k - seq_q",
        "column < seq_k and (column < 3 or column <= row and column < 9)",
        "column >= 7 or column > row or column - row > 2 and column > 1",
    ],
)
def test_limits_keep_the_same_columns(keep: str) -> None:
    found = limits(parse(keep), ("seq_q", "seq_k"))
    assert found is not None
    for row, seq_q, seq_k in product(range(9), (1, 9), (2, 15)):
        names = {"row": row, "seq_q": seq_q, "seq_k": seq_k}
        names |= {"Int32": int, "cutlass": SimpleNamespace(min=min, max=max)}
        first = max((eval(integer(b, extremes=True), names) for b in found.first), default=-100)
        end = min((eval(integer(b, extremes=True), names) for b in found.end), default=100)
        for column in range(-20, 30):
            assert (first <= column < end) == kept(keep, row, column, seq_q, seq_k)


@pytest.mark.parametrize(
    "keep",
    [
        "column < seq_k or row < 3",
        "column < seq_k or column > row",
        "column < seq_k or column < row and column > 3",
        "column + column < seq_k",
        "column < limit",
        "column < 0.5",
        "row < seq_q",
        "column == 3",
        *MULTIPLES,
    ],
)
def test_what_is_no_limit(keep: str) -> None:
    """``limit`` is a float32 argument."""
    assert limits(parse(keep), ("seq_q", "seq_k")) is None


def test_condition_of_an_element() -> None:
    assert code(parse("column < 3"), lambda name: name.name) == "(column < 3.0)"


def test_what_is_left_to_ask_of_elements() -> None:
    """What is the same for all elements does not hold where not all are kept."""
    assert left_to_ask(parse("partly < 1 or column < row")) == parse("column < row")
    assert left_to_ask(parse(f"({CAUSAL}) or seq_k > 5 or partly < 1")) == parse(CAUSAL)
    both = parse("column < 3 or column < row")
    assert left_to_ask(both) == both
    assert left_to_ask(parse("partly < 1 and row < 5")) == parse("partly < 1 and row < 5")

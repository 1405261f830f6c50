"""Random numbers in formulas: what they may depend on, what they cost, what is known of them."""

from __future__ import annotations

import pytest

from schedgen.expressions import (
    check_formula,
    count_operations,
    counters,
    derivative,
    parse,
    without_influence,
)
from schedgen.expressions.folding import ZERO
from schedgen.expressions.functions import ELEMENTWISE
from tests.schedgen.expressions.test_mistakes import failure

NAMES = {"seed", "batch", "m", "row", "column", "x", "p"}
COUNT = "count with coordinates, extents, whole parameters and scalars of i32"


@pytest.mark.parametrize(
    "text",
    [
        "uniform(seed, 0, column)",
        "uniform(seed, -1, batch * m + row, column)",
        "where(uniform(seed, 0, batch, row, 3 * column, +row - 4294967295) < p, 0, x)",
    ],
)
def test_whole_numbers(text: str) -> None:
    check_formula(parse(text), NAMES)


@pytest.mark.parametrize(
    ("text", "offending", "message"),
    [
        ("uniform(seed, 0, 0.5 * row)", "0.5", "'0.5' is no whole number below 2^32"),
        ("uniform(seed, 4294967296, row)", "4294967296", "no whole number below 2^32"),
        ("uniform(seed, 0, row / 2)", "row / 2", "'row / 2' is no sum, difference or product"),
        ("uniform(seed, 0, max(row, m))", "max(row, m)", "'max(row, m)' is no sum, difference"),
    ],
)
def test_no_whole_numbers(text: str, offending: str, message: str) -> None:
    error = failure(lambda: check_formula(parse(text), NAMES))
    assert message in error.message
    assert error.fix == COUNT
    assert text[error.offset : error.offset + error.length] == offending


@pytest.mark.parametrize("count", [2, 7])
def test_number_of_arguments(count: int) -> None:
    error = failure(lambda: parse(f"uniform({', '.join(['row'] * count)})"))
    assert error.message == f"uniform takes 3 to 6 arguments, not {count}"


def test_costs() -> None:
    """Twice as much where columns are not counted last: neighbours share nothing. What is the same
    for a row is computed once for it.
    """

    def fma(text: str) -> tuple[int, int]:
        scalar = {"seed", "batch", "m", "p"}
        counts = count_operations(
            parse(text), lambda name: name.name == "column", lambda name: name.name in scalar
        )
        return counts.tile_fma, counts.row_fma

    once = ELEMENTWISE["uniform"].fma
    assert fma("uniform(seed, 0, row, column)") == (once, 0)
    assert fma("uniform(seed, 0, batch * m + row, column)") == (once, 1)
    assert fma("uniform(seed, 0, column, row)") == (2 * once, 0)
    assert fma("uniform(seed, 0, row)") == (0, once)
    assert fma("uniform(seed, 0, batch)") == (0, 0)


def test_what_is_known_of_them() -> None:
    """They are from 0 to below 1 and do not change with a buffer; names count where they stand."""
    always = without_influence(parse("where(uniform(1, 2, row) < 1, 0, x)"))
    assert [name.name for name in always] == ["row", "x"]
    assert not without_influence(parse("where(uniform(1, 2, row) < p, 0, x)"))
    assert derivative(parse("uniform(1, 2, row)"), "x") == ZERO
    found = counters(parse("p * uniform(seed, 0, row, column) + m"))
    assert [name.name for name in found] == ["seed", "row", "column"]

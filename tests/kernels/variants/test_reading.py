"""Expressions of callers: what they mean, and what is said of mistakes."""

from __future__ import annotations

import numpy as np
import pytest

from schedgen.expressions import evaluate_arrays, render
from schedgen.kernels.variants.errors import VariantError
from schedgen.kernels.variants.reading import Vector, read

RANKS = {"doc": 1, "table": 2, "window": 0}


def test_vectors_and_numbers() -> None:
    text = "doc[row] == doc[column] and table[ batch,row ] > head and column < window"
    found = read("mask", text, RANKS, condition=True)
    assert sorted(map(str, found.vectors.values())) == sorted(
        map(
            str,
            [
                Vector("doc", ("row",)),
                Vector("doc", ("column",)),
                Vector("table", ("batch", "row")),
                Vector("", ("head",)),
            ],
        )
    )
    assert found.numbers == ("window",)
    names = {render(expression) for expression in found.names.values()}
    assert names == {
        "given_doc_row", "given_doc_column", "given_table_batch_row", "given_head", "given_window",
    }  # fmt: skip


@pytest.mark.parametrize("by", [1, 2, 3, 7, 64, 1000])
def test_whole_quotients(by: int) -> None:
    """``//`` and ``%`` are what they are in Python, also of negative numbers and in float32."""
    found = read("score", f"column // {by} + 0 * score", {}, condition=False)
    rest = read("score", f"column % {by}", {}, condition=False)
    column = np.concatenate([np.arange(-3000, 3000), np.arange(1 << 20, (1 << 20) + 300)])
    names = {"column": column.astype(np.float32), "score": 0.0}
    assert np.array_equal(evaluate_arrays(found.written, names), column // by)
    assert np.array_equal(evaluate_arrays(rest.written, names), column % by)


@pytest.mark.parametrize(
    ("text", "column", "rule", "message"),
    [
        ("column <= rwo", 11, "unknown-name", "'rwo' is no coordinate and no argument"),
        ("column <= doc", 11, "bad-index", "'doc' is a tensor"),
        ("doc[row] == doc[col]", 13, "bad-index", "'col' is no index"),
        ("dok[row] > 0", 1, "unknown-name", "'dok' is no tensor that is passed"),
        ("doc[row, batch] > 0", 1, "bad-index", "'doc' has 1 dimensions, and 2 indices here"),
        ("table[row, column] > 0", 1, "bad-index", "'table' would have a value for each pair"),
        ("table[row, row] > 0", 1, "bad-index", "'table' has the same index twice"),
        ("column % 0 == 1", 1, "bad-divisor", "'%' of 0"),
        ("row@1 < 3", 1, "bad-expression", "'row@1' is of an earlier iteration"),
        ("ceil(row / 2) < 3", 1, "bad-expression", "there is no 'ceil' of elements"),
        ("column < 3 and (row", 16, "bad-expression", "this '(' is never closed"),
        ("column + 1", 1, "bad-expression", "a condition is needed here"),
        ("0 < column < 3", 12, "bad-expression", "comparisons do not chain"),
        ("score > 0", 1, "unknown-name", "'score' is no coordinate and no argument"),
    ],
)
def test_mistakes(text: str, column: int, rule: str, message: str) -> None:
    with pytest.raises(VariantError) as caught:
        read("mask", text, RANKS, condition=True)
    error = caught.value
    assert (error.column, error.rule) == (column, rule)
    assert error.message.startswith(message)
    assert str(error).startswith(f"mask, column {column}: error[{rule}]: {message}")
    assert f"\n  {text}\n  {' ' * (column - 1)}^" in str(error)

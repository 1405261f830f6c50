"""In which iterations masks keep whole tiles, against all of their elements."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import pytest

from schedgen.codegen.emit import emit
from schedgen.codegen.ir import code
from schedgen.codegen.peeling import Range, Side, both, whole_iterations, whole_turns
from schedgen.codegen.printing import expression
from schedgen.codegen.style import PLAIN, Style
from schedgen.codegen.walks import WHOLE_BLOCKS
from schedgen.expressions import parse
from tests.codegen.examples import SPECS, plan_of, solved

ROWS, COLUMNS = 4, 6
EXTENTS = ("seq_q", "seq_k")
CAUSAL = "column <= row + seq_k - seq_q"
KEEPS = [
    "column < seq_k",
    f"column < seq_k and {CAUSAL}",
    f"column < seq_k and {CAUSAL} and column > row + seq_k - seq_q - 9",
    f"column < seq_k and (column < 8 or {CAUSAL})",
    "not (column >= seq_k)",
    "3 <= column and -column >= -20",
    "2 * column < seq_k + row and row < seq_q",
    "column > 7 or row - column < 3",
    "row < seq_q",
    "column < ceil(seq_k / 4)",
]


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def select(condition: bool, yes: int, no: int) -> int:
    return yes if condition else no


NAMES = {
    "Int32": int,
    "cute": SimpleNamespace(ceil_div=ceil_div),
    "cutlass": SimpleNamespace(min=min, max=max, select_=select),
}
PEELED = Style(peeled=True)
PARTLY = SPECS / "walked_partly.yaml"


def side(size: int, step: int, start: str) -> Side:
    return Side(size, step, code(start))


def limits(found: Range, names: dict[str, int]) -> tuple[int, int]:
    """Its numbers."""
    none = (-99, 99)
    first, end = (
        other if at is None else eval(expression(at), {**NAMES, **names})
        for at, other in zip((found.first, found.end), none, strict=True)
    )
    return first, end


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize(("row_step", "column_step"), [(0, 6), (0, 4), (5, 6)])
def test_whole_tiles(keep: str, row_step: int, column_step: int) -> None:
    """Everything is kept in the range; elsewhere something is not, unless `or` joins two ranges."""
    rows, columns = side(ROWS, row_step, "row_0"), side(COLUMNS, column_step, "column_0")
    found = whole_iterations(parse(keep), rows, columns, EXTENTS)
    if found is None:  # both move, in opposite ways
        assert row_step
        return
    text = keep.replace("ceil(seq_k / 4)", "-(-seq_k // 4)")
    for row_0, column_0, seq_q, seq_k in product((0, 4, 8), (0, 12), (1, 9, 30), (2, 15, 40)):
        names = {"row_0": row_0, "column_0": column_0, "seq_q": seq_q, "seq_k": seq_k}
        first, end = limits(found, names)
        for i in range(9):
            tile = product(
                range(row_0 + row_step * i, row_0 + row_step * i + ROWS),
                range(column_0 + column_step * i, column_0 + column_step * i + COLUMNS),
            )
            whole = all(
                eval(text, {}, {**names, "row": row, "column": column}) for row, column in tile
            )
            assert whole == (first <= i < end) or (whole and " or " in keep), (names, i)


@pytest.mark.parametrize(
    "keep",
    [
        "row == column",
        "column < limit",  # a scalar need not be whole
        "row * column < 9",
        "column < seq_k / 2",
        "column < 5 or column > 9",
        "not (column < seq_k and row < 3)",
    ],
)
def test_what_nobody_knows(keep: str) -> None:
    sides = side(ROWS, 0, "row_0"), side(COLUMNS, 6, "column_0")
    assert whole_iterations(parse(keep), *sides, EXTENTS) is None


def test_full_blocks_come_first() -> None:
    """Where blocks are of a list, nobody knows where they lie, but how many are full."""
    whole, none = code("{}", WHOLE_BLOCKS), (None, None, EXTENTS)
    assert whole_iterations(parse("partly < 1 or column < row"), *none) == Range(end=whole)
    assert whole_iterations(parse("not partly > 0 and row < 5 or partly == 0"), *none) == Range(
        end=whole
    )
    assert whole_iterations(parse("partly > 0"), *none) == Range(first=whole)
    assert whole_iterations(parse("partly >= 0"), *none) == Range()
    assert whole_iterations(parse("partly < 0"), *none) == Range(end=code("Int32(0)"))
    assert whole_iterations(parse("partly < 1 and column < seq_k"), *none) is None


def test_a_loop_for_full_blocks() -> None:
    """What asks for blocks that are not full is not there; behind the loop all are like that."""
    plan = plan_of(PARTLY, "h200")
    found = {role.name: whole_turns(plan, role) for role in plan.program.roles}
    assert {turns for turns in found.values() if turns} == {
        Range(end=code("{}", WHOLE_BLOCKS)).later(0)
    }
    text = emit(*solved(PARTLY, "h200"), style=PEELED)
    assert "# KEEP: everything is kept" in text
    assert "whole_end = in_turns(whole_blocks, 0, trips)" in text
    between = text[text.index("cutlass.range(whole_end") : text.index("# END")]
    assert "KEEP(r_rX, Int32(1))" in between
    assert "cutlass.select_" not in between


def test_ranges() -> None:
    one, other = Range(code("a"), code("b")), Range(end=code("c"))
    assert both(one, Range()) == one
    found = both(one, other).later(2)
    assert found.first is not None
    assert found.end is not None
    assert expression(found.first) == "a + 2"
    assert expression(found.end) == "cutlass.min(b, c) + 2"


def test_files_say_so() -> None:
    """Loops of roles with masks are two; a program without masks in its loop is written as ever."""
    proven, kernel = solved(SPECS / "gated_attention.yaml", "h200")
    text = emit(proven, kernel, style=PEELED)
    assert 'STYLE = ("peeled",)' in text
    assert "# MASK: everything is kept" in text
    assert "whole_end = in_turns(seq_k // 128, 1, trips)" in text
    assert "for turn in cutlass.range(whole_end, trips, unroll=1):" in text
    assert "in_turns" not in emit(proven, kernel, style=PLAIN)
    proven, kernel = solved(SPECS / "product_softmax.yaml", "h200")
    assert emit(proven, kernel, style=PEELED) == emit(proven, kernel)
    plan = plan_of(SPECS / "product_softmax.yaml", "h200")
    assert all(whole_turns(plan, role) is None for role in plan.program.roles)

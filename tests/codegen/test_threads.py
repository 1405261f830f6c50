"""Functions of operations: who shares them, what they take, what they look like."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedgen.codegen.errors import EmitError
from schedgen.codegen.fragment import ROW, WGMMA
from schedgen.codegen.printing import expression
from schedgen.codegen.running import Iteration
from schedgen.codegen.source import Source
from schedgen.codegen.threads import Threads, start
from schedgen.expressions import parse
from schedgen.kernel import Operation
from schedgen.tensors import Place
from tests.codegen.examples import GEMM, SPECS, plan_of

PLAN = plan_of("gemm", "b200", **GEMM)
ATTENTION = plan_of("attention_fwd", "b200", head_dim="64", causal="true")
GATED = SPECS / "gated_attention.yaml"


def written(threads: Threads, *operations: Operation) -> tuple[list[str], str]:
    """Calls of operations, and the functions."""
    calls, functions = Source(), Source()
    for operation in operations:
        role = next(
            r for r in threads.plan.program.roles if operation.name in _ran(threads, r.name)
        )
        threads.call(calls, role, operation, Iteration("turn"))
    threads.functions(functions)
    return calls.lines, functions.text


def _ran(threads: Threads, role: str) -> list[str]:
    return [operation.name for operation in threads.plan.runs[role]]


def test_slices_share_a_function() -> None:
    threads = Threads(PLAN, ROW)
    _, text = written(threads, PLAN.operation("EPI[0,0]"), PLAN.operation("EPI[1,0]"))
    assert text.count("@cute.jit") == 1
    assert "alpha: Float32" in text


def test_other_formulas_have_other_functions() -> None:
    threads = Threads(PLAN, ROW)
    first, second = (PLAN.operation(f"EPI[{n},0]") for n in (0, 1))
    formulas = tuple((name, parse("acc")) for name, _ in second.formulas)
    _, text = written(threads, first, replace(second, formulas=formulas))
    assert text.count("@cute.jit") == 2
    assert "def EPI_2(" in text


def test_pairs_where_there_are_instructions_for_them() -> None:
    _, text = written(Threads(PLAN, ROW), PLAN.operation("EPI[0,0]"))
    assert "fma_packed_f32x2(" in text
    plan = plan_of("gemm", "h200", tile_m="64", consumers="1")
    _, text = written(Threads(plan, WGMMA), plan.operation("EPI[0,0]"))
    assert "f32x2" not in text


def test_part_of_exponentials() -> None:
    """The share that the schedule was made with."""
    operation = ATTENTION.operation("EXP[0,0]")
    assert operation.polynomial > 0
    share = f"{operation.polynomial.numerator}, {operation.polynomial.denominator}"
    _, text = written(Threads(ATTENTION, ROW), operation)
    assert f"exp2_pair((rS[v], rS[v + 1]), v, {share})" in text
    _, text = written(
        Threads(ATTENTION, ROW), replace(operation, polynomial=0 * operation.polynomial)
    )
    assert "exp2_pair" not in text or f"v, {share}" not in text


def test_masks_compare_once_for_each_element() -> None:
    calls, text = written(Threads(ATTENTION, ROW), ATTENTION.operation("MASK[1]"))
    assert "if not (v < end[0]):" in text
    assert "cutlass.min(seq_k, " in text
    assert "128 * turn" in calls[0]


def test_masks_of_fragments() -> None:
    plan = plan_of(GATED, "h200")
    _, text = written(Threads(plan, WGMMA), plan.operation("MASK"))
    assert "if not (8 * (v // 4) + v % 2 < end[v // 2 % 2]):" in text


def test_masks_without_limits() -> None:
    operation = ATTENTION.operation("MASK[0]")
    keep = (("keep", parse("column < seq_k or row < column")),)
    _, text = written(Threads(ATTENTION, ROW), replace(operation, formulas=keep))
    assert "column = column_0 + v" in text
    assert "end[" not in text


def test_conditional_products_of_rows() -> None:
    """Whole warps skip it; within one, rows that need nothing are multiplied by 1."""
    _, text = written(Threads(ATTENTION, ROW), ATTENTION.operation("CR[0]"))
    assert "if fresh:" in text
    assert "elif cute.arch.vote_any_sync((in_sAlpha[0] < 1.0)):" in text
    assert "else Float32(1.0)" in text


@pytest.mark.medium
def test_conditions_of_rows_where_a_tile_stays_in_shared_memory() -> None:
    """Splits that end are added once in many iterations; warps skip it in others."""
    plan = plan_of("attention_whole", "h200", head_dim="64")
    calls, text = written(Threads(plan, WGMMA), plan.operation("ADD"))
    assert "if cute.arch.vote_any_sync(((n[0] < 1.5)) | ((n[1] < 1.5))):" in text
    assert "else Float32(in_acc[v])" in text
    assert len(calls) == 1
    sums = replace(plan.operation("ADD"), when=parse("acc > 0"))  # of elements
    assert "vote" not in written(Threads(plan, WGMMA), sums)[1]


@pytest.mark.medium
def test_sums_of_rows_in_the_loop_are_added_up_in_a_copy() -> None:
    plan = plan_of("attention_whole", "h200", head_dim="64")
    calls, _ = written(Threads(plan, WGMMA), plan.operation("LSE"))
    assert "of_rows(r_l)" in calls[0]
    calls, _ = written(Threads(plan, WGMMA), plan.operation("LAST_LSE"))
    assert calls[0] == "across_lanes(r_l)"
    assert "of_rows" not in calls[1]


def test_unknown_names() -> None:
    operation = PLAN.operation("EPI[0,0]")
    formulas = tuple((name, parse("acc * gamma")) for name, _ in operation.formulas)
    with pytest.raises(EmitError, match="gamma is neither an operand nor an argument"):
        written(Threads(PLAN, ROW), replace(operation, formulas=formulas))


def test_vectors_cannot_be_reduced() -> None:
    plan = plan_of(GATED, "b200")
    operation = plan.operation("MAX")
    operands = {**dict(operation.operands), "from": dict(operation.operands)["to"]}
    changed = replace(operation, operands=tuple(operands.items()))
    with pytest.raises(EmitError, match="no tile that can be reduced") as found:
        written(Threads(plan, ROW), changed)
    assert found.value.rule == "operand-of-reduction"


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        (Place("m"), "0"),
        (Place("m", along="m", block=128), "128 * at_m"),
        (Place("m", along="m", block=128, offset=64), "128 * at_m + 64"),
        (Place("k", step=32, offset=8), "32 * (turn - 1) + 8"),
    ],
)
def test_start(place: Place, wanted: str) -> None:
    assert expression(start(place, Iteration("turn", -1), PLAN.kernel)) == wanted


def test_start_where_tiles_skip_iterations() -> None:
    """Only what moves with the main loop is later in it."""
    kernel = replace(PLAN.kernel, tile_first=parse("tile_row // 2"))
    at = Iteration("turn", -1)
    moving, fixed = Place("k", step=32, offset=8), Place("m", along="m", block=128)
    assert expression(start(moving, at, kernel)) == "32 * (skipped + turn - 1) + 8"
    assert expression(start(fixed, at, kernel)) == "128 * at_m"

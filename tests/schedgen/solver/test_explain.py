"""Explanations of bounds: the right facts, with the right numbers, and no more than are needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedgen.dependence import derive
from schedgen.kernel import Depth, Kernel, Kind, Operation, Phase, Piece, Read, Region, Space
from schedgen.machine_file import read_machine
from schedgen.solver.confirm import Encoding, Premise, confirm_infeasible, make_solver
from schedgen.solver.explain import explain_bound, find_core, render_core
from schedgen.solver.problem import Problem, build_problem
from schedgen.solver.search import smallest
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec

ATTENTION = {"exp2_polynomial": "3/16"}
OWN = {**ATTENTION, "p_storage": "own", "product_order": "pv_first"}
OTHER = {**ATTENTION, "p_storage": "other", "product_order": "qk_first", "kv_lag": "1"}


def shipped(name: str, target: str, end: str = "high", **fixed: str) -> Problem:
    spec = read_spec(name)
    kernel = bind(spec.source, spec.file, target, fixed)[0]
    return build_problem(kernel, read_machine(target), derive(kernel), end)


def explained(problem: Problem) -> tuple[int, tuple[str, ...]]:
    result = smallest(problem)
    assert result is not None
    return result.ii, explain_bound(problem, result.ii)


def chain(*steps: tuple[str, str, int, int], depth: int = 1) -> Problem:
    """Operations (name, unit, cycles, latency) on the abstract machine, each reading the last."""
    regions: list[Region] = []
    operations: list[Operation] = []
    for name, unit, cycles, latency in steps:
        reads = (Read(regions[-1].name),) if regions else ()
        kind = Kind.MAP if regions else Kind.LOAD
        regions.append(Region(f"r{name}", "r", Space.SMEM, (8, 8), "f32", Depth(depth, depth)))
        made = Operation(name, name, kind, Phase.BODY, reads, (f"r{name}",))
        operations.append(replace(made, unit=unit, cycles=cycles, latency=latency))
    pieces = tuple(Piece(r.name, r.name, 0, r.rows, 0, r.row_bytes) for r in regions)
    kernel = Kernel(
        *("toy", "abstract", "", "", (), ()),
        regions=tuple(regions),
        pieces=pieces,
        rings=(),
        operations=tuple(operations),
    )
    return build_problem(kernel, read_machine("abstract"), derive(kernel), "high")


def test_busy_units() -> None:
    ii, sentences = explained(shipped("gemm", "h200"))
    assert ii == 1024
    busy = "unit TENSOR is busy 1024 cycles per iteration (MMA[0] 512, MMA[1] 512)"
    assert f"II cannot go below 1024: {busy}" in sentences


def test_a_busy_role() -> None:
    problem = shipped("attention_fwd", "b200", exp2_polynomial="0")
    first, *_ = explain_bound(problem, 2254)
    assert first.startswith(
        "II cannot go below 2254: the role that issues LDS[0] is busy 2254 cycles"
    )
    assert "EXP[0,0] 864" in first


def test_a_dependence_cycle() -> None:
    """a writes what b reads; the one slot is free again after b: 7 + 5 cycles."""
    ii, sentences = explained(chain(("a", "A", 1, 7), ("b", "B", 1, 5)))
    assert ii == 12
    assert len(sentences) == 1
    assert "-(7)-> b" in sentences[0]
    assert "-(5, +1)-> a" in sentences[0]
    assert "= 12 cycles / 1 iteration" in sentences[0]


def refuted_by(problem: Problem, ii: int, premises: tuple[Premise, ...]) -> bool:
    encoding = Encoding(problem, ii)
    solver = make_solver(encoding, 50_000_000)
    kept = {*premises}
    for reason, assertion in encoding.assertions:
        if reason in kept or reason.family == "given":
            solver.add(assertion)
    return str(solver.check()) == "unsat"


def test_a_core_is_enough_and_minimal() -> None:
    """At II 9 and 10 c has to start 9 to 11 or 9 to 13 cycles after a, where a has their unit."""
    problem = chain(("a", "U", 4, 3), ("b", "V", 1, 6), ("c", "U", 4, 1))
    ii, (head, *facts) = explained(problem)
    assert ii == 11
    assert head.startswith("II cannot go below 11: 2 facts leave no schedule with 10; ")
    assert facts[0] == (
        "unit U is busy 8 of 10 cycles per iteration (a 4, c 4), with one operation at a time"
    )
    assert facts[1] == "a -(3)-> b -(6)-> c -(1, +1)-> b -(6, +1)-> a"
    core = find_core(problem, 10)
    assert core.verdict == "infeasible"
    assert core.minimal
    assert refuted_by(problem, 10, core.premises)
    for left_out in core.premises:
        fewer = tuple(premise for premise in core.premises if premise is not left_out)
        assert not refuted_by(problem, 10, fewer)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["low", "high"])
def test_waiting_for_the_rescale(end: str) -> None:
    """With P in its own S the product cycle is longer by what the role does in between."""
    problem = shipped("attention_fwd", "b200", end, **OWN)
    ii, sentences = explained(problem)
    head, *facts = sentences
    assert head.startswith(f"II cannot go below {ii}: {len(facts)} facts")
    text = "; ".join(facts)
    assert "the role that issues LDS[" in text
    assert "-> CR[" in text  # PV waits for the rescale, which waits for the statistics
    assert len(facts) <= 5


@pytest.mark.slow
def test_too_little_shared_memory() -> None:
    """At the low latencies three slots for K and V are too few, and there is no fourth."""
    problem = shipped("attention_fwd", "b200", "low", **OTHER)
    ii, sentences = explained(problem)
    assert ii == 2064
    text = "; ".join(sentences)
    assert "shared memory: 231424 bytes" in text
    assert "a slot of ring kv takes 32768" in text
    assert "3 slots with lags 0, 1" in text


@pytest.mark.slow
def test_too_little_tensor_memory() -> None:
    problem = shipped("attention_fwd", "b200", **ATTENTION)
    ii, sentences = explained(problem)
    assert ii == 2127
    text = "; ".join(sentences)
    assert "P[0] (64) has to live in S[0] or S[1]" in text
    assert "place of P[0]: in S[0]: PV[0,1] -(128, +1)-> QK[0]" in text
    assert "of iteration +1" in text
    core = find_core(problem, ii - 1)
    assert refuted_by(problem, ii - 1, core.premises)


@pytest.mark.medium
def test_alike_chains_are_told_once() -> None:
    problem = shipped("attention_fwd", "b200", "low", **OTHER)
    facts = render_core(problem, 2063, find_core(problem, 2063))
    assert len(set(facts)) == len(facts)


@pytest.mark.medium
def test_says_when_there_is_nothing_to_explain() -> None:
    problem = shipped("attention_fwd", "b200", "high", **OWN)
    assert confirm_infeasible(problem, 3100).verdict == "feasible"
    (sentence,) = explain_bound(problem, 3101)
    assert sentence == "no explanation why II cannot be 3100: to Z3 that is feasible"
    assert explain_bound(problem, 1) == ("II 1 is the smallest there is",)

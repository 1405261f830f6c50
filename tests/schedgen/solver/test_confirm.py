"""Z3 against CP-SAT, against the independent verifier, and on the shipped specs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ortools.sat.python import cp_model

from schedgen.bounds import ImpossibleCycle
from schedgen.dependence import derive
from schedgen.kernel import (
    Depth,
    Kernel,
    Kind,
    Operation,
    Phase,
    Piece,
    Read,
    Region,
    Space,
)
from schedgen.machine import Machine
from schedgen.machine_file import machine_from, read_machine
from schedgen.solver.confirm import confirm_infeasible
from schedgen.solver.decisions import Decisions
from schedgen.solver.formulation import modulo_model
from schedgen.solver.problem import Problem, build_problem
from schedgen.solver.reading import read_decisions
from schedgen.solver.search import arithmetic_bound, make_solver, smallest
from schedgen.solver.verify import verify
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec
from schedgen.spec.source import parse_source

# Costs are pinned by the operations; waits, arrives and hand-offs cost a little.
TOY = """
schedgen_machine: 1
name: toy
arch: none
summary: small numbers
capacities:
  smem_bytes: {value: 65536, source: toy, certainty: documented}
  tmem_columns: {value: 512, source: toy, certainty: documented}
  registers_per_thread_sum: {value: 512, source: toy, certainty: documented}
  max_registers: {value: 248, source: toy, certainty: documented}
  warpgroups: {value: 32, source: toy, certainty: documented}
units:
  COPY: {kind: exclusive}
  QUEUE: {kind: exclusive, order: queue}
  MATH: {kind: exclusive}
  PORT: {kind: rate}
roles:
  copy: {warps: 1, registers: 8}
  tensor: {warps: 1, registers: 8}
  vector: {warps: 4, registers: 4}
constants:
  wait: {value: 1, unit: cycle, source: toy, certainty: documented}
  arrive: {value: 1, unit: cycle, source: toy, certainty: documented}
  handoff: {value: 2, unit: cycle, source: toy, certainty: documented}
rules:
  - {name: load, kind: load, role: copy, hold: 1, units: {COPY: 1}, latency: 3,
     handoff: included, issue: asynchronous}
  - {name: product, kind: mma, role: tensor, hold: 1, units: {QUEUE: 2}, latency: 3,
     handoff: included, issue: asynchronous}
  - {name: put, kind: copy, role: vector, hold: 1, release: 1, units: {PORT: 1/2}, latency: 2,
     issue: asynchronous}
  - {name: work, kind: map, role: vector, units: {PORT: 1/2}, latency: 3,
     registers: rows, issue: synchronous}
"""

FIXED_MAPS: dict[str, dict[str, str]] = {
    "free": {"exp2_polynomial": "3/16"},
    "own": {"exp2_polynomial": "3/16", "p_storage": "own", "product_order": "pv_first"},
    "other": {
        "exp2_polynomial": "3/16",
        "p_storage": "other",
        "product_order": "qk_first",
        "kv_lag": "1",
    },
}


def toy_machine() -> Machine:
    return machine_from(parse_source(TOY, "toy.yaml"))


def region(
    name: str, space: Space, columns: int, depth: tuple[int, int] = (1, 1), dtype: str = "f32"
) -> Region:
    return Region(name, name, space, (128, columns), dtype, Depth(*depth))


def operation(
    name: str, kind: Kind, reads: list[tuple[str, int]], writes: str, **pins: object
) -> Operation:
    read = tuple(Read(piece, distance) for piece, distance in reads)
    made = Operation(name, name, kind, Phase.BODY, read, (writes,))
    return replace(made, **pins)  # type: ignore[arg-type]


def kernel(regions: list[Region], operations: list[Operation]) -> Kernel:
    pieces = tuple(Piece(r.name, r.name, 0, r.rows, 0, r.row_bytes) for r in regions)
    return Kernel(
        *("toy", "toy", "", "", (), ()),
        regions=tuple(regions),
        pieces=pieces,
        rings=(),
        operations=tuple(operations),
    )


def problem_of(made: Kernel, machine: Machine, **capacities: int) -> Problem:
    return build_problem(made, replace(machine, **capacities), derive(made), "high")


def shipped(name: str, target: str, end: str, fixed: dict[str, str]) -> Problem:
    spec = read_spec(name)
    made = bind(spec.source, spec.file, target, fixed)[0]
    return build_problem(made, read_machine(target), derive(made), end)


def cp_sat(problem: Problem, ii: int) -> Decisions | None:
    """CP-SAT's schedule, None if it refutes ``ii``."""
    model = modulo_model(problem, ii, 40)
    solver = make_solver(60, None)
    status = solver.solve(model.cp)
    assert status != cp_model.UNKNOWN
    return None if status == cp_model.INFEASIBLE else read_decisions(model, solver.value)


def compare(problem: Problem, iis: range) -> None:
    """Both say the same about every II, and the checker accepts the schedules of both."""
    for ii in iis:
        theirs, mine = cp_sat(problem, ii), confirm_infeasible(problem, ii)
        if theirs is None:
            assert mine.verdict == "infeasible", f"II {ii}: {mine.schedule}"
        else:
            assert verify(problem, theirs) == ()
            assert mine.verdict == "feasible", f"II {ii}: {theirs}"
        assert mine.schedule is None or verify(problem, mine.schedule) == ()


def check_random(problem: Problem, data: st.DataObject) -> None:
    """Around the bound, with little shared memory."""
    room = 1024 + 128 * data.draw(st.integers(2, 10), "slots that fit")
    problem = replace(problem, machine=replace(problem.machine, smem_bytes=room))
    try:
        bound = arithmetic_bound(problem).cycles
    except ImpossibleCycle:
        assert confirm_infeasible(problem, 500).verdict == "infeasible"
        return
    compare(problem, range(bound, bound + 5))


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_agrees_with_cp_sat(toy_problems: st.SearchStrategy[Problem], data: st.DataObject) -> None:
    check_random(data.draw(toy_problems), data)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_agrees_with_cp_sat_on_many_kernels(
    toy_problems: st.SearchStrategy[Problem], data: st.DataObject
) -> None:
    check_random(data.draw(toy_problems), data)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("maps", FIXED_MAPS)
def test_confirms_attention(end: str, maps: str) -> None:
    problem = shipped("attention_fwd", "b200", end, FIXED_MAPS[maps])
    result = smallest(problem)
    assert result is not None
    assert result.ii > result.bound.cycles  # not plain arithmetic
    below = confirm_infeasible(problem, result.ii - 1)
    assert below.verdict == "infeasible", below.reason
    assert below.seconds < 60  # 2.4 s on an idle machine
    at = confirm_infeasible(problem, result.ii)
    assert at.verdict == "feasible"
    assert at.schedule is not None
    assert verify(problem, at.schedule) == ()


@pytest.mark.parametrize("target", ["b200", "h200"])
@pytest.mark.parametrize("name", ["gemm", "gemm_epilogue", "gemm_symmetric", "gemm_chain"])
def test_confirms_arithmetic_bounds(name: str, target: str) -> None:
    problem = shipped(name, target, "high", {})
    bound = arithmetic_bound(problem).cycles
    assert confirm_infeasible(problem, bound - 1).verdict == "infeasible"
    at = confirm_infeasible(problem, bound)
    assert at.schedule is not None
    assert verify(problem, at.schedule) == ()


def test_does_not_limit_the_stages() -> None:
    """A chain of six operations of 100 cycles, one cycle each on one unit: 100 stages at II 6."""
    regions = [region(f"r{n}", Space.SMEM, 1, (120, 120), "bf16") for n in range(6)]
    pins: dict[str, object] = {"unit": "T", "cycles": 1, "latency": 100}
    chain = [operation("o0", Kind.LOAD, [], "r0", **pins)]
    for n in range(1, 6):
        chain.append(operation(f"o{n}", Kind.MAP, [(f"r{n - 1}", 0)], f"r{n}", **pins))
    problem = problem_of(kernel(regions, chain), read_machine("abstract"))
    found = confirm_infeasible(problem, 6)
    assert found.schedule is not None
    assert max(found.schedule.start.values()) // 6 > 80
    assert confirm_infeasible(problem, 5).verdict == "infeasible"


def _fan(reads: int, kind: Kind, space: Space, **pins: object) -> Kernel:
    """A load that feeds independent operations."""
    regions = [region("a", Space.SMEM, 1, (8, 8), "bf16")]
    operations = [operation("L", Kind.LOAD, [], "a", latency=3)]
    for n in range(reads):
        regions.append(region(f"x{n}", space, 2, (1, 1) if space is Space.REGISTERS else (8, 8)))
        operations.append(operation(f"A{n}", kind, [("a", 0)], f"x{n}", **pins))
    return kernel(regions, operations)


def _smallest_by_z3(problem: Problem) -> int:
    return next(ii for ii in range(1, 100) if confirm_infeasible(problem, ii).verdict == "feasible")


def test_a_role_of_one_operation_takes_its_waits_and_arrives() -> None:
    """Apart A waits 1, holds 4, arrives 1; in one role with B that is 1 + 4 + 1 as well."""
    regions = [
        region("a", Space.SMEM, 1, (4, 4), "bf16"),
        region("x", Space.TMEM, 1, (3, 3)),
        region("y", Space.TMEM, 1, (3, 3)),
    ]
    operations = [
        operation("L", Kind.LOAD, [], "a", latency=3),
        operation("A", Kind.MAP, [("a", 0)], "x", latency=4),
        operation("B", Kind.MAP, [("x", 0)], "y", latency=1),
    ]
    problem = problem_of(kernel(regions, operations), toy_machine())
    assert _smallest_by_z3(problem) == 6


def test_registers_are_rounded_once_per_role() -> None:
    """Two tiles of 2 registers and 4 beside them fit into 8; the loads take 8 more."""
    made = _fan(2, Kind.MAP, Space.REGISTERS, latency=4)
    enough = problem_of(made, toy_machine(), registers_per_thread_sum=16)
    assert _smallest_by_z3(enough) == 10  # one role: two waits and two operations of 4 cycles
    short = problem_of(made, toy_machine(), registers_per_thread_sum=15)
    assert confirm_infeasible(short, 1000).verdict == "infeasible"


@pytest.mark.medium
def test_rates_add_up_as_fractions() -> None:
    """Twelve halves of a cycle are six cycles."""
    problem = problem_of(_fan(12, Kind.COPY, Space.TMEM, latency=2), toy_machine())
    assert _smallest_by_z3(problem) == 6


def test_warps_are_limited() -> None:
    """Seven groups that cannot share roles need seven warpgroups beside the loads."""
    made = _fan(7, Kind.MAP, Space.TMEM, latency=4)
    pinned = [replace(o, role=o.name) for o in made.operations]
    apart = replace(made, operations=tuple(pinned))
    eight = problem_of(apart, toy_machine(), warpgroups=8)
    assert confirm_infeasible(eight, 50).verdict == "feasible"
    seven = problem_of(apart, toy_machine(), warpgroups=7)
    assert confirm_infeasible(seven, 50).verdict == "infeasible"


def test_out_of_budget_confirms_nothing() -> None:
    problem = shipped("attention_fwd", "b200", "high", FIXED_MAPS["free"])
    answer = confirm_infeasible(problem, 2126, rlimit=1000)
    assert answer.verdict == "unknown"
    assert "gave up" in answer.reason
    # Where other processes keep all cores busy, Z3's clock may begin late: once is enough.
    found = (confirm_infeasible(problem, 2126, seconds=0.002).verdict for _ in range(5))
    assert "unknown" in found


@pytest.mark.medium
def test_repeats_itself() -> None:
    problem = shipped("attention_fwd", "b200", "low", FIXED_MAPS["own"])
    first, second = (confirm_infeasible(problem, 2700) for _ in range(2))
    assert first.schedule is not None
    assert first.schedule == second.schedule


def test_shares_no_code_with_the_model_and_loads_z3_late() -> None:
    program = (
        "import sys, schedgen.solver.confirm\n"
        "for name in ('z3', 'schedgen.solver.model', 'schedgen.solver.windows'):\n"
        "    assert name not in sys.modules, name\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)

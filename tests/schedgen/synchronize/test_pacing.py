"""Orders of pace: roles that are kept to the order of the schedule on a unit they share."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from schedgen.benchmarks.mutants.sites import with_role
from schedgen.driver.found import Solution
from schedgen.driver.solution import solve
from schedgen.errors import SchedgenError
from schedgen.findings import Claim
from schedgen.machine_file import machine_text, read_machine
from schedgen.ordering.orders import Orders
from schedgen.program.digest import program_digest
from schedgen.program.file import read_program, to_json
from schedgen.program.model import Arrive, Grant, Program, Run, Wait
from schedgen.program.operations import Number
from schedgen.program.warps import by_warps, part_of
from schedgen.proof.graph import all_findings
from schedgen.proof.prove import check, prove
from schedgen.reasons import Reason, ReasonKind
from schedgen.spec.reader import read_spec
from schedgen.synchronize.build import ProgramError
from schedgen.synchronize.layout import Layout
from schedgen.synchronize.pace import pace
from schedgen.synchronize.pacing import keeps, orders_of, unpaced, without_barriers
from schedgen.synchronize.parts import Paced
from schedgen.synchronize.recorded import lines, synchronization
from schedgen.synchronize.synthesize import (
    Synchronized,
    resynchronized,
    synchronized,
)
from schedgen.synchronize.text import program_text
from tests.fuzz.fuzzer import SPECS

Case = tuple[str, str, *tuple[tuple[str, str], ...]]
"""A spec, a target, and settings."""
ATTENTION: Case = ("attention_fwd", "h200")
THREE: Case = (*ATTENTION, ("head_dim", "64"))
CHAINED: Case = ("gemm_chain", "h200")
IN_WARPS: Case = (str(SPECS / "ring_that_two_roles_fill.yaml"), "h200")
"""A role of it is proven as its warps."""


@cache
def solution(spec: str, target: str, *settings: tuple[str, str]) -> Solution:
    return solve(read_spec(spec), read_machine(target), settings=dict(settings))


@cache
def made(case: Case, *units: str) -> Synchronized:
    found = solution(*case)
    return synchronized(found.problem.kernel, found.schedule, found.problem.machine, units)


def paced(case: Case, *units: str) -> Program:
    return made(case, *units).program


def turn(program: Program, role: str) -> list[str]:
    """What a turn has of products and orders of pace, each with its shift."""
    found: list[str] = []
    for step in program.role[role].loop:
        match step.action:
            case Run(operation) if operation[:2] in ("QK", "PV"):
                found.append(f"{operation} {step.shift}")
            case (Wait(barrier) | Arrive(barrier)) as action if barrier.startswith("pace"):
                found.append(f"{action.do} {barrier.partition(' ')[2]} {step.shift}")
            case _:
                pass
    return found


# -- which orders ----------------------------------------------------------------------------------


@pytest.mark.medium
def test_ping_pong() -> None:
    """As in FlashAttention-3: a turn waits for the other warpgroup's, and lets that go on behind
    its last product, which in the first turn there is none of yet.
    """
    program = paced(ATTENTION, "TENSOR")
    assert turn(program, "softmax0") == [
        *("wait QK[0] after PV[1,0] 0", "QK[0] 0", "PV[0,0] 1", "arrive QK[1] after PV[0,0] 0"),
    ]
    assert turn(program, "softmax1") == [
        *("wait QK[1] after PV[0,0] 0", "QK[1] 0", "PV[1,0] 1", "arrive QK[0] after PV[1,0] 0"),
    ]
    assert program.role["softmax0"].grants == ()
    assert program.role["softmax1"].grants == (Grant("pace QK[0] after PV[1,0]", 0),)


def test_a_wait_for_the_order_is_the_last_one() -> None:
    """Whoever has its turn also has its data."""
    steps = paced(ATTENTION, "TENSOR").role["softmax0"].loop
    at = next(n for n, step in enumerate(steps) if step.why.startswith("pace"))
    run = next(n for n, s in enumerate(steps) if s.action == Run("QK[0]"))
    assert not any(isinstance(step.action, Wait) for step in steps[at + 1 : run])


@pytest.mark.medium
def test_three_warpgroups_in_a_circle() -> None:
    found = made(THREE, "TENSOR").made.paces
    after = {order.after: order for order in found}
    assert len(found) == 3
    assert sum(order.distance for order in found) == 1
    assert {*after} == {"QK[0]", "QK[1]", "QK[2]"}
    grants = [g for role in paced(THREE, "TENSOR").roles for g in role.grants]
    assert len(grants) == 1


def test_exponentials() -> None:
    found = made(ATTENTION, "MUFU").made.paces
    assert {(o.before, o.after) for o in found} == {
        ("EXP[0,0]", "EXP[1,0]"),
        ("EXP[1,0]", "EXP[0,0]"),
    }


CHAIN = """
schedgen: 1
kernel: chain
targets: [h200]
parameters:
  n: {default: 1024}
  depth: {default: 1}
arguments:
  a: {shape: [m, inner], dtype: bf16}
  b: {shape: [n, inner], dtype: bf16}
  c: {shape: [n, width], dtype: bf16}
  d: {shape: [m, width], dtype: bf16}
buffers:
  sA: {space: smem, shape: [64, 64], dtype: bf16, lives: tile}
  sB: {space: smem, shape: [64, 64], dtype: bf16, depth: 2}
  sC: {space: smem, shape: [64, 64], dtype: bf16, depth: 2}
  S: {space: registers, shape: [64, 64]}
  P: {space: smem, shape: [64, 64], dtype: bf16, depth: depth}
  O: {space: registers, shape: [64, 64], lives: tile, initial: 0}
  sD: {space: smem, shape: [64, 64], dtype: bf16, lives: tile}
loops: {trips: ceil(n / 64)}
operations:
  before:
    - {id: LA, kind: load, from: a, to: sA}
  body:
    - {id: LB, kind: load, from: b, to: sB}
    - {id: LC, kind: load, from: c, to: sC}
    - {id: ONE, kind: mma, a: sA, b: sB, transpose_b: true, d: S, role: first}
    - {id: PUT, kind: map, to: {P: S}, role: first}
    - {id: TWO, kind: mma, a: P, b: sC, d: O, accumulate: true, role: second}
  after:
    - {id: EPI, kind: map, to: {sD: O}, role: second}
    - {id: STD, kind: store, from: sD, to: d}
"""


@pytest.fixture
def chain(tmp_path: Path) -> str:
    path = tmp_path / "chain.yaml"
    path.write_text(CHAIN, encoding="utf-8")
    return str(path)


@pytest.fixture
def near(tmp_path: Path) -> str:
    """A machine with quick hand-offs, so that the roles of the chain are not far apart."""
    quick = "  handoff: {value: 30, unit: cycle, source: none, certainty: estimate}"
    path = tmp_path / "h200.yaml"
    text = re.sub(r"^  handoff: .*$", quick, machine_text("h200"), flags=re.MULTILINE)
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_what_follows_from_data_takes_no_barrier(chain: str, near: str) -> None:
    """The second product reads what comes of the first; only the other order is to be kept."""
    program = paced((chain, near), "TENSOR")
    orders = [b.name for b in program.barriers if b.kind == "pace"]
    assert orders == ["pace ONE after TWO"]
    prove(program, ("graph", "execution"))


def test_too_far_apart(chain: str) -> None:
    """With more slots between them, the first role is iterations ahead of the second."""
    with pytest.raises(ProgramError, match="role second is more than one turn away from first"):
        paced((chain, "h200", ("depth", "2")), "TENSOR")


@pytest.mark.medium
@pytest.mark.parametrize(
    ("case", "unit"),
    [(THREE, "TENSOR"), (ATTENTION, "MUFU"), (CHAINED, "TENSOR"), (IN_WARPS, "TENSOR")],
)
def test_kept_and_none_too_many(case: Case, unit: str) -> None:
    """All orders that were asked for are kept; without any barrier of pace one of them is not."""
    found, solved = made(case, unit), solution(*case)
    kernel, schedule = solved.problem.kernel, solved.schedule
    layout = Layout(kernel, schedule, unpaced(found.program))
    wanted = [*orders_of(layout, unit)]
    assert all(keeps(Orders(found.program), order) for order in wanted)
    for order in found.made.paces:
        roles = tuple(without_barriers(role, {order.barrier}) for role in found.program.roles)
        fewer = replace(found.program, roles=roles)
        assert not keeps(Orders(fewer), order)


# -- nothing else rests on them --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("case", [ATTENTION, THREE])
@pytest.mark.parametrize("units", [("TENSOR",), ("MUFU", "TENSOR")])
def test_without_them_it_is_the_program_that_there_would_be(
    case: Case, units: tuple[str, ...]
) -> None:
    program, plain = paced(case, *units), paced(case)
    assert program.paced == units
    assert unpaced(program) == plain
    assert program_digest(program) != program_digest(plain)
    assert unpaced(plain) == plain
    prove(program, ("graph", "execution"))


@pytest.mark.medium
def test_by_all_methods() -> None:
    assert check(paced(THREE, "TENSOR")).findings == ()


@pytest.mark.medium
def test_of_a_role_in_warps() -> None:
    """All warps of a role meet where it waits: so the hardware has it, and so has the proof."""
    program = paced(IN_WARPS, "TENSOR")
    (barrier,) = (b.name for b in program.barriers if b.kind == "pace")
    (waits,) = (
        r for r in program.roles if any(s.action == Wait(barrier, Number()) for s in r.loop)
    )
    divided = by_warps(program)
    meets = divided.barrier[f"{waits.name} meets at {barrier}"]
    assert (meets.kind, meets.arrivals) == ("role", 128)
    parts = [role for role in divided.roles if part_of(role.name)[0] == waits.name]
    assert len(parts) > 1
    for part in parts:
        at = next(n for n, s in enumerate(part.loop) if s.action == Wait(barrier, Number()))
        assert part.loop[at - 1].action == Wait(meets.name, Number())
    assert check(program).findings == ()


def test_as_fast_in_the_model() -> None:
    program = paced(ATTENTION, "TENSOR")
    assert pace(program).cycles == pace(unpaced(program)).cycles == 2048


# -- written down, and explained -------------------------------------------------------------------


def test_recorded() -> None:
    found, solved = made(ATTENTION, "TENSOR"), solution(*ATTENTION)
    text = [line for line in lines(found.made) if line.startswith("pace")]
    assert text == [
        "pace TENSOR: PV[1,0] 1 -> QK[0] 0, 1",
        "pace TENSOR: PV[0,0] 1 -> QK[1] 0, 0",
    ]
    again = synchronization(lines(found.made))
    assert again == found.made
    problem = solved.problem
    program = resynchronized(
        problem.kernel, solved.schedule, problem.machine, again, late=found.late
    )
    assert replace(program, removals=found.program.removals) == found.program


def test_file() -> None:
    program = paced(ATTENTION, "TENSOR")
    assert read_program(to_json(program)) == program


def test_explained() -> None:
    reason = Reason(ReasonKind.PACE, ("QK[1]", "PV[0,0]", "TENSOR"))
    assert reason.text == "pace: QK[1] is issued after PV[0,0], as planned for TENSOR"
    assert Paced("TENSOR", "PV[0,0]", 1, "QK[1]", 0, 0).reason == reason
    text = program_text(paced(ATTENTION, "TENSOR"))
    assert text.count(reason.text) == 2  # of the barrier, and of the wait


# -- refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "unit", "text"),
    [
        (
            ATTENTION,
            "TENSORS",
            "neither h200 nor attention_fwd has such a unit; fix: did you mean 'TENSOR'",
        ),
        (ATTENTION, "FMA", "at the same time, so the schedule has no order there; fix: use one of"),
    ],
)
def test_no_such_unit(case: Case, unit: str, text: str) -> None:
    with pytest.raises(SchedgenError, match=text):
        paced(case, unit)


@pytest.mark.parametrize(
    ("case", "unit", "text"),
    [
        (ATTENTION, "TMA", "in the main loop only role load uses it"),
        (("gemm_sum", "h200"), "TENSOR", "in the main loop nothing uses it"),
    ],
)
def test_no_order(case: Case, unit: str, text: str) -> None:
    with pytest.raises(ProgramError, match=text) as error:
        paced(case, unit)
    assert f"leave --pace {unit} away" in str(error.value)


# -- wrong programs --------------------------------------------------------------------------------


def claims(program: Program) -> set[Claim]:
    return {finding.claim for finding in all_findings(program)}


@pytest.mark.medium
def test_half_an_order_is_no_race() -> None:
    """An arrival that nobody waits for is one too many for the barrier; no data hang on it."""
    program = paced(ATTENTION, "TENSOR")
    for name in ("softmax0", "softmax1"):
        role = program.role[name]
        loop = tuple(s for s in role.loop if not s.why.startswith("pace"))
        changed = with_role(program, replace(role, loop=loop))
        assert claims(changed) == {Claim.PHASE}
        found = {finding.claim for finding in check(changed, ("execution",)).findings}
        assert found == {Claim.PHASE}


def test_a_whole_order_can_go() -> None:
    """It is there for speed. The other one alone is too much: nobody would keep arrivals apart."""
    program = paced(ATTENTION, "TENSOR")
    assert claims(unpaced(program)) == set()
    for barrier in (b for b in program.barriers if b.kind == "pace"):
        roles = tuple(without_barriers(role, {barrier.name}) for role in program.roles)
        rest = tuple(b for b in program.barriers if b != barrier)
        assert Claim.RACE not in claims(replace(program, barriers=rest, roles=roles))


@pytest.mark.parametrize("wanted", [0, 2])
def test_a_fresh_barrier_grants_nothing(wanted: int) -> None:
    program = paced(ATTENTION, "TENSOR")
    role = program.role["softmax1"]
    changed = with_role(program, replace(role, enter=(*role.budgets, *role.grants * wanted)))
    texts = [finding.text for finding in check(changed, ("graph",)).findings]
    given = [0] * wanted
    assert f"numbers {given} of 'pace QK[0] after PV[1,0]' are granted, [0] are needed" in texts


def test_granted_by_whoever_arrives() -> None:
    program = paced(ATTENTION, "TENSOR")
    (grant,) = program.role["softmax1"].grants
    store, softmax = program.role["store"], program.role["softmax1"]
    changed = with_role(program, replace(softmax, enter=softmax.budgets))
    changed = with_role(changed, replace(store, enter=(*store.budgets, grant)))
    texts = [finding.text for finding in check(changed, ("graph",)).findings]
    assert any("store grants number 0" in text for text in texts)


@pytest.mark.medium
def test_barriers_of_the_hardware_are_counted() -> None:
    program = paced(ATTENTION, "TENSOR")
    few = replace(program, capacities=replace(program.capacities, named_barriers=1))
    for method in ("graph", "z3"):
        found = {finding.claim for finding in check(few, (method,)).findings}
        assert found == {Claim.CAPACITY}

"""Meetings of several roles: where they are, that nothing less will do, and what comes of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from schedgen.benchmarks.mutants.operators_steps import lonely_meeting, without_meeting
from schedgen.benchmarks.mutants.outcomes import Outcome, judge
from schedgen.benchmarks.mutants.programs import sampled
from schedgen.benchmarks.mutants.sites import Maker
from schedgen.codegen.compiling import compile_file
from schedgen.conform.check import conform
from schedgen.driver.emulating import emulate
from schedgen.driver.inputs import default_extents
from schedgen.driver.proved import prove_solution
from schedgen.emulator.machine.policies import Adversarial, RoundRobin
from schedgen.emulator.ptx.parse import parse
from schedgen.findings import Claim
from schedgen.program.file import read_program, to_json
from schedgen.program.model import Arrive, Program, Run, Step, Wait
from schedgen.program.operations import Number
from schedgen.proof.explore import explore
from schedgen.proof.graph import prove
from schedgen.proof.smt import refute
from schedgen.schedule import Schedule
from schedgen.synchronize.layout import Layout
from schedgen.synchronize.pace import pace
from schedgen.synchronize.parts import Handoff, Meeting, Signal, Synchronization
from schedgen.synchronize.recorded import lines, synchronization
from schedgen.synchronize.synthesize import Synchronized, resynchronized, synchronized
from schedgen.synchronize.together import together
from tests.codegen.examples import ARCHITECTURES, SPECS, plan_of, solved, text_of
from tests.schedgen.synchronize.test_pacing import solution

HALVES = SPECS / "halves_of_roles.yaml"
MEETING = "half0 and half1 meet before MMA[0] and MMA[1]"
BOTH = Meeting("MMA[0]", among="roles", others=("MMA[1]",))


def program() -> Program:
    return solved(HALVES, "h200")[0].program


@cache
def found() -> Synchronized:
    solved_ = solution(str(HALVES), "h200")
    return synchronized(solved_.problem.kernel, solved_.schedule, solved_.problem.machine)


def steps(role: str) -> list[Step]:
    return list(program().role[role].loop)


# -- where roles meet ------------------------------------------------------------------------------


@pytest.mark.medium
def test_halves_of_a_tile_are_met_for() -> None:
    """In place of hand-offs, and of meetings of each role before its product."""
    barriers = program().barrier
    assert (barriers[MEETING].kind, barriers[MEETING].arrivals) == ("roles", 256)
    assert barriers[MEETING].protects == tuple(
        f"MMA[{product}] uses what FUN[{half}] of other warps did in sF"
        for half in (0, 1)
        for product in (0, 1)
    )
    assert not any("sF full" in name for name in barriers)
    assert not any(f"half{n} meets before MMA[{n}]" in barriers for n in (0, 1))
    assert pace(program()).cycles == program().ii_cycles


def test_who_waits_for_the_same_signal_still_does() -> None:
    """The role that loads has to know, too, when a map has read what it loaded."""
    assert program().barrier["sB empty"].protects == (
        "LB writes over sB after FUN[0]",
        "LB writes over sB after FUN[1]",
    )


def test_hand_offs_of_another_iteration_stay() -> None:
    """A map waits for the product of the other role two iterations before: no meeting."""
    assert program().barrier["sA empty sF empty by half0"].kind == "mbarrier"


@pytest.mark.parametrize("half", [0, 1])
def test_where_it_stands(half: int) -> None:
    """Behind the fence of what was written, and before other waits of the product."""
    actions = [step.action for step in steps(f"half{half}")]
    at = actions.index(Arrive(MEETING, Number(), 128))
    assert actions[at + 1] == Wait(MEETING, Number())
    assert actions[at + 2] == Wait("sA full", Number())
    assert actions.index(Run(f"FUN[{half}]")) < at
    (why,) = {s.why for s in steps(f"half{half}") if s.action == actions[at + 1]}
    assert why == "; ".join(
        f"MMA[{half}] uses what FUN[{n}] of other warps did in sF" for n in (0, 1)
    )


# -- where they do not -----------------------------------------------------------------------------


def layout(change: Schedule | None = None, barriers: int = 16, teams: int = 1) -> Layout:
    solved_ = solution(str(HALVES), "h200")
    made = found().program
    skeleton = replace(made, capacities=replace(made.capacities, named_barriers=barriers))
    kernel = replace(solved_.problem.kernel, teams=(("half1", teams),))
    return Layout(kernel, change or solved_.schedule, skeleton, late=True)


def handed(*without: str, ago: int = 0) -> Synchronization:
    """Hand-offs of halves and meetings of each role, as they would be, but for some products';
    ``ago``: of so many iterations before.
    """
    handoffs = (
        Handoff(Signal(f"FUN[{1 - n}]", Number(), 2), f"MMA[{n}]", Number(1, -ago), "sF", True)
        for n in (0, 1)
    )
    meetings = (Meeting(f"MMA[{n}]") for n in (0, 1))
    return Synchronization(
        tuple(h for h in handoffs if h.target not in without), meetings=tuple(meetings)
    )


def moved(operation: str, by: int) -> Schedule:
    schedule = solution(str(HALVES), "h200").schedule
    ops = (replace(o, start=o.start + by * (o.id == operation)) for o in schedule.ops)
    return replace(schedule, ops=tuple(ops))


@pytest.mark.medium
def test_it_is_found() -> None:
    assert list(together(layout(), handed())) == [BOTH]


def test_only_where_all_wait_for_all() -> None:
    assert not list(together(layout(), handed("MMA[0]")))
    assert not list(together(layout(), handed(ago=1)))


def test_only_where_the_warps_of_each_role_meet() -> None:
    made = handed()
    assert not list(together(layout(), replace(made, meetings=made.meetings[:1])))


def test_only_where_the_schedule_has_time() -> None:
    """MMA[0] would have to wait for the arrival of a role that comes later."""
    assert not list(together(layout(moved("FUN[1]", 8)), handed()))
    assert list(together(layout(moved("MMA[1]", 8)), handed()))


def test_only_as_many_as_the_hardware_has() -> None:
    """One for all threads, one for each role's own meetings, and one for both."""
    assert not list(together(layout(barriers=3), handed()))
    assert list(together(layout(barriers=4), handed()))


def test_no_teams_that_take_tiles_in_turn() -> None:
    assert not list(together(layout(teams=2), handed()))


# -- what comes of it ------------------------------------------------------------------------------


def test_recorded() -> None:
    text = list(lines(found().made))
    at = text.index("roles meeting of MMA[0] MMA[1]")
    assert text[at + 1] == "  uses_across MMA[0] FUN[0] sF"
    made = synchronization(text)
    assert made == found().made
    solved_ = solution(str(HALVES), "h200")
    kernel, machine = solved_.problem.kernel, solved_.problem.machine
    again = resynchronized(kernel, solved_.schedule, machine, made, late=found().late)
    assert (again.roles, again.barriers) == (program().roles, program().barriers)


@pytest.mark.medium
def test_what_solve_says() -> None:
    """Meetings take no mbarrier."""
    text = prove_solution(solution(str(HALVES), "h200")).lines()[0]
    assert "7 barriers in 12 mbarriers, 3 meetings of warps (1 of several roles), " in text


def test_program_file() -> None:
    assert read_program(to_json(program())) == program()


def test_text_of_the_kernel() -> None:
    """A barrier of the hardware behind those of single roles, by all threads of both."""
    text = text_of(HALVES, "h200")
    call = "cute.arch.barrier(barrier_id=3, number_of_threads=256)"
    assert text.count(f"# {MEETING}\n") == text.count(call) > 0
    assert plan_of(HALVES, "h200").numbered.of_roles == {MEETING: 3}


@pytest.mark.medium
@pytest.mark.parametrize("operator", [without_meeting, lonely_meeting])
def test_nothing_less_will_do(operator: Maker) -> None:
    """Neither without it, nor if the warps of one role meet alone."""
    changes = [(what, changed) for what, changed, _ in operator(program()) if MEETING in what]
    assert changes
    for what, changed in changes:
        for verdict in (prove(changed), refute(changed), explore(changed)):
            claims = {finding.claim for finding in verdict.findings}
            assert Claim.RACE in claims, (what, verdict.method)


@pytest.mark.medium
def test_machines_have_to_have_the_barriers() -> None:
    few = replace(program(), capacities=replace(program().capacities, named_barriers=2))
    for verdict in (prove(few), refute(few)):
        assert {finding.claim for finding in verdict.findings} == {Claim.CAPACITY}, verdict.method


@pytest.mark.medium
def test_no_mistake_survives() -> None:
    for mutant in sampled(program(), 1):
        assert judge(mutant).outcome is not Outcome.SURVIVED, mutant.what


@pytest.mark.slow
def test_compiled_code_has_it(tmp_path: Path) -> None:
    file = tmp_path / "halves.py"
    file.write_text(text_of(HALVES, "h200"), encoding="utf-8")
    module = parse(compile_file(file, tmp_path, sms=132).ptx.read_text("utf-8"))
    kernel = solved(HALVES, "h200")[1]
    assert conform(module, program(), kernel).holds
    for operator in (without_meeting, lonely_meeting):
        for what, changed, _ in operator(program()):
            assert not conform(module, changed, kernel).holds, what


@pytest.mark.slow
@pytest.mark.parametrize("policy", [RoundRobin, lambda: Adversarial(1)], ids=["turns", "adverse"])
def test_emulated(policy: type[RoundRobin]) -> None:
    kernel = solved(HALVES, "h200")[1]
    extents, text = default_extents(kernel, {}), text_of(HALVES, "h200")
    outcome = emulate(text, kernel, ARCHITECTURES["h200"], extents=extents, policy=policy())
    assert outcome.correct, outcome.errors
    assert outcome.clean, outcome.report.text

"""Signals and waits that the schedule can do without."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from schedgen.driver.solution import solve
from schedgen.machine_file import read_machine
from schedgen.program.model import Program, Run, Wait
from schedgen.proof.explore import explore
from schedgen.proof.graph import prove
from schedgen.proof.smt import refute
from schedgen.spec.reader import parse_spec, read_spec
from schedgen.synchronize.recorded import lines, synchronization
from schedgen.synchronize.synthesize import Synchronized, synchronized

TOGETHER = "sDO full sLse full sDelta full"


@cache
def made(loads: str = "LQ, LDO, LL, LD") -> Synchronized:
    """Gradients of attention whose loads are issued in this order."""
    text = read_spec("attention_bwd").source.text.replace("[LQ, LDO, LL, LD]", f"[{loads}]")
    solution = solve(parse_spec(text), read_machine("h200"), settings={"head_dim": "128"})
    problem = solution.problem
    return synchronized(problem.kernel, solution.schedule, problem.machine)


def waits(program: Program, role: str) -> list[str]:
    """Barriers that a role waits for in an iteration, with those of its operations behind each."""
    (found,) = (each for each in program.roles if each.name == role)
    actions = [step.action for step in found.loop]
    return [
        action.barrier if isinstance(action, Wait) else action.operation
        for action in actions
        if isinstance(action, Wait | Run)
    ]


@pytest.mark.medium
def test_few_bytes_are_awaited_with_the_tile_before_them() -> None:
    program = made().program
    (barrier,) = (each for each in program.barriers if each.name == TOGETHER)
    assert (barrier.slots, barrier.arrivals, barrier.bytes) == (2, 3, 20480 + 2 * 320)
    order = waits(program, "softmax00")
    assert order.count(TOGETHER) == 1
    assert order.index(TOGETHER) < order.index("VDO[0]") < order.index("EXP[0,0]")
    assert not {"sLse full", "sDelta full"} & {each.name for each in program.barriers}


@pytest.mark.medium
def test_the_reason_of_such_a_wait_is_who_uses_it() -> None:
    (barrier,) = (each for each in made().program.barriers if each.name == TOGETHER)
    for reason in ("VDO[0] uses sDO", "LOG[0,0] uses sLse", "GRAD[0,1] uses sDelta"):
        assert any(text.startswith(reason) for text in barrier.protects)
    later = {(h.target, h.later) for h in made().made.handoffs if h.later}
    assert {("VDO[0]", "LOG[0,0]"), ("VDO[0]", "GRAD[0,0]")} <= later


@pytest.mark.medium
def test_it_is_proven() -> None:
    program = made().program
    assert prove(program).findings == ()
    assert explore(program).findings == ()
    assert refute(program).findings == ()


@pytest.mark.medium
def test_nothing_is_awaited_with_what_comes_before_another_tile() -> None:
    """sQ, sLse, sDO, sDelta: who waits for Q does not wait for the row sums behind dO."""
    names = {each.name for each in made("LQ, LL, LDO, LD").program.barriers}
    assert not any("sQ full" in name and "sDelta" in name for name in names)


@pytest.mark.medium
def test_only_loads_that_the_spec_has_in_one_order() -> None:
    """Factors of blocks have few bytes, too, and come beside tiles."""
    solution = solve(read_spec("gemm_fp8_blocks"), read_machine("h200"), settings={"dtype": "e4m3"})
    problem = solution.problem
    found = synchronized(problem.kernel, solution.schedule, problem.machine)
    assert found.made.handoffs
    assert not any(each.later for each in found.made.handoffs)


@pytest.mark.medium
def test_without_a_load_on_the_barrier_there_is_a_race() -> None:
    program = made().program
    roles = tuple(
        replace(
            role,
            loop=tuple(
                step
                for step in role.loop
                if not (isinstance(step.action, Wait) and step.action.barrier == TOGETHER)
            ),
        )
        for role in program.roles
    )
    broken = replace(program, roles=roles)
    assert prove(broken).findings
    assert refute(broken).findings


def test_it_is_kept_as_text() -> None:
    text = list(lines(made().made))
    assert any(line.endswith("for LOG[0,0]") for line in text)
    assert synchronization(text) == replace(made().made, slots=synchronization(text).slots)


@pytest.mark.parametrize("line", ["LL c of 2 -> VDO[0] c uses sLse"])
def test_locks_of_before_have_no_later_user(line: str) -> None:
    (handoff,) = synchronization([line]).handoffs
    assert handoff.later == ""

"""FlashAttention-4's hand-written synchronization is proven, and ours asks for no more than it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3]))  # benchmarks are no part of the installation

from benchmarks.fa4_compare import (
    LEFT_OUT,
    arrays,
    counterparts,
    family,
    prove_filled,
    reason,
    translated,
    waits_per_iteration,
    words,
)
from benchmarks.fa4_program import STAGES, fa4_program, in_hardware, our_program
from schedgen.findings import Claim, Verdict
from schedgen.ordering.orders import Orders
from schedgen.program.model import Barrier, Program, RoleProgram, Step, Wait, When
from schedgen.proof.explore import explore
from schedgen.proof.graph import prove

FILLED = ((1,), (2,), (1, 1, 1), (2, 1), (3, 4), (2, 2, 2), (5, 1, 3))


@pytest.fixture(scope="module")
def ours() -> Program:
    return our_program()


@pytest.fixture(scope="module")
def fa4(ours: Program) -> Program:
    return fa4_program(ours)


@pytest.fixture(scope="module")
def as_written(ours: Program) -> Program:
    return fa4_program(ours, empty_tiles=False)


def barriers_at_fault(verdict: Verdict) -> set[str]:
    assert {finding.claim for finding in verdict.findings} == {Claim.PHASE}
    return {finding.subject[0] for finding in verdict.findings}


@pytest.mark.medium
def test_fa4_is_proven(fa4: Program) -> None:
    assert prove(fa4).findings == ()
    assert explore(fa4).findings == ()


def test_ours_is_proven(ours: Program) -> None:
    assert prove(ours).findings == ()


@pytest.mark.medium
def test_as_written_only_empty_tiles_are_wrong(as_written: Program) -> None:
    assert prove_filled(as_written).findings == ()
    assert explore(as_written, FILLED).findings == ()
    accumulators = {f"o_acc[{s}] full" for s in STAGES}
    assert barriers_at_fault(prove(as_written)) == accumulators
    assert barriers_at_fault(explore(as_written, [(0, 0, 0, 0)])) == accumulators


def loop_waits(program: Program) -> list[tuple[str, Step]]:
    return [
        (role.name, step)
        for role in program.roles
        for step in role.loop
        if isinstance(step.action, Wait) and step.guard.kind is When.EVERY
    ]


def without(program: Program, name: str, step: Step) -> Program:
    def less(role: RoleProgram) -> RoleProgram:
        return replace(role, loop=tuple(other for other in role.loop if other is not step))

    roles = tuple(less(role) if role.name == name else role for role in program.roles)
    return replace(program, roles=roles)


@pytest.mark.slow
def test_every_wait_of_an_iteration_is_needed(as_written: Program) -> None:
    """So little is left to remove in FA4; and filled tiles hide no mistake from the graph."""
    waits = loop_waits(as_written)
    assert len(waits) == 14
    for name, step in waits:
        assert prove_filled(without(as_written, name, step)).findings, step.action


def test_statistics_are_released_in_time_without_a_wait_for_it(fa4: Program) -> None:
    """Only INV, behind the loop, needs the wait for `sm_stats empty` that every iteration has."""
    for name, step in loop_waits(fa4):
        if isinstance(step.action, Wait) and step.action.barrier.startswith("sm_stats[0] empty"):
            found = prove(without(fa4, name, step)).findings
            races = [finding for finding in found if finding.claim is Claim.RACE]
            assert [race.subject[:2] for race in races] == [("CR[0]", "INV[0]")]


def test_ours_needs_no_more(ours: Program, fa4: Program) -> None:
    assert waits_per_iteration(fa4) == 14
    assert waits_per_iteration(ours) == 12
    assert arrays(ours.barriers) <= arrays(fa4.barriers)
    assert sum(b.slots for b in ours.barriers) <= sum(b.slots for b in fa4.barriers)


def test_fa4_has_the_barriers_of_its_table(fa4: Program) -> None:
    counts = {family(barrier.name): barrier.arrivals for barrier in in_hardware(fa4.barriers)}
    assert counts == {
        "load_Q[s] full": 1,
        "load_Q[s] empty": 1,
        "load_KV full": 1,
        "load_KV empty": 1,
        "s_p_o[s] full": 1,
        "s_p_o[s] empty": 256,
        "p_lastsplit[s] full": 4,
        "o_acc[s] full": 1,
        "sm_stats[s] full": 128,
        "sm_stats[s] empty": 128,
        "o_epi[s] full": 128,
        "o_epi[s] empty": 32,
    }
    listed = in_hardware(fa4.barriers)
    assert (words(listed, "mbarrier"), words(listed, "named"), arrays(listed)) == (24, 2, 12)


@pytest.mark.parametrize("left_out", LEFT_OUT)
def test_waits_are_left_out_for_the_same_reason(left_out: str, ours: Program, fa4: Program) -> None:
    names = counterparts(ours, fa4)
    for stage in STAGES:
        mine = reason(Orders(ours), left_out, stage)
        theirs = reason(Orders(fa4), left_out, stage)
        assert tuple(translated(step, names) for step in mine) == theirs


def test_no_order_no_reason(fa4: Program) -> None:
    wait = next(s for name, s in loop_waits(fa4) if name == "softmax0")
    with pytest.raises(ValueError, match="nothing makes sure that PV"):
        reason(Orders(without(fa4, "softmax0", wait)), "O is complete", 0)
    nobody = replace(fa4, roles=tuple(replace(role, loop=()) for role in fa4.roles))
    with pytest.raises(ValueError, match="there are 0 reasons"):
        reason(Orders(nobody), "O is complete", 0)


def test_the_ring_is_that_of_fa4(ours: Program) -> None:
    allocations = tuple(replace(s, slots=2) if s.name == "kv" else s for s in ours.allocations)
    with pytest.raises(ValueError, match="ring of 3"):
        fa4_program(replace(ours, allocations=allocations))


def test_families() -> None:
    assert family("softmax1: PV[1,0] S[0]") == "softmax_s: PV[s,0] S[s]"
    pair = [Barrier(f"x[{s}]", "mbarrier", 2, 1, 0) for s in STAGES]
    assert (arrays(pair), words(pair, "mbarrier"), words(pair, "named")) == (1, 4, 0)

"""Documented bugs of real kernels, each in the smallest program that has it.

Names and numbers are those of the bug collection. Not here, because no program can say it: fences
after initializing barriers (P5, P25), tensor maps (P18, P24), allocation of tensor memory and peer
CTAs (P19, P20, P27), part of the lanes (P8), and instructions for part of a warpgroup (P12).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from schedgen.benchmarks.mutants.sites import with_barrier, with_role
from schedgen.findings import Claim
from schedgen.program.model import (
    LAST,
    Arrive,
    Capacities,
    Commit,
    Fence,
    FenceKind,
    Guard,
    Program,
    Wait,
    WaitGroup,
    When,
)
from schedgen.program.operations import Number
from schedgen.proof.explore import explore
from schedgen.proof.graph import prove
from schedgen.proof.smt_static import capacities
from tests.schedgen.program.examples import gemm
from tests.schedgen.proof.patterns import (
    PROXY,
    from_registers,
    rendezvous,
    staged,
    statistics,
    the,
    through_tensor_memory,
    two_warpgroups,
)
from tests.schedgen.proof.small import EACH, TILE

RACE, PHASE, DEADLOCK, COUNT = Claim.RACE, Claim.PHASE, Claim.DEADLOCK, Claim.COUNT

CORRECT: tuple[Program, ...] = (
    *(staged(1), staged(2), from_registers(), through_tensor_memory(), statistics(8)),
    *(rendezvous(), two_warpgroups(), gemm(2)),
)


@pytest.mark.parametrize("correct", CORRECT)
def test_without_the_bug(correct: Program) -> None:
    for verdict in (prove(correct), explore(correct)):
        assert verdict.proven, verdict.findings


def p1() -> Program:
    return the(staged(1), "math", PROXY).without()


def p2() -> Program:
    return the(staged(2), "math", PROXY).without()


def p3() -> Program:
    return the(from_registers(), "math", PROXY).without()


def p4() -> Program:
    """The barrier comes before the fence."""
    fence = the(gemm(2), "epilogue", PROXY)
    return fence.behind(fence.place + 1)


def p6() -> Program:
    return the(gemm(2), "epilogue", PROXY).without()


def p7() -> Program:
    stored = Fence(FenceKind.TMEM_STORED)
    return the(through_tensor_memory(), "softmax", stored).without()


def p9() -> Program:
    return statistics(0)


def p10() -> Program:
    """The wait is for a phase that is already complete."""
    wait = Wait("sA full", EACH)
    return the(gemm(2), "tensor", wait).does(replace(wait, number=EACH.moved(-2)))


def p11() -> Program:
    """The barrier counts on two warps, there are four."""
    found = gemm(2)
    return with_barrier(found, replace(found.barrier["sD full"], arrivals=64))


def p13() -> Program:
    """Half of the bytes are announced."""
    arrive = Arrive("sA full", EACH, 1, 16384)
    return the(gemm(2), "load", arrive).does(replace(arrive, bytes=8192))


def p14() -> Program:
    """In a tile without iterations one role arrives and goes on, without waiting."""
    wait = the(rendezvous(), "b", Wait("meet", TILE))
    return wait.instead(replace(wait.step, guard=Guard(When.FIRST, 1)))


def p15() -> Program:
    """One role does not take part in the hand-off of an empty tile."""
    commit = the(gemm(2), "tensor", Commit("acc full", TILE))
    return commit.instead(replace(commit.step, guard=replace(LAST, low=1)))


def p16() -> Program:
    """A wait outside of its loop: one more than there are arrivals."""
    wait = the(gemm(2), "store", Wait("sD full", TILE))
    return wait.instead(wait.step, replace(wait.step, action=Wait("sD full", TILE.moved(1))))


def p17() -> Program:
    """Those that overwrite the source do not hear that the store has read it."""
    return the(gemm(2), "epilogue", Wait("sD empty", TILE.moved(-1))).without()


def p17_wait_group() -> Program:
    """The store has not been waited for when its source is given back."""
    return the(gemm(2), "store", WaitGroup("ST")).without()


def p21() -> Program:
    """Tensor memory is written while committed work still uses it."""
    return the(through_tensor_memory(), "softmax", Wait("P empty", EACH.moved(-1))).without()


def p22() -> Program:
    """The next copy does not wait for the other warpgroup."""
    return the(two_warpgroups(), "load", Wait("empty 1", EACH.moved(-2))).without()


def p23() -> Program:
    return the(gemm(2), "epilogue", Fence(FenceKind.TMEM_LOADED)).without()


def p26() -> Program:
    """The phase follows the loop counter, although every iteration has another barrier."""
    wait = Wait("sA full", EACH)
    return the(gemm(2), "tensor", wait).does(Wait("sA full", Number(2)))


@pytest.mark.parametrize(
    ("bug", "claims"),
    [
        (p1, {RACE}),
        (p2, {RACE}),
        (p3, {RACE}),
        (p4, {RACE}),
        (p6, {RACE}),
        (p7, {RACE}),
        (p9, {RACE}),
        (p10, {RACE, PHASE}),
        (p11, {COUNT}),
        (p13, {COUNT, DEADLOCK}),
        (p14, {PHASE}),
        (p15, {COUNT, DEADLOCK}),
        (p16, {DEADLOCK}),
        (p17, {RACE}),
        (p17_wait_group, {RACE}),
        (p21, {RACE}),
        (p22, {RACE}),
        (p23, {RACE}),
        (p26, {DEADLOCK, COUNT, PHASE}),
    ],
)
def test_bug(bug: Callable[[], Program], claims: set[Claim]) -> None:
    for verdict in (prove(bug()), explore(bug())):
        found = {finding.claim for finding in verdict.findings}
        assert found & claims, (verdict.method, verdict.findings)


def test_p12_more_registers_than_the_pool_has() -> None:
    found = gemm(2)
    role = replace(found.role["epilogue"], registers=240)
    for changed in (
        with_role(found, replace(role, registers=256)),
        replace(with_role(found, role), capacities=Capacities(232448, 512, 256, 248, 16)),
    ):
        assert {finding.claim for finding in prove(changed).findings} == {Claim.CAPACITY}
        assert list(capacities(changed))


def test_p9_as_addresses() -> None:
    found = gemm(2)
    allocations = tuple(
        replace(allocation, address=allocation.address - 16384)
        if allocation.name == "sD"
        else allocation
        for allocation in found.allocations
    )
    changed = replace(found, allocations=allocations)
    assert {finding.claim for finding in prove(changed).findings} == {Claim.CAPACITY}
    assert list(capacities(changed))

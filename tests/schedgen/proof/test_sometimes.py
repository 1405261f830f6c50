"""Steps that do not always happen prove nothing: mutants that the graph method once let pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from schedgen.findings import Claim
from schedgen.kernel import Space
from schedgen.program.model import (
    EVERY,
    FIRST,
    LAST,
    Arrive,
    Barrier,
    Fence,
    FenceKind,
    Guard,
    Program,
    Run,
    Step,
    Wait,
    WaitGroup,
    When,
)
from schedgen.program.operations import Engine
from schedgen.proof.explore import explore
from schedgen.proof.graph import prove
from tests.schedgen.proof.patterns import (
    barrier,
    program,
)
from tests.schedgen.proof.small import EACH, TILE, access, loop, operation

PHASE = Claim.PHASE


def conditional(guard: Guard) -> Program:
    """A role that runs ahead looks at a barrier in some iterations only."""
    return program(
        {
            "load": loop(
                Wait("seen", EACH.moved(-1)),
                Arrive("go", EACH, 1),
                Wait("empty", EACH.moved(-1)),
                Arrive("full", EACH, 1, 16),
                Run("LOAD", "full", EACH, 16),
            ),
            "math": loop(Wait("full", EACH), Arrive("empty", EACH, 1)),
            "watch": loop(
                Wait("go", EACH), Step(Wait("full", EACH), guard=guard), Arrive("seen", EACH, 1)
            ),
        },
        (barrier("full", size=16), barrier("empty"), barrier("go"), barrier("seen")),
        (operation("LOAD", Engine.COPY_IN),),
        (),
    )


def fenced(guard: Guard) -> Program:
    """Threads scale an accumulator in registers that a wgmma adds to."""
    return program(
        {
            "math": loop(
                Run("SCALE"),
                Step(Fence(FenceKind.REGISTERS), guard=guard),
                Run("MMA"),
                WaitGroup("MMA"),
            )
        },
        (),
        (
            operation("SCALE", Engine.THREADS, access("r", 0, write=True, number=TILE)),
            operation("MMA", Engine.WGMMA, access("r", 1, write=True, number=TILE)),
        ),
        (("r", Space.REGISTERS, 1),),
    )


SOMETIMES = (Guard(When.EVERY, 1), Guard(When.EVERY, 0, 1), FIRST, LAST, Guard(When.FIRST, 1))


@pytest.mark.parametrize("build", [conditional, fenced])
@pytest.mark.parametrize("guard", SOMETIMES)
def test_a_step_that_does_not_always_happen(
    build: Callable[[Guard], Program], guard: Guard
) -> None:
    assert prove(build(EVERY)).proven
    assert explore(build(EVERY)).proven
    assert not prove(build(guard)).proven
    assert not explore(build(guard)).proven


def observed(kind: str) -> Program:
    """Only one of the two roles that arrive sees each phase before its next arrival."""
    return program(
        {
            "p": loop(Wait("empty", EACH.moved(-1)), Arrive("full", EACH, 1)),
            "c": loop(Wait("full", EACH), Arrive("empty", EACH, 1)),
            "d": loop(Arrive("full", EACH, 1), Wait("full", EACH)),
        },
        (Barrier("full", kind, 1, 2, 0), barrier("empty")),
        (),
        (),
    )


def test_at_a_named_barrier_everybody_has_to_be_seen() -> None:
    assert prove(observed("mbarrier")).proven
    for verdict in (prove(observed("named")), explore(observed("named"))):
        assert {finding.claim for finding in verdict.findings} == {PHASE}


def late(slots: int) -> Program:
    """A ring that starts with number 1: number 0 is complete from the start."""
    first = EACH.moved(1)
    return program(
        {
            "p": loop(Wait("empty", first.moved(-2)), Arrive("full", first, 1)),
            "c": loop(Wait("full", first), Arrive("empty", first, 1)),
        },
        (
            Barrier("full", "mbarrier", 2, 1, 0, (0,)),
            Barrier("empty", "mbarrier", slots, 1, 0, (0,)),
        ),
        (),
        (),
    )


def test_a_wait_for_the_phase_before_one_that_is_skipped() -> None:
    assert prove(late(2)).proven
    assert explore(late(2)).proven
    assert not prove(late(1)).proven
    assert not explore(late(1)).proven

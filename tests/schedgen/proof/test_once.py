"""Operations of the loop that run in the first or last iteration of a tile alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedgen.findings import Claim
from schedgen.kernel import Space
from schedgen.program.model import FIRST, LAST, Action, Arrive, Guard, Program, Run, Step, Wait
from schedgen.program.operations import Engine
from schedgen.proof.explore import explore
from schedgen.proof.graph import prove
from schedgen.proof.smt import refute
from tests.schedgen.proof.patterns import PROXY, barrier, program
from tests.schedgen.proof.small import EACH, TILE, access, loop, operation


def first(action: Action, shift: int = 0) -> Step:
    return Step(action, shift, FIRST)


def loaded(shift: int = 0, waits: int = 0, at: Guard = FIRST) -> Program:
    """What a tile has once is loaded behind the first of what each iteration has, and read in all
    iterations. ``shift``: of that load; ``waits``: of the wait for it; ``at``: where it is loaded.
    """
    return program(
        {
            "load": loop(
                Wait("empty", EACH.moved(-2)),
                Arrive("full", EACH, 1, 16),
                Run("LOAD", "full", EACH, 16),
                first(Wait("once empty", TILE.moved(-1)), shift),
                first(Arrive("once full", TILE, 1, 16), shift),
                Step(Run("ONCE", "once full", TILE, 16), shift, at),
            ),
            "math": loop(
                first(Wait("once full", TILE), waits),
                Wait("full", EACH),
                Run("READ"),
                PROXY,
                Arrive("empty", EACH, 32),
                Step(Arrive("once empty", TILE, 32), 0, LAST),
            ),
        },
        (
            barrier("full", 2, size=16),
            barrier("empty", 2, 32),
            barrier("once full", size=16),
            barrier("once empty", arrivals=32),
        ),
        (
            operation("LOAD", Engine.COPY_IN, access("s", 0, write=True)),
            operation("ONCE", Engine.COPY_IN, access("o", 0, write=True, number=TILE)),
            operation("READ", Engine.THREADS, access("s", 1), access("o", 1, number=TILE)),
        ),
        (("s", Space.SMEM, 2), ("o", Space.SMEM, 1)),
    )


@pytest.mark.parametrize("shift", [0, 1])
def test_it_may_be_loaded_between_turns(shift: int) -> None:
    found = loaded(shift)
    for verdict in (prove(found), refute(found), explore(found)):
        assert verdict.proven, (verdict.method, verdict.findings)


def without(found: Program, gone: Action) -> Program:
    roles = (
        replace(role, loop=tuple(step for step in role.loop if step.action != gone))
        for role in found.roles
    )
    return replace(found, roles=tuple(roles))


WRONG = {
    "nobody waits for it": without(loaded(), Wait("once full", TILE)),
    "nobody waits until it is read": without(loaded(), Wait("once empty", TILE.moved(-1))),
    "the first turn reads it before it is waited for": loaded(waits=1),
    "it is loaded at the end": loaded(at=LAST),
}


@pytest.mark.medium
@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_seen_by_all_methods(name: str) -> None:
    for verdict in (prove(WRONG[name]), refute(WRONG[name]), explore(WRONG[name])):
        assert not verdict.proven, verdict.method
        if "loaded at the end" not in name:
            assert any(finding.claim is Claim.RACE for finding in verdict.findings)

"""Waits and arrivals: the barrier and the parity that a running number means."""

from __future__ import annotations

import re

import pytest

from schedgen.codegen.errors import EmitError
from schedgen.codegen.library import COMMON
from schedgen.codegen.running import Iteration
from schedgen.codegen.source import Source
from schedgen.codegen.steps import Barriers
from schedgen.program.model import Arrive, RoleProgram, Wait
from schedgen.program.operations import Number
from tests.codegen.dsl import library, value
from tests.codegen.examples import GEMM, plan_of

PLAN = plan_of("gemm", "b200", **GEMM)
RING = next(b for b in PLAN.program.barriers if b.slots > 2)
WARP, GROUP = RoleProgram("one", 1, 24), RoleProgram("four", 4, 64)


def line(barriers: Barriers, action: Wait | Arrive, role: RoleProgram = GROUP) -> list[str]:
    source = Source()
    if isinstance(action, Wait):
        barriers.wait(source, action, Iteration("", 1))
    else:
        barriers.arrive(source, role, action, Iteration("", 1))
    return source.lines


@pytest.mark.parametrize("offset", [-RING.slots, -1, 0, 1])
def test_wait(offset: int) -> None:
    """Slot n mod d, parity of n // d; for numbers before the first one too."""
    barriers = Barriers(PLAN)
    (text,) = line(barriers, Wait(RING.name, Number(1, offset)))
    found = re.fullmatch(r"cute\.arch\.mbarrier_wait\((.*), (phase\(.*\))\)", text)
    assert found is not None
    for first in range(2 * RING.slots):
        names = library(COMMON) | {barriers.name(RING.name): 0, "first": first}
        number = first + 1 + offset
        assert value(found[1], names) == number % RING.slots
        assert value(found[2], names) == number // RING.slots % 2


def test_arrivals() -> None:
    """All threads of a warpgroup, or one of a warp; bytes are announced by one thread."""
    barriers = Barriers(PLAN)
    assert "elect_one" not in line(barriers, Arrive(RING.name, Number(), 128))[0]
    one = line(barriers, Arrive(RING.name, Number(), 1, 4096), WARP)
    assert one[0] == "with cute.arch.elect_one():"
    assert "expect_tx" in one[1]
    assert one[1].endswith(", 4096)")


@pytest.mark.parametrize(("count", "role"), [(64, GROUP), (2, WARP), (1, GROUP)])
def test_other_arrivals(count: int, role: RoleProgram) -> None:
    with pytest.raises(EmitError, match=rf"{count} arrivals of {32 * role.warps} threads"):
        line(Barriers(PLAN), Arrive(RING.name, Number(), count), role)


def test_initialization() -> None:
    """Every slot, with what it protects in words; skipped numbers are arrived at in advance."""
    source = Source()
    for barrier in PLAN.program.barriers:
        Barriers(PLAN).initialize(source, barrier, barrier.arrivals)
    text = source.text
    for barrier in PLAN.program.barriers:
        name = Barriers(PLAN).name(barrier.name)
        assert f"cute.arch.mbarrier_init({name} + i, {barrier.arrivals})" in text
        assert text.count(f"mbarrier_wait({name}") == len(barrier.skipped)

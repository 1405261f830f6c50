"""Documented bugs of real kernels, each in the smallest program that has it.

Names and numbers are those of the bug collection. Not here, because no program can say it: fences
after initializing barriers (P5, P25), tensor maps (P18, P24), allocation of tensor memory and peer
CTAs (P19, P20, P27), part of the lanes (P8), and instructions for part of a warpgroup (P12).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from schedgen.kernel import Space
from schedgen.program.model import (
    EVERY,
    FIRST,
    LAST,
    Action,
    Arrive,
    Barrier,
    Capacities,
    Commit,
    Drain,
    Engine,
    Fence,
    FenceKind,
    Guard,
    Number,
    Program,
    Run,
    Step,
    Store,
    TileOperation,
    Wait,
)
from schedgen.proof.explore import explore
from schedgen.proof.graph import prove
from schedgen.proof.mutate import Site, sites, with_barrier, with_role
from schedgen.proof.report import Claim
from schedgen.proof.smt_static import capacities
from tests.schedgen.program.examples import MACHINE, gemm
from tests.schedgen.proof import small
from tests.schedgen.proof.small import EACH, TILE, access, loop, operation

RACE, PHASE, DEADLOCK, COUNT = Claim.RACE, Claim.PHASE, Claim.DEADLOCK, Claim.COUNT
PROXY = Fence(FenceKind.ASYNC_PROXY)


def program(
    roles: dict[str, tuple[Step, ...]],
    barriers: tuple[Barrier, ...],
    operations: tuple[TileOperation, ...],
    stores: tuple[tuple[str, Space, int], ...],
) -> Program:
    """A small program whose stores lie one behind the other."""
    found = small.program(roles, barriers, operations)
    address = {Space.SMEM: 1024, Space.TMEM: 0, Space.REGISTERS: -1}
    listed: list[Store] = []
    for name, space, slots in stores:
        size = slots * (4 if space is Space.TMEM else 16)
        listed.append(Store(name, space, slots, 1, 16, address[space], size))
        if space is not Space.REGISTERS:
            address[space] += size
    return replace(found, stores=tuple(listed), capacities=MACHINE)


def barrier(name: str, slots: int = 1, arrivals: int = 1, size: int = 0) -> Barrier:
    return Barrier(name, "mbarrier", slots, arrivals, size)


def the(found: Program, role: str, wanted: Action) -> Site:
    """The step of a role with an action."""
    return next(s for s in sites(found) if s.role.name == role and s.action == wanted)


def staged(depth: int) -> Program:
    """Bulk copies fill stages that threads read and give back."""
    return program(
        {
            "load": loop(
                Wait("empty", EACH.moved(-depth)),
                Arrive("full", EACH, 1, 16),
                Run("LOAD", "full", EACH, 16),
            ),
            "math": loop(Wait("full", EACH), Run("READ"), PROXY, Arrive("empty", EACH, 32)),
        },
        (barrier("full", depth, size=16), barrier("empty", depth, 32)),
        (
            operation("LOAD", Engine.COPY_IN, access("s", 0, write=True)),
            operation("READ", Engine.THREADS, access("s", 1)),
        ),
        (("s", Space.SMEM, depth),),
    )


def from_registers() -> Program:
    """A warpgroup stores a tile to shared memory, and multiplies from there."""
    return program(
        {"math": loop(Run("STS"), PROXY, Run("MMA"), Drain("MMA"))},
        (),
        (
            operation("STS", Engine.THREADS, access("s", 0, write=True)),
            operation("MMA", Engine.WGMMA, access("s", 1)),
        ),
        (("s", Space.SMEM, 1),),
    )


def through_tensor_memory() -> Program:
    """Threads store an operand to tensor memory, the tensor core uses it."""
    after, before = Fence(FenceKind.TMEM_AFTER), Fence(FenceKind.TMEM_BEFORE)
    return program(
        {
            "softmax": loop(
                Wait("P empty", EACH.moved(-1)),
                after,
                Run("STP"),
                Fence(FenceKind.TMEM_STORED),
                before,
                Arrive("P full", EACH, 128),
            ),
            "tensor": loop(Wait("P full", EACH), after, Run("PV"), Commit("P empty", EACH)),
        },
        (barrier("P full", arrivals=128), barrier("P empty")),
        (
            operation("STP", Engine.THREADS, access("P", 0, write=True)),
            operation("PV", Engine.TENSOR, access("P", 1)),
        ),
        (("P", Space.TMEM, 1),),
    )


def statistics(offset: int) -> Program:
    """Two warpgroups leave row maxima in one array, the second one's ``offset`` bytes on."""

    def row_max(place: int, first: int, *, write: bool = False) -> TileOperation:
        touched = replace(access("max", place, write=write), bytes=(first, first + 8))
        return operation(f"{'PUT' if write else 'GET'}{place % 2}", Engine.THREADS, touched)

    roles = {
        f"softmax{n}": loop(
            Wait(f"empty{n}", EACH.moved(-1)), Run(f"PUT{n}"), Arrive(f"full{n}", EACH, 128)
        )
        for n in range(2)
    }
    for n in range(2):
        roles[f"correction{n}"] = loop(
            Wait(f"full{n}", EACH), Run(f"GET{n}"), Arrive(f"empty{n}", EACH, 128)
        )
    return program(
        roles,
        tuple(barrier(f"{what}{n}", arrivals=128) for what in ("full", "empty") for n in range(2)),
        (
            row_max(0, 0, write=True),
            row_max(1, offset, write=True),
            row_max(2, 0),
            row_max(3, offset),
        ),
        (("max", Space.SMEM, 1),),
    )


def rendezvous() -> Program:
    """A role hands something to another one for each tile, at a named barrier."""
    roles = {
        "a": loop(Wait("back", TILE.moved(-1)), Arrive("meet", TILE, 32)),
        "b": loop(Wait("meet", TILE), Arrive("back", TILE, 32)),
    }
    once = {
        name: tuple(replace(step, guard=FIRST) for step in steps) for name, steps in roles.items()
    }
    named = Barrier("meet", "named", 1, 32, 0)
    return program(once, (named, barrier("back", arrivals=32)), (), ())


def two_warpgroups() -> Program:
    """Two warpgroups multiply from the same ring."""
    roles = {
        "load": loop(
            Wait("empty 0", EACH.moved(-2)),
            Wait("empty 1", EACH.moved(-2)),
            Arrive("full", EACH, 1, 16),
            Run("LOAD", "full", EACH, 16),
        )
    }
    for n in range(2):
        roles[f"math{n}"] = loop(
            Wait("full", EACH), Run(f"MMA{n}"), Drain(f"MMA{n}"), Arrive(f"empty {n}", EACH, 128)
        )
    return program(
        roles,
        (barrier("full", 2, size=16), barrier("empty 0", 2, 128), barrier("empty 1", 2, 128)),
        (
            operation("LOAD", Engine.COPY_IN, access("s", 0, write=True)),
            operation("MMA0", Engine.WGMMA, access("s", 1)),
            operation("MMA1", Engine.WGMMA, access("s", 2)),
        ),
        (("s", Space.SMEM, 2),),
    )


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
    return wait.instead(replace(wait.step, guard=Guard("first", 1)))


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


def p17_drain() -> Program:
    """The store has not been waited for when its source is given back."""
    return the(gemm(2), "store", Drain("ST")).without()


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
        (p17_drain, {RACE}),
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
    stores = tuple(
        replace(store, address=store.address - 16384) if store.name == "sD" else store
        for store in found.stores
    )
    changed = replace(found, stores=stores)
    assert {finding.claim for finding in prove(changed).findings} == {Claim.CAPACITY}
    assert list(capacities(changed))


# -- what the graph method once let pass -------------------------------------------------------


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
                Drain("MMA"),
            )
        },
        (),
        (
            operation("SCALE", Engine.THREADS, access("r", 0, write=True, number=TILE)),
            operation("MMA", Engine.WGMMA, access("r", 1, write=True, number=TILE)),
        ),
        (("r", Space.REGISTERS, 1),),
    )


SOMETIMES = (Guard("every", 1), Guard("every", 0, 1), FIRST, LAST, Guard("first", 1))


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

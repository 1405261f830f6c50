"""Every single mistake in a program is found, and nothing in programs without."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from schedgen.findings import Claim, Verdict
from schedgen.kernel import Space
from schedgen.program.model import (
    Action,
    Arrive,
    Barrier,
    Commit,
    Fence,
    FenceKind,
    Program,
    Run,
    Step,
    Wait,
    WaitGroup,
)
from schedgen.program.operations import Engine, Number, TileOperation
from schedgen.proof.explore import cases, exhaustive, explore
from tests.schedgen.program.examples import gemm
from tests.schedgen.proof.mutants import mutants, removals, variations
from tests.schedgen.proof.small import EACH, access, loop, operation, program


def claims(verdict: Verdict) -> set[Claim]:
    return {finding.claim for finding in verdict.findings}


def subjects(verdict: Verdict) -> set[tuple[Claim, tuple[str, ...]]]:
    return {(finding.claim, finding.subject) for finding in verdict.findings}


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_gemm(depth: int) -> None:
    verdict = explore(gemm(depth))
    assert verdict.proven, verdict.findings
    assert verdict.method == "execution"
    assert str(list(cases(gemm(depth))[-1])) in verdict.bound


RACE, PHASE, DEADLOCK, COUNT = Claim.RACE, Claim.PHASE, Claim.DEADLOCK, Claim.COUNT
REMOVED = {
    "load: wait sA empty": {RACE, PHASE},
    "load: arrive sA full": {DEADLOCK, COUNT},
    "tensor: wait acc empty": {RACE, PHASE},
    "tensor: fence TMEM_AFTER": {RACE},
    "tensor: wait sA full": {RACE, PHASE},
    "tensor: commit sA empty": {DEADLOCK},
    "tensor: commit acc full": {DEADLOCK},
    "epilogue: wait acc full": {RACE, PHASE},
    "epilogue: fence TMEM_AFTER": {RACE},
    "epilogue: wait sD empty": {RACE, PHASE},
    "epilogue: fence TMEM_LOADED": {RACE},
    "epilogue: fence TMEM_BEFORE": {RACE},
    "epilogue: arrive acc empty": {DEADLOCK},
    "epilogue: fence ASYNC_PROXY": {RACE},
    "epilogue: arrive sD full": {DEADLOCK},
    "store: wait sD full": {RACE, PHASE},
    "store: wait_group ST": {RACE},
    "store: arrive sD empty": {DEADLOCK},
}
"""What each step of the GEMM is there for. None is redundant."""


@pytest.mark.medium
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_every_step_left_out_is_found(depth: int) -> None:
    assert {name: claims(explore(mutant)) for name, mutant in removals(gemm(depth))} == REMOVED


HARMLESS = {
    # Earlier credit than the ring could give: the same as a ring with one slot.
    "load: wait sA empty, number +1",
    # More slots than needed change nothing: each has its own phases, and waits count in numbers.
    *(f"{name}: slots +1" for name in ("sA full", "sA empty", "acc full", "acc empty")),
    *(f"{name}: slots +1" for name in ("sD full", "sD empty", "sA", "acc", "sD")),
}


@pytest.mark.slow
def test_every_number_and_size_off_by_one_is_found() -> None:
    proven = {name for name, mutant in variations(gemm(2)) if explore(mutant).proven}
    assert proven == HARMLESS


@pytest.mark.medium
def test_numbers_of_counts_and_bytes() -> None:
    for name, mutant in variations(gemm(2)):
        if any(word in name for word in ("count", "bytes", "arrivals")):
            assert Claim.COUNT in claims(explore(mutant)), name


def test_a_race_can_be_followed() -> None:
    without = dict(removals(gemm(1)))["load: wait sA empty"]
    finding = next(
        finding for finding in explore(without).findings if finding.subject == ("MMA", "LA", "sA")
    )
    assert finding.text == (
        "LA of role load, tile 0, iteration 1 writing sA in sA slot 0, but MMA of role tensor, "
        "tile 0, iteration 0 reading sA in sA slot 0, is meant to come first and has not begun"
    )
    assert finding.witness[:3] == (
        "trip counts [2]",
        "1. role load, tile 0, iteration 0: arrives for sA full number 0 (slot 0) "
        "and expects 16384 bytes",
        "2. role load, tile 0, iteration 0: issues LA",
    )
    assert finding.witness[-1] == f"=> {finding.text}"


def test_a_deadlock_says_who_waits_for_whom() -> None:
    without = dict(removals(gemm(1)))["store: arrive sD empty"]
    (finding,) = explore(without).findings
    assert "role epilogue, tile 1, after the loop: waits for sD empty number 0" in finding.text
    assert "the slot is in phase 0 with 1 arrivals and 0 bytes open, and nothing is to come" in (
        finding.text
    )
    assert {"epilogue", "sD empty"} <= set(finding.subject)


# -- rules one at a time -----------------------------------------------------------------------


def ping(*, credit: int, kind: str = "mbarrier", consumers: int = 1) -> Program:
    """A producer that may be ``credit`` rounds ahead of its consumers, on one slot."""
    roles = {"p": loop(Wait("empty", EACH.moved(-credit)), Arrive("full", EACH, 1))}
    for name in ("c", "d")[:consumers]:
        roles[name] = loop(Wait("full", EACH), Arrive("empty", EACH, 1))
    barriers = (
        Barrier("full", kind, 1, 1, 0),
        Barrier("empty", "mbarrier", credit, consumers, 0),
    )
    return program(roles, barriers)


def test_a_producer_that_laps() -> None:
    assert explore(ping(credit=1)).proven
    found = subjects(explore(ping(credit=2)))
    # The consumer may find the barrier two phases on; and nobody need have seen the phase between.
    assert found == {(Claim.PHASE, ("full", "c")), (Claim.PHASE, ("full", "p"))}


def test_consumers_that_return_credit_one_by_one() -> None:
    assert explore(ping(credit=1, consumers=2)).proven
    assert explore(ping(credit=1, consumers=2, kind="named")).proven


def test_one_consumer_is_enough_but_for_named_barriers() -> None:
    roles = {
        "p": loop(Wait("empty", EACH.moved(-1)), Arrive("full", EACH, 1)),
        "c": loop(Wait("full", EACH), Arrive("empty", EACH, 1)),
        # Cannot be lapped: a phase takes an arrival after the wait for the one before.
        "d": loop(Arrive("full", EACH, 1), Wait("full", EACH)),
    }
    empty = Barrier("empty", "mbarrier", 1, 1, 0)
    assert explore(program(roles, (Barrier("full", "mbarrier", 1, 2, 0), empty))).proven
    found = subjects(explore(program(roles, (Barrier("full", "named", 1, 2, 0), empty))))
    assert found == {(Claim.PHASE, ("full", "p")), (Claim.PHASE, ("full", "d"))}


def test_a_phase_that_nobody_waits_for() -> None:
    what = program({"p": loop(Arrive("b", EACH, 1))}, (Barrier("b", "mbarrier", 1, 1, 0),))
    assert explore(what, [(1,)]).proven  # nothing comes after the last phase
    (finding,) = explore(what).findings
    assert "nobody ever waits for the phase before" in finding.text


def test_a_ring_that_starts_late() -> None:
    roles = {
        "p": loop(Arrive("full", EACH.moved(1), 1), Wait("empty", EACH)),
        "c": loop(Wait("full", EACH.moved(1)), Arrive("empty", EACH, 1)),
    }
    empty = Barrier("empty", "mbarrier", 2, 1, 0)
    late = Barrier("full", "mbarrier", 2, 1, 0, (0,))
    assert explore(program(roles, (late, empty))).proven
    found = claims(explore(program(roles, (replace(late, skipped=()), empty))))
    assert found == {Claim.PHASE, Claim.DEADLOCK}


def wgmma(*, lag: int, depth: int) -> Program:
    """Loads into a ring that a warpgroup multiplies from, one product in flight."""
    ring = EACH
    roles = {
        "load": loop(
            Wait("empty", ring.moved(-depth)),
            Arrive("full", ring, 1, 16),
            Run("L", "full", ring, 16),
        ),
        "math": loop(
            Wait("full", ring),
            Run("MUL"),
            Fence(FenceKind.REGISTERS),
            Run("MMA"),
            WaitGroup("MMA", lag),
            Arrive("empty", ring, 1),
        ),
    }
    operations = (
        operation("L", Engine.COPY_IN, access("s", 0, write=True)),
        operation("MUL", Engine.THREADS, access("r", 1, write=True)),
        operation("MMA", Engine.WGMMA, access("s", 2), access("r", 2)),
    )
    barriers = (
        Barrier("full", "mbarrier", depth, 1, 16),
        Barrier("empty", "mbarrier", depth, 1, 0),
    )
    return program(
        roles, barriers, operations, (("s", Space.SMEM, depth), ("r", Space.REGISTERS, 2))
    )


def test_wgmma() -> None:
    assert explore(wgmma(lag=0, depth=2)).proven
    # With one product in flight the slot is given back too early. Two slots of registers are enough
    # for that, but nothing awaits the last product of a tile.
    early = subjects(explore(wgmma(lag=1, depth=2), [(5,)]))
    assert early == {(Claim.RACE, ("MMA", "L", "s"))}
    late = subjects(explore(wgmma(lag=1, depth=2), [(1, 1, 1)]))
    assert late == early | {(Claim.RACE, ("MMA", "MUL", "r"))}
    for name, mutant in removals(wgmma(lag=0, depth=2)):
        assert not explore(mutant).proven, name


def shared_queue(*, ordered: bool) -> Program:
    """Two roles issue to the tensor queue; the commit of the second one frees what both read."""
    roles = {
        "a": loop(Wait("free", EACH.moved(-1)), Run("A"), Arrive("issued", EACH, 1)),
        "b": loop(Wait("issued", EACH), Run("B"), Commit("done", EACH)),
        "w": loop(Wait("done", EACH), Run("W"), Fence(FenceKind.ASYNC_PROXY)),
    }
    roles["w"] += loop(Arrive("free", EACH, 1))
    if not ordered:
        roles["b"] = loop(Run("B"), Wait("issued", EACH), Commit("done", EACH))
    operations = (
        operation("A", Engine.TENSOR, access("s", 0)),
        operation("B", Engine.TENSOR),
        operation("W", Engine.THREADS, access("s", 1, write=True)),
    )
    barriers = tuple(Barrier(name, "mbarrier", 1, 1, 0) for name in ("free", "issued", "done"))
    return program(roles, barriers, operations, (("s", Space.SMEM, 1),))


@pytest.mark.parametrize("ordered", [True, False])
def test_the_tensor_queue_of_two_roles(ordered: bool) -> None:
    verdict = explore(shared_queue(ordered=ordered))
    assert verdict.proven is ordered
    assert {finding.subject for finding in verdict.findings} <= {("A", "W", "s")}
    assert subjects(exhaustive(shared_queue(ordered=ordered), (2,))) == subjects(verdict)


# -- agreement with the enumeration of all interleavings ---------------------------------------


@pytest.mark.medium
@pytest.mark.parametrize(("depth", "trips"), [(1, (1, 1)), (2, (3,)), (1, (2, 1))])
def test_holding_back_finds_what_enumeration_finds(depth: int, trips: tuple[int, ...]) -> None:
    assert exhaustive(gemm(depth), trips).proven
    number = 0
    for name, mutant in mutants(gemm(depth)):
        assert subjects(explore(mutant, [trips])) == subjects(exhaustive(mutant, trips)), name
        number += 1
    assert number > 30


def anything(seed: int) -> Program:
    """A program of random steps, most of them wrong."""
    rng = random.Random(seed)
    engines = [*Engine, Engine.TENSOR]
    operations: list[TileOperation] = []
    for place in range(rng.randint(2, 3)):
        touched = [
            access(
                allocation, place, write=rng.random() < 0.6, number=Number(per_tile=seed % 3 == 0)
            )
            for allocation in rng.sample("str", rng.choice([1, 2]))
        ]
        operations.append(operation(f"O{place}", rng.choice(engines), *touched))
    roles: list[list[Action]] = [[] for _ in range(rng.choice([2, 2, 3]))]

    def insert(action: Action) -> None:
        role = rng.choice(roles)
        role.insert(rng.randint(0, len(role)), action)

    for what in operations:
        insert(Run(what.name))
    barriers: list[Barrier] = []
    for name in ("b", "c"):
        slots, arrivals = rng.choice([1, 1, 2]), rng.choice([1, 1, 2])
        barriers.append(Barrier(name, rng.choice(["mbarrier", "named"]), slots, arrivals, 0))
        offset = rng.choice([0, 0, -slots])
        for _ in range(arrivals):
            insert(rng.choice([Arrive(name, EACH, 1), Commit(name, EACH)]))
        for _ in range(rng.choice([1, 1, 2])):
            insert(Wait(name, EACH.moved(offset)))
    for kind in rng.sample(list(FenceKind), 3):
        insert(Fence(kind))
    allocations = (("s", Space.SMEM, 2), ("t", Space.TMEM, 1), ("r", Space.REGISTERS, 1))
    named = {f"r{place}": tuple(map(Step, steps)) for place, steps in enumerate(roles)}
    return program(named, tuple(barriers), tuple(operations), allocations)


@pytest.mark.slow
def test_the_two_searches_agree_on_random_programs() -> None:
    seen: Counter[Claim | str] = Counter()
    for seed in range(120):
        trips = ((2,), (3,), (1, 1), (2, 1))[seed % 4]
        what = anything(seed)
        try:
            every = exhaustive(what, trips, limit=3000)
        except ValueError:
            seen["too large"] += 1
            continue
        held = explore(what, [trips])
        assert subjects(held) == subjects(every), seed
        seen.update(claims(held))
    assert min(seen[claim] for claim in (Claim.RACE, Claim.PHASE, Claim.DEADLOCK)) > 20
    assert seen["too large"] < 60

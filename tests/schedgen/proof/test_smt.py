"""Z3 proves what is right, and finds what is wrong, for the right reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from schedgen.findings import Claim, Verdict
from schedgen.kernel import Space
from schedgen.program.model import (
    LAST,
    Action,
    Arrive,
    Barrier,
    Capacities,
    Commit,
    Fence,
    FenceKind,
    Program,
    RoleProgram,
    Run,
    Step,
    Wait,
    WaitGroup,
)
from schedgen.program.operations import Access, Allocation, Engine, Number, TileOperation
from schedgen.proof.smt import refute
from schedgen.proof.smt_deadlock import blocked, steady
from schedgen.proof.smt_order import add_order
from schedgen.proof.smt_window import Window
from tests.schedgen.program.examples import gemm

EACH, TILE = Number(), Number(per_tile=True)
MACHINE = Capacities(232448, 512, 512, 248, 16)


def claims(verdict: Verdict) -> set[Claim]:
    return {finding.claim for finding in verdict.findings}


def races(verdict: Verdict) -> set[tuple[str, ...]]:
    return {found.subject[:2] for found in verdict.findings if found.claim is Claim.RACE}


Change = Callable[[Step], Step | None]


def changed(program: Program, name: str, change: Change) -> Program:
    """``program`` with each step of a role changed; None removes it."""

    def each(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(new for step in steps if (new := change(step)) is not None)

    def role(old: RoleProgram) -> RoleProgram:
        parts = each(old.before), each(old.loop), each(old.after)
        return replace(old, before=parts[0], loop=parts[1], after=parts[2])

    return replace(program, roles=tuple(role(r) if r.name == name else r for r in program.roles))


def without(program: Program, name: str, action: Action) -> Program:
    assert any(step.action == action for step in program.role[name].steps)
    return changed(program, name, lambda step: None if step.action == action else step)


def instead(program: Program, name: str, action: Action, other: Action) -> Program:
    assert any(step.action == action for step in program.role[name].steps)
    return changed(program, name, lambda s: replace(s, action=other) if s.action == action else s)


def with_barrier(program: Program, barrier: Barrier) -> Program:
    barriers = tuple(barrier if b.name == barrier.name else b for b in program.barriers)
    return replace(program, barriers=barriers)


def with_slots(program: Program, allocation: str, slots: int) -> Program:
    allocations = tuple(
        replace(s, slots=slots) if s.name == allocation else s for s in program.allocations
    )
    return replace(program, allocations=allocations)


# -- a correct program ---------------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_gemm_is_proven(depth: int) -> None:
    verdict = refute(gemm(depth))
    assert verdict.findings == ()
    assert verdict.bound == ""
    assert verdict.method == "z3"


@pytest.mark.parametrize("jump", [0, 1, 2])
def test_windows_have_executions(jump: int) -> None:
    """What no execution violates would prove nothing if there were no execution."""
    window = Window(gemm(2), margin=2, span=4, jump=jump)
    add_order(window)
    solver = window.z3.SimpleSolver(ctx=window.context)
    solver.set("arith.solver", 1)
    solver.add(*window.assertions())
    inner = [cut for cut in window.cut if cut is not True]
    for cuts in (inner, [window.no(cut) for cut in inner]):
        solver.push()
        solver.add(*cuts)
        assert str(solver.check()) == "sat"
        solver.pop()


# -- a step less ---------------------------------------------------------------------------------

ACC_BACK = ("EPI", "MMA")
REMOVALS: list[tuple[str, Action, set[Claim], set[tuple[str, str]]]] = [
    ("load", Wait("sA empty", Number(1, -2)), {Claim.PHASE}, {("MMA", "LA"), ("LA", "LA")}),
    ("load", Arrive("sA full", EACH, 1, 16384), {Claim.COUNT, Claim.DEADLOCK}, set()),
    ("tensor", Wait("acc empty", TILE.moved(-1)), {Claim.PHASE}, {ACC_BACK}),
    ("tensor", Fence(FenceKind.TMEM_AFTER), set(), {ACC_BACK}),
    ("tensor", Wait("sA full", EACH), {Claim.PHASE}, {("LA", "MMA"), ("LA", "LA")}),
    ("tensor", Commit("sA empty", EACH), {Claim.COUNT, Claim.DEADLOCK}, {("MMA", "LA")}),
    ("tensor", Commit("acc full", TILE), {Claim.COUNT, Claim.DEADLOCK}, {("MMA", "EPI")}),
    ("epilogue", Wait("acc full", TILE), {Claim.PHASE}, {("MMA", "EPI")}),
    ("epilogue", Fence(FenceKind.TMEM_AFTER), set(), {("MMA", "EPI")}),
    ("epilogue", Wait("sD empty", TILE.moved(-1)), {Claim.PHASE}, {("ST", "EPI")}),
    ("epilogue", Fence(FenceKind.TMEM_LOADED), set(), {ACC_BACK}),
    ("epilogue", Fence(FenceKind.TMEM_BEFORE), set(), {ACC_BACK}),
    ("epilogue", Arrive("acc empty", TILE, 128), {Claim.COUNT, Claim.DEADLOCK}, {ACC_BACK}),
    ("epilogue", Fence(FenceKind.ASYNC_PROXY), set(), {("EPI", "ST")}),
    ("epilogue", Arrive("sD full", TILE, 128), {Claim.COUNT, Claim.DEADLOCK}, {("EPI", "ST")}),
    ("store", Wait("sD full", TILE), {Claim.PHASE}, {("EPI", "ST")}),
    ("store", WaitGroup("ST"), set(), {("ST", "EPI")}),
    ("store", Arrive("sD empty", TILE, 1), {Claim.COUNT, Claim.DEADLOCK}, {("ST", "EPI")}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("role", "action", "others", "pairs"), REMOVALS)
def test_every_step_is_needed(
    role: str, action: Action, others: set[Claim], pairs: set[tuple[str, str]]
) -> None:
    verdict = refute(without(gemm(2), role, action))
    assert others <= claims(verdict)
    assert pairs <= races(verdict)
    # A fence or a wait_group orders memory and nothing else.
    if isinstance(action, Fence | WaitGroup):
        assert claims(verdict) == {Claim.RACE}


def test_a_wait_group_before_its_operation_is_none() -> None:
    program = gemm(2)
    wait, run, wait_group, arrive = program.role["store"].after
    allocation = replace(program.role["store"], after=(wait, wait_group, run, arrive))
    verdict = refute(replace(program, roles=(*program.roles[:-1], allocation)))
    assert races(verdict) == {("ST", "EPI")}


def test_a_witness_tells_what_happens_in_order() -> None:
    verdict = refute(without(gemm(2), "store", WaitGroup("ST")))
    (finding,) = verdict.findings
    lines = "\n".join(finding.witness)
    assert finding.text == "EPI writes 'sD' in 'sD' although ST still reads it"
    assert lines.index("store, tile t+0: ST") < lines.index("epilogue, tile t+1: EPI")
    assert lines.index("epilogue, tile t+1: EPI") < lines.index("ST is complete")


# -- slots, counts, bytes and numbers ------------------------------------------------------------


@pytest.mark.medium
def test_a_store_with_fewer_slots_than_its_barriers() -> None:
    assert claims(refute(with_slots(gemm(3), "sA", 2))) == {Claim.RACE}


def test_a_store_with_more_slots_than_its_barriers_is_safe() -> None:
    program = gemm(2)
    assert refute(with_slots(program, "sA", 4)).proven


@pytest.mark.medium
def test_a_barrier_with_fewer_slots_on_one_side() -> None:
    program = gemm(3)
    verdict = refute(with_barrier(program, replace(program.barrier["sA empty"], slots=2)))
    assert Claim.PHASE in claims(verdict)


@pytest.mark.medium
def test_a_wait_for_the_wrong_turn() -> None:
    depth = 3
    right, late = (Wait("sA empty", EACH.moved(-by)) for by in (depth, depth + 1))
    verdict = refute(instead(gemm(depth), "load", right, late))
    assert ("MMA", "LA") in races(verdict)


def test_a_wait_for_a_later_iteration() -> None:
    verdict = refute(
        instead(gemm(2), "tensor", Wait("sA full", EACH), Wait("sA full", Number(1, 1)))
    )
    assert Claim.DEADLOCK in claims(verdict)


@pytest.mark.medium
def test_wrong_arrivals_and_bytes() -> None:
    program = gemm(2)
    few = with_barrier(program, replace(program.barrier["acc empty"], arrivals=256))
    assert {Claim.COUNT, Claim.DEADLOCK} <= claims(refute(few))
    more = with_barrier(program, replace(program.barrier["sA full"], bytes=8192))
    assert claims(refute(more)) == {Claim.COUNT}
    half = instead(
        program, "load", Arrive("sA full", EACH, 1, 16384), Arrive("sA full", EACH, 1, 8192)
    )
    assert {Claim.COUNT, Claim.DEADLOCK} <= claims(refute(half))


@pytest.mark.medium
def test_an_arrival_that_misses_empty_tiles() -> None:
    """A commit in the last iteration, if there is one: the epilogue of an empty tile hangs."""
    last = replace(LAST, low=1)
    program = changed(gemm(2), "tensor", lambda s: replace(s, guard=last) if s.guard == LAST else s)
    assert {Claim.COUNT, Claim.DEADLOCK} <= claims(refute(program))


# -- tiles ---------------------------------------------------------------------------------------


def two_accumulators(slots: int = 2) -> Program:
    program = instead(
        gemm(2), "tensor", Wait("acc empty", TILE.moved(-1)), Wait("acc empty", TILE.moved(-2))
    )
    for name in ("acc full", "acc empty"):
        program = with_barrier(program, replace(program.barrier[name], slots=2))
    return with_slots(program, "acc", slots)


def test_two_accumulators() -> None:
    assert refute(two_accumulators()).proven


@pytest.mark.medium
def test_two_accumulators_in_one_slot() -> None:
    assert races(refute(two_accumulators(1))) == {("EPI", "MMA")}


@pytest.mark.medium
def test_two_accumulators_without_a_wait() -> None:
    program = without(two_accumulators(), "tensor", Wait("acc empty", TILE.moved(-2)))
    assert ("EPI", "MMA") in races(refute(program))


# -- pipelines -----------------------------------------------------------------------------------


def pipeline(count: int, roles: int, depth: int) -> Program:
    """Operations in a row, each in an iteration of its own, on roles in turn."""
    size, links = 16 * depth, range(count - 1)
    allocations = [Allocation(f"r{i}", Space.SMEM, depth, 1, 16, i * 64, size) for i in links]
    operations: list[TileOperation] = []
    parts: list[list[Step]] = [[] for _ in range(roles)]
    for i in range(count):
        engine = Engine.TENSOR if i % roles == 1 else Engine.THREADS
        ring = [(i - 1, False), (i, True)][(i == 0) : 1 + (i < count - 1)]
        accesses = tuple(
            Access(f"r{r}", EACH, (0, 1), (0, 16), write, (0, 0, i), f"r{r}") for r, write in ring
        )
        operations.append(TileOperation(f"o{i}", engine, accesses, (1, 2), (1, 2)))
        waits = [
            Wait(f"empty{r}", EACH.moved(-depth)) if w else Wait(f"full{r}", EACH) for r, w in ring
        ]
        names = [f"full{r}" if write else f"empty{r}" for r, write in ring]
        actions: list[Action] = [*waits, Run(f"o{i}")]
        if engine is Engine.TENSOR:
            actions += [Commit(name, EACH) for name in names]
        else:
            actions += [Fence(FenceKind.ASYNC_PROXY), *(Arrive(name, EACH, 1) for name in names)]
        parts[i % roles][:0] = [Step(action, i // roles) for action in actions]
    barriers = [
        Barrier(f"{kind}{i}", "mbarrier", depth, 1, 0) for i in links for kind in ("full", "empty")
    ]
    return Program(
        *("pipeline", "b200", "sm_100a", "", 1, 1, MACHINE),
        allocations=tuple(allocations),
        operations=tuple(operations),
        barriers=tuple(barriers),
        roles=tuple(RoleProgram(f"R{n}", 1, 24, loop=tuple(p)) for n, p in enumerate(parts)),
    )


@pytest.mark.medium
@pytest.mark.parametrize(("count", "roles", "depth"), [(6, 3, 1), (6, 3, 2), (12, 4, 2)])
def test_a_pipeline_is_proven(count: int, roles: int, depth: int) -> None:
    assert refute(pipeline(count, roles, depth)).findings == ()


@pytest.mark.medium
def test_a_pipeline_needs_each_wait() -> None:
    program = pipeline(6, 3, 2)
    verdict = refute(without(program, "R0", Wait("full2", EACH)))
    assert ("o2", "o3") in races(verdict)
    verdict = refute(without(pipeline(3, 3, 2), "R0", Wait("empty0", EACH.moved(-2))))
    assert ("o1", "o0") in races(verdict)


def test_an_order_that_the_pipeline_gives_anyway() -> None:
    """Before R2 runs o2 again, it waits for o5 of the iteration before, which comes after o3."""
    verdict = refute(without(pipeline(6, 3, 2), "R2", Wait("empty2", EACH.moved(-2))))
    assert claims(verdict) == {Claim.PHASE}


def test_a_pipeline_with_a_lost_stage() -> None:
    """Without its shift an operation waits for one that its role runs after it."""
    program = pipeline(4, 2, 2)
    verdict = refute(changed(program, "R0", lambda step: replace(step, shift=0)))
    assert Claim.DEADLOCK in claims(verdict)


# -- phases and circles without storage ----------------------------------------------------------


def talk(*roles: tuple[Step, ...], slots: int = 1) -> Program:
    names = dict.fromkeys(
        step.action.barrier
        for steps in roles
        for step in steps
        if isinstance(step.action, Wait | Arrive)
    )
    return Program(
        *("talk", "b200", "sm_100a", "", 1, 1, MACHINE),
        allocations=(),
        operations=(),
        barriers=tuple(Barrier(name, "mbarrier", slots, 1, 0) for name in names),
        roles=tuple(RoleProgram(f"R{n}", 1, 24, loop=steps) for n, steps in enumerate(roles)),
    )


def test_a_producer_that_laps_the_waiter() -> None:
    program = talk((Step(Arrive("a", EACH, 1)),), (Step(Wait("a", EACH)),), slots=2)
    verdict = refute(program)
    assert claims(verdict) == {Claim.PHASE}
    assert {finding.subject[0] for finding in verdict.findings} == {"a"}


def test_a_waiter_that_takes_an_older_phase_for_its_own() -> None:
    """A role that waits every other time has not seen that the phase before is complete."""
    ahead = talk(
        (Step(Wait("back", EACH.moved(-1))), Step(Arrive("a", EACH, 1))),
        (Step(Wait("a", EACH)), Step(Arrive("back", EACH, 1))),
    )
    assert refute(ahead).proven
    skipping = instead(ahead, "R0", Wait("back", EACH.moved(-1)), Wait("back", EACH.moved(-2)))
    assert Claim.PHASE in claims(refute(skipping))


def test_a_circle_of_waits() -> None:
    program = talk(
        (Step(Wait("b", EACH)), Step(Arrive("a", EACH, 1))),
        (Step(Wait("a", EACH)), Step(Arrive("b", EACH, 1))),
    )
    verdict = refute(program)
    (finding,) = [found for found in verdict.findings if found.claim is Claim.DEADLOCK]
    assert set(finding.subject) == {"R0", "R1"}
    assert "R0: wait for 'b'" in finding.witness


def test_a_circle_at_the_end_of_a_tile_only() -> None:
    """In a long loop the next iteration helps out; where a tile ends, it comes too late."""
    program = talk(
        (Step(Arrive("a", EACH, 1)), Step(Wait("b", EACH), shift=1)),
        (Step(Wait("a", EACH.moved(1)), guard=replace(LAST, low=1)), Step(Arrive("b", EACH, 1))),
    )
    window = Window(program, margin=2, span=2)
    add_order(window)
    assert steady(window, 10**8)
    assert blocked(window, 10**8)


# -- capacities ----------------------------------------------------------------------------------


@pytest.mark.medium
def test_capacities() -> None:
    program = gemm(2)
    for machine in (
        replace(MACHINE, smem_bytes=60000),
        replace(MACHINE, tmem_columns=64),
        replace(MACHINE, registers_per_thread_sum=144),
        replace(MACHINE, max_registers=120),
        replace(MACHINE, warps=6),
    ):
        assert claims(refute(replace(program, capacities=machine))) == {Claim.CAPACITY}
    moved = tuple(replace(s, address=1024) if s.name == "sD" else s for s in program.allocations)
    assert claims(refute(replace(program, allocations=moved))) == {Claim.CAPACITY}


def test_a_limit_of_time_is_no_proof() -> None:
    verdict = refute(pipeline(6, 3, 2), seconds=0.0)
    assert not verdict.proven
    assert verdict.bound != ""

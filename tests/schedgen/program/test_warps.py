"""Roles as warps: which of them are divided, and what the parts touch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedgen.findings import Claim
from schedgen.kernel import Space
from schedgen.program.division import BY_THREADS, BY_WARPS
from schedgen.program.model import (
    Arrive,
    Barrier,
    Fence,
    FenceKind,
    Program,
    RoleProgram,
    Run,
    Step,
    Wait,
    WaitGroup,
)
from schedgen.program.operations import Access, Allocation, Engine, Number, Spread, TileOperation
from schedgen.program.warps import by_warps, crossings, part_of, within_warps
from schedgen.proof.explore import explore
from schedgen.proof.graph import prove
from schedgen.proof.smt import refute
from tests.schedgen.program.examples import MACHINE, gemm

EACH = Number()
ONE, OTHERS = (part.suffix for part in BY_WARPS)
THREAD, REST, _ = (part.suffix for part in BY_THREADS)
ROWS, COLUMNS = Spread("rows", 16, "fragment"), Spread("bytes", 32, "transposed")
MEETING = Barrier("math meets", "role", 1, 128, 0)


def access(place: int, *, write: bool, spread: Spread | None, allocation: str = "s") -> Access:
    return Access(allocation, EACH, (0, 64), (0, 128), write, (0, 0, place), allocation, 0, spread)


def role_of(
    first: TileOperation, second: TileOperation, *between: Step, behind: tuple[Step, ...] = ()
) -> Program:
    """One role of four warps that executes two operations in its loop."""
    steps = (Step(Run(first.name)), *between, Step(Run(second.name)), *behind)
    return Program(
        *("two", "none", "none", "", 1, 1, MACHINE),
        allocations=(
            Allocation("s", Space.SMEM, 1, 64, 128, 1024, 8192),
            Allocation("r", Space.REGISTERS, 1, 64, 128, -1, 16),
        ),
        operations=(first, second),
        barriers=(MEETING,) if any(isinstance(s.action, Wait) for s in steps) else (),
        roles=(RoleProgram("math", 4, 64, loop=steps),),
    )


def operation(name: str, engine: Engine, *accesses: Access) -> TileOperation:
    return TileOperation(name, engine, accesses, (1, 1), (1, 1))


def meeting() -> tuple[Step, Step]:
    return Step(Arrive(MEETING.name, EACH, 128)), Step(Wait(MEETING.name, EACH))


def races(program: Program) -> list[set[str]]:
    """What each of the three methods finds about races."""
    return [
        {finding.claim.name for finding in verdict.findings}
        for verdict in (prove(program), refute(program), explore(program))
    ]


WRITE = operation("PUT", Engine.THREADS, access(0, write=True, spread=ROWS))
SAME = operation("GET", Engine.THREADS, access(1, write=False, spread=ROWS))
ACROSS = operation("GET", Engine.THREADS, access(1, write=False, spread=COLUMNS))
PRODUCT = operation("MMA", Engine.WGMMA, access(1, write=False, spread=None))


def test_threads_that_keep_to_their_elements_need_nothing() -> None:
    program = role_of(WRITE, SAME)
    assert crossings(program, program.roles[0]) == []
    assert by_warps(program) is program
    assert races(program) == [set(), set(), set()]


@pytest.mark.parametrize("spread", [COLUMNS, None])
def test_other_threads_of_a_role_have_to_meet(spread: Spread | None) -> None:
    second = operation("GET", Engine.THREADS, access(1, write=False, spread=spread))
    program = role_of(WRITE, second)
    assert ("PUT", "GET", "s") in crossings(program, program.roles[0])
    assert races(program) == [{"RACE"}] * 3


OTHER_LANES = operation(
    "GET", Engine.THREADS, access(1, write=False, spread=replace(ROWS, lanes="matrices"))
)


def in_warps(number: str) -> tuple[Barrier, tuple[Step, Step]]:
    """A meeting of the threads of each warp."""
    barrier = Barrier(f"warps meet {number}", "warp", 1, 128, 0)
    return barrier, (Step(Arrive(barrier.name, EACH, 128)), Step(Wait(barrier.name, EACH)))


def with_meetings(first: TileOperation, second: TileOperation) -> Program:
    """The two operations, with a meeting of each warp behind both."""
    (once, one), (again, other) = in_warps("once"), in_warps("again")
    program = role_of(first, second)
    put, get = program.roles[0].loop
    role = replace(program.roles[0], loop=(put, *one, get, *other))
    return replace(program, barriers=(once, again), roles=(role,))


def test_threads_of_a_warp_have_to_meet() -> None:
    """The warps keep to their rows, and within them other threads read than write."""
    program = role_of(WRITE, OTHER_LANES)
    role = program.roles[0]
    assert crossings(program, role) == []
    assert within_warps(program, role) == [("PUT", "GET", "s"), ("GET", "PUT", "s")]
    assert races(program) == [{"RACE"}] * 3


def test_a_warp_that_meets_is_enough_for_its_threads() -> None:
    assert races(with_meetings(WRITE, OTHER_LANES)) == [set(), set(), set()]


@pytest.mark.parametrize("second", [ACROSS, replace(OTHER_LANES, accesses=ACROSS.accesses)])
def test_a_warp_that_meets_knows_nothing_of_others(second: TileOperation) -> None:
    assert races(with_meetings(WRITE, second)) == [{"RACE"}] * 3


def test_threads_of_a_warp_and_others_arrive_for_themselves() -> None:
    program = by_warps(with_meetings(WRITE, OTHER_LANES))
    counts = {
        role.name: [s.action.count for s in role.loop if isinstance(s.action, Arrive)]
        for role in program.roles
    }
    others = f"math{OTHERS}"
    assert counts == {f"math{THREAD}": [1, 1], f"math{REST}": [31, 31], others: []}
    assert {barrier.arrivals for barrier in program.barriers} == {32}
    (touched,) = {o.accesses[0].rows for o in program.operations if o.name.endswith(OTHERS)}
    assert touched == (16, 64)


def test_a_product_that_is_stored_asks_all_threads() -> None:
    """A store to global memory is issued by one thread, and reads what each of them wrote."""
    allocation = operation("ST", Engine.COPY_OUT, access(1, write=False, spread=None))
    fence = Step(Fence(FenceKind.ASYNC_PROXY))
    (barrier, meets), wait_group = in_warps("once"), Step(WaitGroup("ST"))
    program = replace(
        role_of(WRITE, allocation, fence, *meets, behind=(wait_group,)), barriers=(barrier,)
    )
    assert races(program) == [{"RACE"}] * 3


def test_one_meeting_orders_one_direction() -> None:
    """A tile is read across: before it is written again, the readers have to be done, too."""
    assert races(role_of(WRITE, ACROSS, *meeting())) == [{"RACE"}] * 3


def test_a_product_reads_what_its_role_wrote() -> None:
    fence = Step(Fence(FenceKind.ASYNC_PROXY))
    wait_group = Step(WaitGroup("MMA"))
    assert races(role_of(WRITE, PRODUCT, fence, behind=(wait_group,))) == [{"RACE"}] * 3
    # The fence comes first, and each thread executes it for what it wrote itself.
    late = role_of(WRITE, PRODUCT, *meeting(), fence, behind=(wait_group,))
    assert races(late) == [{"RACE"}] * 3


def test_meetings_on_both_sides_are_enough() -> None:
    fence, wait_group = Step(Fence(FenceKind.ASYNC_PROXY)), Step(WaitGroup("MMA"))
    program = role_of(WRITE, PRODUCT, fence, *meeting(), behind=(wait_group,))
    second = Barrier("math meets again", "role", 1, 128, 0)
    role = program.roles[0]
    again = (Step(Arrive(second.name, EACH, 128)), Step(Wait(second.name, EACH)))
    both = replace(
        program,
        barriers=(*program.barriers, second),
        roles=(replace(role, loop=(*role.loop, *again)),),
    )
    assert races(both) == [set(), set(), set()]


def test_parts_touch_what_their_threads_touch() -> None:
    program = by_warps(role_of(WRITE, ACROSS))
    assert [role.name for role in program.roles] == [f"math{ONE}", f"math{OTHERS}"]
    assert [role.warps for role in program.roles] == [1, 3]
    rows = {o.name: [a.rows for a in o.accesses] for o in program.operations}
    assert rows[f"PUT{ONE}"] == [(0, 16)]
    assert rows[f"PUT{OTHERS}"] == [(16, 64)]
    columns = {o.name: [a.bytes for a in o.accesses] for o in program.operations}
    assert columns[f"GET{ONE}"] == [(0, 32)]
    assert columns[f"GET{OTHERS}"] == [(32, 128)]


def test_rounds_of_four_warps_alternate() -> None:
    narrow = replace(ROWS, per_warp=8)
    first = operation("PUT", Engine.THREADS, access(0, write=True, spread=narrow))
    program = by_warps(role_of(first, ACROSS))
    rows = {o.name: [a.rows for a in o.accesses] for o in program.operations}
    assert rows[f"PUT{ONE}"] == [(0, 8), (32, 40)]
    assert rows[f"PUT{OTHERS}"] == [(8, 32), (40, 64)]


def test_registers_are_those_of_each_part() -> None:
    keep = operation(
        "PUT",
        Engine.THREADS,
        access(0, write=True, spread=ROWS),
        access(0, write=True, spread=None, allocation="r"),
    )
    program = by_warps(role_of(keep, ACROSS))
    touched = {a.allocation for o in program.operations for a in o.accesses}
    assert touched == {"s", f"r{ONE}", f"r{OTHERS}"}


def test_arrivals_are_shared_out() -> None:
    program = by_warps(role_of(WRITE, ACROSS, *meeting()))
    counts = [
        [s.action.count for s in role.loop if isinstance(s.action, Arrive)]
        for role in program.roles
    ]
    assert counts == [[32], [96]]


@pytest.mark.medium
@pytest.mark.parametrize(("count", "fine"), [(128, True), (4, True), (1, False), (32, False)])
def test_a_barrier_that_takes_few_arrivals_knows_few_threads(count: int, fine: bool) -> None:
    """Count and arrivals agree, and still not all threads that touched the tile have arrived."""
    program = gemm()
    barriers = tuple(
        replace(b, arrivals=count) if b.name == "sD full" else b for b in program.barriers
    )

    def fewer(step: Step) -> Step:
        action = step.action
        if isinstance(action, Arrive) and action.barrier == "sD full":
            return replace(step, action=replace(action, count=count))
        return step

    roles = tuple(replace(r, after=tuple(map(fewer, r.after))) for r in program.roles)
    changed = replace(program, barriers=barriers, roles=roles)
    for verdict in (prove(changed), refute(changed), explore(changed)):
        claims = {finding.claim for finding in verdict.findings}
        assert claims == set() if fine else Claim.RACE in claims


@pytest.mark.parametrize(("name", "base", "part"), [("PUT" + ONE, "PUT", ONE), ("PUT", "PUT", "")])
def test_parts_have_the_name_of_the_whole(name: str, base: str, part: str) -> None:
    assert part_of(name) == (base, part)

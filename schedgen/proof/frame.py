"""What surrounds the steps of a program: whether it is there, complete, and in order.

The methods look at what roles do for their tiles, from fresh barriers on. That barriers are made,
tensor memory is there, registers suffice, the kernel before has ended, and that nothing is left at
the end follows from the program's ``setup`` and ``teardown`` and from what roles enter and leave
with: lists without loops, so that a look at each is a proof. The rules are those of the PTX ISA
(mbarrier.init, tcgen05.alloc, setmaxnreg, griddepcontrol, cp.async.bulk.wait_group).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from schedgen.findings import Claim, Finding
from schedgen.kernel import Space
from schedgen.program.following import follows
from schedgen.program.model import (
    PRODUCTS,
    Allocate,
    AwaitKernel,
    Barrier,
    Fence,
    FenceKind,
    Finish,
    Free,
    Grant,
    Initialize,
    Meet,
    Program,
    Publish,
    RoleProgram,
    Run,
)
from schedgen.program.operations import Engine, TileOperation

_FEWEST_COLUMNS = 32
_COPIES = {Engine.COPY_IN, Engine.COPY_OUT}
_WARPS_OF_A_GROUP = 4


def _possible(columns: int, most: int) -> bool:
    """Whether so many columns can be allocated (PTX ISA, tcgen05.alloc)."""
    return columns & (columns - 1) == 0 and _FEWEST_COLUMNS <= columns <= most


def frame_findings(program: Program) -> Iterator[Finding]:
    """Everything that is wrong with it."""
    yield from _barriers(program)
    yield from _tensor_memory(program)
    yield from _registers(program)
    yield from _launch(program)
    for role in program.roles:
        yield from _ends(program, role)


def _finding(text: str, *subject: str) -> Finding:
    return Finding(Claim.FRAME, text, subject)


def _runs(program: Program, role: RoleProgram) -> list[TileOperation]:
    actions = (step.action for step in role.steps)
    return [program.operation[a.operation] for a in actions if isinstance(a, Run)]


def _engines(program: Program, role: RoleProgram) -> set[Engine]:
    return {operation.engine for operation in _runs(program, role)}


def _place(steps: Sequence[Any], kind: type) -> int | None:
    """Where the first step of a kind stands."""
    return next((place for place, step in enumerate(steps) if isinstance(step, kind)), None)


# -- barriers --------------------------------------------------------------------------------------


def _barriers(program: Program) -> Iterator[Finding]:
    """Those in memory are made once, for what they take, then published, and all threads meet."""
    mbarriers = (barrier for barrier in program.barriers if barrier.kind == "mbarrier")
    wanted = {barrier.name: barrier.arrivals for barrier in mbarriers}
    finishing = sum(Finish(Engine.TENSOR) in role.leave for role in program.roles)
    if finishing:
        wanted[PRODUCTS] = finishing
    made = [step for step in program.setup if isinstance(step, Initialize)]
    for name, arrivals in wanted.items():
        found = [step.arrivals for step in made if step.barrier == name]
        if len(found) != 1:
            times = "never" if not found else f"{len(found)} times"
            yield _finding(f"barrier '{name}' is initialized {times}", name)
        elif found[0] != arrivals:
            text = f"barrier '{name}' takes {arrivals} arrivals and is initialized for {found[0]}"
            yield _finding(text, name)
    for step in made:
        if step.barrier not in wanted:
            yield _finding(f"'{step.barrier}' is initialized, and no barrier", step.barrier)
    if wanted:
        yield from _published(program)
    for barrier in program.barriers:
        yield from _granted(program, barrier)


def _granted(program: Program, barrier: Barrier) -> Iterator[Finding]:
    """Phases of a numbered barrier that no step provides: of pace, one role grants them; the others
    have none.
    """
    granted = [
        (role, step.number)
        for role in program.roles
        for step in role.enter
        if isinstance(step, Grant) and step.barrier == barrier.name
    ]
    numbers = sorted(number for _, number in granted)
    wanted = sorted(barrier.skipped) if barrier.kind == "pace" else []
    if numbers != wanted:
        text = f"numbers {numbers} of '{barrier.name}' are granted, {wanted} are needed"
        yield _finding(text, barrier.name)
    if len({number % barrier.slots for number in numbers}) < len(numbers):
        yield _finding(f"a slot of '{barrier.name}' is granted twice", barrier.name)
    for role, number in granted:
        if 32 * role.warps != barrier.arrivals:
            text = (
                f"{role.name} grants number {number} of '{barrier.name}' with {32 * role.warps} "
                f"arrivals, it takes {barrier.arrivals}"
            )
            yield _finding(text, barrier.name)


def _published(program: Program) -> Iterator[Finding]:
    setup = program.setup
    last = max((n for n, step in enumerate(setup) if isinstance(step, Initialize)), default=-1)
    fences = [n for n, step in enumerate(setup) if isinstance(step, Publish) and n > last]
    if not fences:
        yield _finding("no fence makes the initialization of barriers known", "publish")
    elif not any(isinstance(step, Meet) for step in setup[fences[0] :]):
        yield _finding("threads use barriers without having met their initialization", "meet")


# -- tensor memory ---------------------------------------------------------------------------------


def _tensor_memory(program: Program) -> Iterator[Finding]:
    """Allocated before all threads meet; freed when all roles are done with it."""
    allocations = [
        allocation for allocation in program.allocations if allocation.space is Space.TMEM
    ]
    needed = max((allocation.address + allocation.size for allocation in allocations), default=0)
    allocated = [step.columns for step in program.setup if isinstance(step, Allocate)]
    freed = [step.columns for step in program.teardown if isinstance(step, Free)]
    if not needed and not allocated and not freed:
        return
    if len(allocated) != 1:
        yield _finding(f"tensor memory is allocated {len(allocated)} times, not once", "allocate")
    elif not _possible(allocated[0], program.capacities.tmem_columns) or allocated[0] < needed:
        text = (
            f"{allocated[0]} columns are allocated; {needed} are used, and powers of two from "
            f"{_FEWEST_COLUMNS} to {program.capacities.tmem_columns} are possible"
        )
        yield _finding(text, "allocate")
    if freed != allocated:
        yield _finding(f"columns {allocated} are allocated and {freed} freed", "free")
    yield from _address(program)
    yield from _freed(program)


def _address(program: Program) -> Iterator[Finding]:
    place = _place(program.setup, Allocate)
    if place is None or not any(isinstance(step, Meet) for step in program.setup[place:]):
        yield _finding("threads use the address of tensor memory before it is there", "meet")


def _freed(program: Program) -> Iterator[Finding]:
    """Meeting orders accesses of tensor memory only between two fences (tcgen05.fence)."""
    steps = program.teardown
    place = _place(steps, Free)
    before = steps[:place] if place is not None else ()
    meet = _place(before, Meet)
    if meet is None:
        yield _finding("tensor memory is freed before all roles are done", "meet")
    elif Fence(FenceKind.TMEM_AFTER) not in before[meet:]:
        yield _finding("no fence orders freeing tensor memory behind the meeting", "free")
    for role in program.roles:
        yield from _last_accesses(program, role)


def _last_accesses(program: Program, role: RoleProgram) -> Iterator[Finding]:
    """Those of a role are complete, and ordered before the meeting, when it leaves."""
    runs = [
        operation
        for operation in _runs(program, role)
        if any(program.allocation[a.allocation].space is Space.TMEM for a in operation.accesses)
    ]
    if not runs:
        return
    places = {step: place for place, step in enumerate(role.leave)}
    fence = places.get(Fence(FenceKind.TMEM_BEFORE))
    if fence is None:
        text = f"{role.name}: no fence orders its accesses of tensor memory before it is freed"
        yield _finding(text, role.name)
        return
    wanted: dict[Finish | Fence, str] = {}
    if any(operation.engine is Engine.TENSOR for operation in runs):
        wanted[Finish(Engine.TENSOR)] = "products"
    elif any(operation.engine is Engine.THREADS for operation in runs):
        # Products that are finished came after what threads of the same role did.
        wanted[Fence(FenceKind.TMEM_LOADED)] = "loads"
        wanted[Fence(FenceKind.TMEM_STORED)] = "stores"
    for step, what in wanted.items():
        if places.get(step, fence) >= fence:
            text = f"{role.name}: tensor memory may be freed before its {what} are complete"
            yield _finding(text, role.name)


# -- registers -------------------------------------------------------------------------------------


def _registers(program: Program) -> Iterator[Finding]:
    """Each warpgroup has what its roles need, and all of them no more than there is.

    Warps are given out from the widest role on, so that those of four begin a warpgroup.
    """
    groups: dict[int, list[RoleProgram]] = {}
    warp = 0
    for role in sorted(program.roles, key=lambda role: -role.warps):
        last = warp + role.warps * role.teams - 1
        for group in range(warp // _WARPS_OF_A_GROUP, last // _WARPS_OF_A_GROUP + 1):
            groups.setdefault(group, []).append(role)
        warp = last + 1
    have = program.capacities.registers_per_thread_sum
    entry = min(255, have // max(len(groups), 1)) // 8 * 8
    if any(role.budgets for role in program.roles):
        have = min(have, entry * len(groups))  # what the block has been launched with
    total = 0
    for roles in groups.values():
        budgets = {role.budgets for role in roles}
        if len(budgets) > 1:
            names = ", ".join(role.name for role in roles)
            yield _finding(f"{names} share a warpgroup and change its registers apart", names)
        mine = [step.registers for role in roles for step in role.budgets] or [entry]
        total += max(mine)
        yield from _budgets(roles, mine)
    if total > have:
        yield _finding(f"warpgroups take {total} registers of each thread of one, of {have}")


def _budgets(roles: list[RoleProgram], mine: list[int]) -> Iterator[Finding]:
    for role in roles:
        if min(mine) < role.registers:
            text = f"{role.name}: needs {role.registers} registers and has {min(mine)}"
            yield _finding(text, role.name)
    for count in sorted(set(mine)):
        if count % 8 or not 24 <= count <= 256:
            yield _finding(f"{roles[0].name}: no warpgroup can have {count} registers")


# -- launches and ends -----------------------------------------------------------------------------


def _launch(program: Program) -> Iterator[Finding]:
    """Roles touch global memory, so the kernel before has to have ended when they begin; where they
    wait for its tiles, when this one ends, as the next kernel takes that for a sign of both.
    """
    copies = any(operation.engine in _COPIES for operation in program.operations)
    if follows(program):
        if not any(isinstance(step, AwaitKernel) for step in program.teardown):
            text = "the kernel may end before the one whose tiles it waits for"
            yield _finding(text, "await kernel")
    elif copies and _place(program.setup, AwaitKernel) is None:
        text = "global memory is used before the kernel that wrote it has ended"
        yield _finding(text, "await kernel")


def _ends(program: Program, role: RoleProgram) -> Iterator[Finding]:
    engines = _engines(program, role)
    for engine, what in (
        (Engine.COPY_OUT, "bulk stores still read shared memory"),
        (Engine.TENSOR, "products are still in the tensor queue"),
    ):
        if engine in engines and Finish(engine) not in role.leave:
            yield _finding(f"{role.name}: {what} when the block ends", role.name)
        if engine not in engines and Finish(engine) in role.leave:
            yield _finding(f"{role.name}: finishes {engine}, which it does not use", role.name)
    registers = Fence(FenceKind.REGISTERS)
    if Engine.WGMMA in engines and registers not in role.open:
        text = f"{role.name}: no fence between initial values of registers and products"
        yield _finding(text, role.name)

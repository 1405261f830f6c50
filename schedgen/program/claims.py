"""Output tiles that CTAs claim while they work, instead of every n-th one.

The first tile of a CTA is its own number. Each further one is a ticket: the old value of a counter
in global memory, which one thread of one warp increments, behind the tiles that CTAs began with.
That thread tells it to all roles through a ring of numbers in shared memory. Number t of the ring
is the tile that comes after a CTA's t-th one; a number that no tile has ends it. So in tile t

    the role that claims    draws a ticket before its loop, tells the number right behind the loop
    every role              takes the number at the end, and goes on with it

and an atomic has the loop of a tile to arrive in. These are operations of the program like others:
`claimed` adds them with the two barriers of a ring, before anything is proven, and all methods
prove that a number is there before it is taken and taken before it is overwritten. What no order of
accesses says, that each role takes each number once, is looked up (`unclaimed`). Who is right about
the counter is in docs/adr/0025.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from schedgen.kernel import Space
from schedgen.program.model import Arrive, Barrier, Program, RoleProgram, Run, Step, Wait
from schedgen.program.operations import Access, Allocation, Engine, Number, TileOperation

RING = "tile numbers"
"""The storage; its barriers are called after it."""
SLOTS = 4
"""Numbers that are told and not yet taken by all: the role that claims is ahead of those that store
by the tiles in flight.
"""
DRAW, TELL = "draw ticket", "tell tile"
_TAKE = "take tile: "
_FULL, _EMPTY = f"{RING} full", f"{RING} empty"
_BYTES = 4
_END = 1024
"""Shared memory begins with so many bytes for barriers, at the end of which the ring is."""
_LANES = 32
_NUMBER = Number(per_tile=True)


def take(role: str) -> str:
    """The operation by which a role takes the number of its next tile."""
    return _TAKE + role


def is_claim(operation: str) -> bool:
    """Whether an operation is one of these, and none of the kernel: those have no spaces."""
    return operation in (DRAW, TELL) or operation.startswith(_TAKE)


def claims(program: Program) -> bool:
    """Whether its tiles are claimed."""
    return DRAW in program.operation


def claimant(program: Program) -> RoleProgram | None:
    """The role to claim tiles: one warp that loads in the loop, which is ahead of all others."""
    for role in program.roles:
        runs = (step.action for step in role.loop if isinstance(step.action, Run))
        engines = {program.operation[run.operation].engine for run in runs}
        if role.warps == 1 and Engine.COPY_IN in engines:
            return role
    return None


def claimed(program: Program) -> Program | None:
    """``program`` with its tiles claimed; None if it has no role that could."""
    mine = claimant(program)
    if mine is None:
        return None
    ring = Allocation(RING, Space.SMEM, SLOTS, 1, _BYTES, _END - SLOTS * _BYTES, SLOTS * _BYTES)
    takes = [_operation(take(role.name), _access(write=False)) for role in program.roles]
    return replace(
        program,
        allocations=(*program.allocations, ring),
        operations=(
            *program.operations,
            _operation(DRAW),
            _operation(TELL, _access(write=True)),
            *takes,
        ),
        barriers=(*program.barriers, *_barriers(program)),
        roles=tuple(_claiming(role, tells=role is mine) for role in program.roles),
    )


def unclaimed(program: Program) -> Iterator[str]:
    """Why roles would not work on the same tiles, in a program with operations of `claimed`: one of
    its steps is missing, elsewhere, or there twice.
    """
    names = {operation.name for operation in program.operations if is_claim(operation.name)}
    runs = [(r, s.action) for r in program.roles for s in r.steps if isinstance(s.action, Run)]
    ran = {run.operation for _, run in runs if is_claim(run.operation)}
    if not names | ran:
        return
    tellers = {role.name for role, run in runs if run.operation == TELL}
    drawers = {role.name for role, run in runs if run.operation == DRAW}
    if len(tellers) != 1 or tellers != drawers:
        yield "it is not one role that draws tickets and tells tiles"
    for role in program.roles:
        here = [_runs(section) for section in (role.before, role.loop, role.after)]
        tells = role.name in tellers | drawers
        wanted = [[DRAW] if tells else [], [], [TELL] * tells + [take(role.name)]]
        if here != wanted or (tells and _runs(role.before[:1]) != [DRAW]):
            yield f"{role.name} does not claim or take each of its tiles once"
    for name in sorted(names):
        wants = {DRAW: (), TELL: (_access(write=True),)}.get(name, (_access(write=False),))
        if program.operation[name].accesses != wants:
            yield f"'{name}' is about other numbers than that of the next tile"


def of_kernel(program: Program) -> Program:
    """``program`` with the operations of its kernel only: roles wait as before, for nothing."""
    if not claims(program):
        return program

    def kept(steps: Sequence[Step]) -> tuple[Step, ...]:
        return tuple(step for step in steps if not _runs([step]))

    return replace(
        program,
        allocations=tuple(one for one in program.allocations if one.name != RING),
        operations=tuple(one for one in program.operations if not is_claim(one.name)),
        roles=tuple(
            replace(role, before=kept(role.before), after=kept(role.after))
            for role in program.roles
        ),
    )


# -- parts -----------------------------------------------------------------------------------------


def _runs(steps: Sequence[Step]) -> list[str]:
    names = (step.action.operation for step in steps if isinstance(step.action, Run))
    return [name for name in names if is_claim(name)]


def _access(*, write: bool) -> Access:
    order = (0, 0, 0 if write else 1)
    return Access(RING, _NUMBER, (0, 1), (0, _BYTES), write, order, RING)


def _operation(name: str, *accesses: Access) -> TileOperation:
    return TileOperation(name, Engine.THREADS, accesses, (0, 0), (0, 0))


def _arrivals(role: RoleProgram) -> int:
    """Of a role that has taken a number: one of a warp that issues, all threads of others."""
    return 1 if role.warps == 1 else _LANES * role.warps


def _barriers(program: Program) -> tuple[Barrier, Barrier]:
    full = Barrier(_FULL, "mbarrier", SLOTS, 1, 0, (), ("roles take a tile after it is told",))
    empty = Barrier(
        _EMPTY,
        "mbarrier",
        SLOTS,
        sum(map(_arrivals, program.roles)),
        0,
        (),
        ("a tile is told after all roles have taken the one in its place",),
    )
    return replace(full, allocations=(RING,)), replace(empty, allocations=(RING,))


def _claiming(role: RoleProgram, *, tells: bool) -> RoleProgram:
    told = (
        Step(Wait(_EMPTY, _NUMBER.moved(-SLOTS)), why="all roles have taken the one before"),
        Step(Run(TELL)),
        Step(Arrive(_FULL, _NUMBER, 1)),
    )
    taken = (
        # The warp that tells has it written.
        *([] if tells else [Step(Wait(_FULL, _NUMBER), why="the next tile is told")]),
        Step(Run(take(role.name))),
        Step(Arrive(_EMPTY, _NUMBER, _arrivals(role))),
    )
    if not tells:
        return replace(role, after=(*role.after, *taken))
    return replace(
        role,
        before=(Step(Run(DRAW)), *role.before),
        after=(*told, *role.after, *taken),
    )

"""Output tiles that count themselves for the next kernel, or wait for those of the one before.

    count tile     behind what an output tile stores: all copies that the role issued are complete,
                   and the word of the tile says one more (`schedgen.following`)
    await tiles    before an output tile loads: its word counts all that the tile reads from

As claims and turns these are operations of the program without accesses, which `counting` and
`awaiting` add behind synthesis: other roles and barriers know nothing of them. That all loads of a
kernel that follows, and all stores of one that tells, stand on the right side of one is looked up
(`out_of_place`). What is proven of a CTA holds if each wait ends. Each does: the kernel before has
let this one begin, so all of its CTAs have, and they wait for none of this one.

Such a kernel does not begin by waiting for the end of the one before, but it does not end before
that either, so that what comes behind it still finds both ended (`schedgen.proof.frame`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from schedgen.program.model import Program, RoleProgram, Run, Step
from schedgen.program.operations import Engine, TileOperation

COUNT, AWAIT = "count tile", "await tiles"
"""Names of the operations. Those of a kernel have no spaces."""


def follows(program: Program) -> bool:
    """Whether it waits for tiles of the kernel before, and not for its end."""
    return any(operation.name == AWAIT for operation in program.operations)


def tells(program: Program) -> bool:
    """Whether it counts its tiles."""
    return any(operation.name == COUNT for operation in program.operations)


def is_following(operation: str) -> bool:
    """Whether an operation is one of these."""
    return operation in (COUNT, AWAIT)


def counting(program: Program) -> Program | None:
    """``program`` with tiles that are counted; None if more than one role stores."""
    storing = _roles(program, Engine.COPY_OUT)
    if len(storing) != 1:
        return None
    step = Step(Run(COUNT), why="all that this tile stores is there")
    roles = (
        replace(role, after=(*role.after, step)) if role in storing else role
        for role in program.roles
    )
    return _with(program, COUNT, tuple(roles))


def awaiting(program: Program) -> Program:
    """``program`` with loads that wait for tiles of the kernel before."""
    loading = _roles(program, Engine.COPY_IN)
    step = Step(Run(AWAIT), why="what this tile loads is there")
    roles = (
        replace(role, before=(step, *role.before)) if role in loading else role
        for role in program.roles
    )
    return _with(program, AWAIT, tuple(roles))


def out_of_place(program: Program) -> Iterator[str]:
    """Why a tile could be counted before it is stored, or loaded before it is counted."""
    if tells(program):
        storing = _roles(program, Engine.COPY_OUT)
        if len(storing) != 1:
            yield "it is not one role that stores, so none knows when all of a tile is there"
        for role in storing:
            if [_ran(step) for step in role.after][-1:] != [COUNT] or _times(role, COUNT) != 1:
                yield f"{role.name} does not count each tile once, behind all that it stores"
    if follows(program):
        for role in _roles(program, Engine.COPY_IN):
            if [_ran(step) for step in role.before][:1] != [AWAIT] or _times(role, AWAIT) != 1:
                yield f"{role.name} does not wait once in each tile, before all that it loads"
    for role in program.roles:
        for name, engine in ((COUNT, Engine.COPY_OUT), (AWAIT, Engine.COPY_IN)):
            if _times(role, name) and role not in _roles(program, engine):
                yield f"{role.name} has no copies that its '{name}' could be about"
    for operation in program.operations:
        if is_following(operation.name) and (
            operation.accesses or operation.engine is not Engine.THREADS
        ):
            yield f"'{operation.name}' is more than a word in global memory"


def of_kernel(program: Program) -> Program:
    """``program`` without these."""

    def kept(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(step for step in steps if not is_following(_ran(step)))

    return replace(
        program,
        operations=tuple(one for one in program.operations if not is_following(one.name)),
        roles=tuple(
            replace(role, before=kept(role.before), loop=kept(role.loop), after=kept(role.after))
            for role in program.roles
        ),
    )


# -- parts -----------------------------------------------------------------------------------------


def _with(program: Program, name: str, roles: tuple[RoleProgram, ...]) -> Program:
    made = TileOperation(name, Engine.THREADS, (), (0, 0), (0, 0))
    return replace(program, operations=(*program.operations, made), roles=roles)


def _roles(program: Program, engine: Engine) -> list[RoleProgram]:
    """Roles that issue copies to an engine."""
    found = {operation.name for operation in program.operations if operation.engine is engine}
    return [role for role in program.roles if any(_ran(step) in found for step in role.steps)]


def _times(role: RoleProgram, name: str) -> int:
    return sum(_ran(step) == name for step in role.steps)


def _ran(step: Step) -> str:
    return step.action.operation if isinstance(step.action, Run) else ""

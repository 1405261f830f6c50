"""Output tiles that add to a tensor in the order of their numbers, across CTAs.

In iteration i of a tile, the role that adds waits until the tile before has added its part there,
adds its own, and says so once these copies have been written (`schedgen.ordered`):

    await turn     a word in global memory says that the tile before has added
    ...            what the role does in this iteration, with all copies that add
    pass turn      all copies that the role issued are complete, and the word says so

Other roles and other barriers know nothing of it, so these are operations of the program without
accesses, which `in_turns` adds behind synthesis, as claims are. That each copy stands between the
two is looked up (`out_of_order`). What is proven of a CTA holds if each wait ends, however long it
takes. Each does, because the tile that it waits for has a smaller number, a CTA has one tile, and
they are started in the order of their numbers: of all that wait, the one with the smallest number
waits for none of the others (docs/adr/0030).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from schedgen.ordered import OrderedSum
from schedgen.program.model import (
    EVERY,
    Arrive,
    Program,
    RoleProgram,
    Run,
    Step,
    Wait,
    WaitGroup,
)
from schedgen.program.operations import Engine, TileOperation

_AWAIT, _PASS = "await turn: ", "pass turn: "


def await_turn(tensor: str) -> str:
    """The operation that waits for the tile before."""
    return _AWAIT + tensor


def pass_turn(tensor: str) -> str:
    """The operation that lets the next tile add."""
    return _PASS + tensor


def awaits(operation: str) -> bool:
    """Whether an operation waits for a turn."""
    return operation.startswith(_AWAIT)


def is_turn(operation: str) -> bool:
    """Whether an operation is one of these, and none of the kernel: those have no spaces."""
    return operation.startswith((_AWAIT, _PASS))


def tensor_of(operation: str) -> str:
    """What is added to in a turn."""
    return operation.partition(": ")[2]


def in_turns(program: Program, sums: Sequence[OrderedSum]) -> Program | None:
    """``program`` with its turns; None if a role does not add in one piece of its loop."""
    for one in sums:
        roles = [_taking(program, role, one) for role in program.roles]
        if sum(role is not None for role in roles) != 1:
            return None
        names = (await_turn(one.tensor), pass_turn(one.tensor))
        made = (TileOperation(name, Engine.THREADS, (), (0, 0), (0, 0)) for name in names)
        pairs = zip(roles, program.roles, strict=True)
        program = replace(
            program,
            operations=(*program.operations, *made),
            roles=tuple(new or old for new, old in pairs),
        )
    return program


def out_of_order(program: Program) -> Iterator[str]:
    """Why tiles would not add in turn, in a program with operations of `in_turns`: a step is
    missing or elsewhere, or a copy is outside of its turn.
    """
    names = {operation.name for operation in program.operations if is_turn(operation.name)}
    ran = [(role, _ran(step)) for role in program.roles for step in role.steps]
    names |= {name for _, name in ran if is_turn(name)}
    for tensor in sorted({tensor_of(name) for name in names}):
        roles = {role.name for role, name in ran if is_turn(name) and tensor_of(name) == tensor}
        if len(roles) != 1:
            yield f"it is not one role that takes turns to add to '{tensor}'"
        for name in roles:
            yield from _of_role(program, program.role[name], tensor)
    for name in sorted(names & {*program.operation}):
        if program.operation[name].accesses or program.operation[name].engine is not Engine.THREADS:
            yield f"'{name}' is more than a word in global memory"


def of_kernel(program: Program) -> Program:
    """``program`` without turns: its copies may add whenever they come to it."""

    def kept(steps: Sequence[Step]) -> tuple[Step, ...]:
        return tuple(step for step in steps if not is_turn(_ran(step)))

    return replace(
        program,
        operations=tuple(one for one in program.operations if not is_turn(one.name)),
        roles=tuple(replace(role, loop=kept(role.loop)) for role in program.roles),
    )


# -- parts -----------------------------------------------------------------------------------------


def _ran(step: Step) -> str:
    return step.action.operation if isinstance(step.action, Run) else ""


def _taking(program: Program, role: RoleProgram, one: OrderedSum) -> RoleProgram | None:
    """A role with the turns of a sum, if it is the one that adds, and stores nothing else."""
    places = [n for n, step in enumerate(role.loop) if _ran(step) in one.stores]
    steps = [role.loop[n] for n in places]
    copies = sum(_engine(program, step) is Engine.COPY_OUT for step in role.loop)
    if {_ran(step) for step in steps} != {*one.stores} or copies != len(one.stores):
        return None
    shifts = {step.shift for step in steps}
    if len(shifts) > 1 or any(step.guard != EVERY for step in steps):
        return None
    first, last, shift = places[0], places[-1], steps[0].shift
    while first and isinstance(role.loop[first - 1].action, Wait):
        first -= 1  # the tile before may take longer than the threads whose tile is added
    while last + 1 < len(role.loop) and _frees(role.loop[last + 1], steps[0]):
        last += 1  # slots are free once they have been read, which is before all is written
    turn = Step(Run(await_turn(one.tensor)), shift, why="the tile before has added its part")
    over = Step(Run(pass_turn(one.tensor)), shift, why="the parts of this tile are there")
    loop = role.loop
    return replace(
        role, loop=(*loop[:first], turn, *loop[first : last + 1], over, *loop[last + 1 :])
    )


def _frees(step: Step, copy: Step) -> bool:
    """Whether a step is one behind a copy, of the same iteration, that hands its storage back."""
    same = (step.shift, step.guard) == (copy.shift, copy.guard)
    return same and isinstance(step.action, WaitGroup | Arrive)


def _of_role(program: Program, role: RoleProgram, tensor: str) -> Iterator[str]:
    """What is wrong with the turns of a role."""
    wanted = [await_turn(tensor), pass_turn(tensor)]
    places = [n for n, step in enumerate(role.loop) if _ran(step) in wanted]
    outside = [step for step in (*role.before, *role.after) if _ran(step) in wanted]
    if [_ran(role.loop[n]) for n in places] != wanted or outside:
        yield f"{role.name} does not await and pass its turn at '{tensor}' once in an iteration"
        return
    begin, end = places
    ends = {(role.loop[n].shift, role.loop[n].guard) for n in places}
    every = [n for n, step in enumerate(role.loop) if _engine(program, step) is Engine.COPY_OUT]
    copies = [role.loop[n] for n in every if begin < n < end]
    ends |= {(step.shift, step.guard) for step in copies}
    if not copies or len(copies) < len(every) or ends != {(role.loop[begin].shift, EVERY)}:
        yield f"{role.name} does not add to '{tensor}' in each turn that it takes"


def _engine(program: Program, step: Step) -> Engine | None:
    name = _ran(step)
    return program.operation[name].engine if name in program.operation else None

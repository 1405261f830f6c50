"""Operations that the threads of a role execute one right after the other, as one.

The compiler moves their instructions among each other, so that what one of them leaves idle another
one uses: together they need each unit for the sum of their cycles, and take the longest of these,
and what each of them takes beside its units. Only where an operation needs all of what another one
computes, as after a reduction, it begins when that is over.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from schedgen.program.model import Program, Run, Step
from schedgen.program.operations import Access, Engine, TileOperation


def fused(program: Program, without: Collection[str] = ()) -> Program:
    """``program`` with such operations joined, those named in ``without`` for nothing. For times
    only: a step does what several did.
    """
    program = replace(
        program,
        operations=tuple(
            replace(o, units=(), latency=(0, 0), hold=(0, 0)) if o.name in without else o
            for o in program.operations
        ),
    )
    made: dict[str, TileOperation] = {}
    roles = tuple(
        replace(
            role,
            before=_joined(role.before, program, made),
            loop=_joined(role.loop, program, made),
            after=_joined(role.after, program, made),
        )
        for role in program.roles
    )
    return replace(program, roles=roles, operations=(*program.operations, *made.values()))


def _joined(
    steps: Sequence[Step], program: Program, made: dict[str, TileOperation]
) -> tuple[Step, ...]:
    found: list[Step] = []
    group: list[Step] = []
    for step in (*steps, None):
        if step is not None and group and _continues(group, step, program):
            group.append(step)
            continue
        if group:
            found.append(_one(group, program, made))
        group = []
        if step is not None and _runs(step, program):
            group = [step]
        elif step is not None:
            found.append(step)
    return tuple(found)


def _operation(step: Step, program: Program) -> TileOperation:
    assert isinstance(step.action, Run)
    return program.operation[step.action.operation]


def _runs(step: Step, program: Program) -> bool:
    """Whether the threads of the role execute it."""
    return isinstance(step.action, Run) and _operation(step, program).engine is Engine.THREADS


def _continues(group: Sequence[Step], step: Step, program: Program) -> bool:
    """Whether ``step`` can be executed among those of ``group``."""
    if not _runs(step, program) or (step.shift, step.guard) != (group[0].shift, group[0].guard):
        return False
    gathered = {name for one in group for name in _gathered(_operation(one, program))}
    reads = (a.allocation for a in _operation(step, program).accesses if not a.write)
    return not any(name in gathered for name in reads)


def _gathered(operation: TileOperation) -> set[str]:
    """What an operation writes that is narrower than what it reads: each byte needs many."""
    widest = max((_width(a) for a in operation.accesses if not a.write), default=0)
    return {a.allocation for a in operation.accesses if a.write and _width(a) < widest}


def _width(access: Access) -> int:
    return access.bytes[1] - access.bytes[0]


def _one(group: Sequence[Step], program: Program, made: dict[str, TileOperation]) -> Step:
    if len(group) == 1:
        return group[0]
    operations = [_operation(step, program) for step in group]
    name = "+".join(operation.name for operation in operations)
    if name not in made:
        made[name] = _sum(name, operations)
    assert isinstance(group[0].action, Run)
    return replace(group[0], action=replace(group[0].action, operation=name))


def _sum(name: str, operations: Sequence[TileOperation]) -> TileOperation:
    units: dict[str, int] = {}
    for operation in operations:
        for unit, cycles in operation.units:
            units[unit] = units.get(unit, 0) + cycles
    longest = max(units.values(), default=0)
    low, high = (
        longest + sum(max(o.latency[end] - _longest(o), 0) for o in operations) for end in (0, 1)
    )
    accesses = tuple(access for operation in operations for access in operation.accesses)
    by_cycles = tuple(sorted(units.items(), key=lambda one: -one[1]))
    return TileOperation(name, Engine.THREADS, accesses, (low, high), (low, high), 0, by_cycles)


def _longest(operation: TileOperation) -> int:
    return max((cycles for _, cycles in operation.units), default=0)

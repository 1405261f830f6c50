"""Accesses to storage, and which of them conflict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from schedgen.program.model import Program, RoleProgram, Run, Step, When
from schedgen.program.operations import Access, Engine


@dataclass(frozen=True, slots=True)
class Touch:
    """An access of the operation that a step runs."""

    role: RoleProgram
    number: int
    step: Step
    operation: str
    engine: Engine
    access: Access
    section: int
    accumulates: bool = False
    """Whether the operation writes the tile: what a product only reads is an operand."""

    @property
    def plain(self) -> bool:
        """Whether it happens in every iteration, or once in every tile."""
        return self.step.guard.low == self.step.guard.high == self.access.initial == 0

    @property
    def looped(self) -> bool:
        return self.section == 1 and self.step.guard.kind is When.EVERY

    @property
    def reach(self) -> int:
        """Iterations at the beginning or end of a tile in which it may not happen."""
        return max(self.step.guard.low, self.step.guard.high, self.access.initial)


def touches(program: Program) -> list[Touch]:
    """All accesses of all roles."""
    found: list[Touch] = []
    for role in program.roles:
        first, last = len(role.before), len(role.before) + len(role.loop)
        for number, step in enumerate(role.steps):
            if isinstance(step.action, Run):
                operation = program.operation[step.action.operation]
                section = 0 if number < first else 1 if number < last else 2
                name, engine = operation.name, operation.engine
                written = {access.buffer for access in operation.accesses if access.write}
                found.extend(
                    Touch(
                        *(role, number, step, name, engine, access, section),
                        accumulates=access.buffer in written,
                    )
                    for access in operation.accesses
                )
    return found


def conflicts(program: Program) -> list[tuple[Touch, Touch]]:
    """Ordered pairs of accesses to the same bytes of an allocation, one of them a write."""
    every = touches(program)
    return [
        (one, other)
        for one, other in product(every, every)
        if (one.access.write or other.access.write) and one.access.overlaps(other.access)
    ]


def uncomparable(program: Program) -> Iterator[tuple[str, str, str]]:
    """Pairs of accesses whose slots this method cannot compare."""
    for one, other in conflicts(program):
        a, b = one.access.version, other.access.version
        outside = not a.per_tile and (one.section != 1 or other.section != 1)
        if (a.per_tile, a.scale) != (b.per_tile, b.scale) or outside:
            yield one.operation, other.operation, one.access.allocation


def slots_of(program: Program, touch: Touch) -> int:
    """The slots of the allocation that is accessed."""
    return program.allocation[touch.access.allocation].slots


def same_slot(one: Touch, other: Touch, distance: int, slots: int) -> bool:
    """Whether an access so many turns later meets the same slot."""
    a, b = one.access.version, other.access.version
    return (b.scale * distance + b.offset - a.offset) % slots == 0

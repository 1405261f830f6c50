"""Accesses of a program that a compiler may leave out, because threads have the value already.

It has no effect that others see: a read of what the threads of a role wrote or read before, a write
that they write over before anybody is told. Copies and products of engines are never left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from schedgen.kernel import Space
from schedgen.program.division import operations_of
from schedgen.program.model import Arrive, Commit, Program, RoleProgram, Run, Step
from schedgen.program.operations import Access, Engine

Named = tuple[str, int]
"""An operation, and which of its accesses."""


def spared(program: Program) -> frozenset[Named]:
    """All such accesses of ``program``."""
    found = set[Named]()
    for role in program.roles:
        found |= _private(program, role)
        for steps in (role.before, role.loop, role.after):
            found |= _repeated(program, steps)
    return frozenset(found)


def _private(program: Program, role: RoleProgram) -> set[Named]:
    """Reads of what only the same threads write."""
    own = operations_of(role)
    others = {
        access.allocation
        for operation in program.operations
        for access in operation.accesses
        if access.write and operation.name not in own
    }
    return {
        (name, number)
        for name in own
        for number, read in _of_threads(program, name)
        if not (read.write or read.spread is None or read.allocation in others)
        and {write.spread for _, write in _writes(program, read)} == {read.spread}
    }


def _repeated(program: Program, steps: Sequence[Step]) -> set[Named]:
    """Reads of what the role has read in the same iteration and one operation writes; writes that
    the same threads write over before they tell anybody.
    """
    runs = [
        (at, (step.shift, step.guard), (step.action.operation, number), access)
        for at, step in enumerate(steps)
        if isinstance(step.action, Run)
        for number, access in _of_threads(program, step.action.operation)
    ]
    found = set[Named]()
    for (at, when, name, before), (then, later, again, behind) in combinations(runs, 2):
        if at == then or when != later or not _alike(before, behind):
            continue
        if not before.write and not behind.write and len(list(_writes(program, behind))) == 1:
            found.add(again)
        told = any(isinstance(step.action, Arrive | Commit) for step in steps[at:then])
        if before.write and behind.write and before.spread == behind.spread and not told:
            found.add(name)
    return found


def _alike(one: Access, other: Access) -> bool:
    """Whether both touch the same bytes of the same version."""
    same = one.allocation == other.allocation and one.version == other.version
    return same and one.rows == other.rows and one.bytes == other.bytes


def _writes(program: Program, read: Access) -> Iterator[tuple[str, Access]]:
    """Accesses that write bytes of ``read``, with their operations."""
    for operation in program.operations:
        for access in operation.accesses:
            if access.write and access.overlaps(read):
                yield operation.name, access


def _of_threads(program: Program, name: str) -> Iterator[tuple[int, Access]]:
    """What threads access in shared memory in an operation."""
    operation = program.operation[name]
    if operation.engine is Engine.THREADS:
        for number, access in enumerate(operation.accesses):
            if program.allocation[access.allocation].space is Space.SMEM:
                yield number, access

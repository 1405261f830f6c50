"""Roles as the warps and threads that they are.

A role is one list of steps, but four warps execute it, each at its own pace. What one warp wrote,
another one sees only if something made them meet. Where the warps of a role touch bytes of each
other, the role becomes two: one of its warps, and the other three. Where threads do that of which
both are in one warp, that warp becomes two as well: one of its threads, and the rest. All parts
execute all of the steps, on what their threads touch, and arrive as often as they have threads. All
that is proven of the result is proven of the threads; a role whose threads keep to bytes of their
own, and arrive together, needs no such division, because each of them is in the same position.

Bulk copies and tcgen05 are issued by a single thread, so they belong to the first part, and so does
an arrival that is not as many for each warp. Where the threads of each warp meet, those of the
other warps are elsewhere; the first warp does not know of them.

One and the rest are enough: the warps of a role are interchangeable, as each access covers whole
rounds of all four of them (`schedgen.program.threads`), and so are the threads of a warp.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import product

from schedgen.kernel import Space
from schedgen.program.division import (
    BY_THREADS,
    BY_WARPS,
    SINGLE,
    Parts,
    alike,
    alone_in,
    divided,
    operations_of,
    shares,
)
from schedgen.program.model import Arrive, Program, RoleProgram
from schedgen.program.operations import Access
from schedgen.program.threads import WARPS

Pair = tuple[str, str, str]
"""An operation, one that touches the same bytes with other threads, and the allocation."""


def by_warps(program: Program) -> Program:
    """``program`` with the roles divided whose threads touch bytes of each other.

    The same program if there are none. Registers and warps are counted in what was divided.
    """
    parts = {role.name: _parts(program, role) for role in program.roles}
    needed = {name: found for name, found in parts.items() if found}
    return divided(program, needed) if needed else program


def part_of(name: str) -> tuple[str, str]:
    """The name before the division, and which part it is, '' if it is not divided."""
    for part in (*BY_THREADS, *BY_WARPS):
        if name.endswith(part.suffix):
            return name.removesuffix(part.suffix), part.suffix
    return name, ""


def same_warp(one: str, other: str) -> bool:
    """Whether two parts, as `part_of` has them, are threads of one warp."""
    return {one, other} <= {part.suffix for part in BY_THREADS if part.first_warp}


def crossings(program: Program, role: RoleProgram) -> list[Pair]:
    """Pairs of operations of ``role`` of which one warp touches bytes that another warp touches for
    the other one, at least one of them writing.
    """
    return list(dict.fromkeys(_pairs(program, role, BY_WARPS)))


def within_warps(program: Program, role: RoleProgram) -> list[Pair]:
    """The same for threads of one warp, where warps keep to bytes of their own."""
    across = set(crossings(program, role))
    found = dict.fromkeys(_pairs(program, role, BY_THREADS))
    return [pair for pair in found if pair not in across]


def _parts(program: Program, role: RoleProgram) -> Parts:
    if within_warps(program, role):
        return BY_THREADS
    return BY_WARPS if _uneven(program, role) or crossings(program, role) else ()


def _uneven(program: Program, role: RoleProgram) -> bool:
    """Whether not all threads of ``role``, which all have work to do, arrive alike."""
    if role.warps != WARPS:
        return False
    engines = {program.operation[name].engine for name in operations_of(role)}
    counts = (step.action.count for step in role.steps if isinstance(step.action, Arrive))
    return bool(engines - {*SINGLE}) and not all(alike(role, count) for count in counts)


def _pairs(program: Program, role: RoleProgram, parts: Parts) -> Iterator[Pair]:
    """Of the first of ``parts`` and the second."""
    if role.warps != WARPS:
        return
    for allocation, accesses in _touched(program, role).items():
        alone = alone_in(program, role, allocation)
        if alone and parts == BY_THREADS:
            continue
        each = [
            (name, access, *shares(program.operation[name], access, parts, alone=alone)[:2])
            for name, access in accesses
        ]
        for (one, x, mine, _), (other, y, _, theirs) in product(each, each):
            if parts == BY_THREADS and x.spread == y.spread is not None:
                continue  # the same thread has the same elements
            if (x.write or y.write) and any(p.overlaps(q) for p, q in product(mine, theirs)):
                yield one, other, allocation


def _touched(program: Program, role: RoleProgram) -> dict[str, list[tuple[str, Access]]]:
    """Store that warps share -> (operation, access) of ``role``."""
    found: dict[str, list[tuple[str, Access]]] = defaultdict(list)
    for name in operations_of(role):
        for access in program.operation[name].accesses:
            if program.allocation[access.allocation].space is not Space.REGISTERS:
                found[access.allocation].append((name, access))
    return found

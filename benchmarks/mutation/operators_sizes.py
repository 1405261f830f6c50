"""Changes of counts, bytes, ring depths, addresses and registers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from schedgen.benchmarks.mutants.sites import (
    Change,
    Site,
    sites,
    with_allocation,
    with_barrier,
    with_role,
)
from schedgen.kernel import Space
from schedgen.program.model import Arrive, Program, RoleProgram, Run
from schedgen.program.operations import Allocation

KILOBYTE = 1024


def wrong_count(program: Program) -> Iterator[Change]:
    """One arrival more or less, by a step or as a barrier takes them."""
    for site in sites(program, Arrive):
        action = site.action
        assert isinstance(action, Arrive)
        for by in (-1, 1):
            changed = site.does(replace(action, count=action.count + by))
            yield Change(f"{site.name}, {by:+}", changed, site)
    for barrier in program.barriers:
        for by in (-1, 1):
            other = replace(barrier, arrivals=barrier.arrivals + by)
            yield Change(f"{barrier.name} takes {by:+} arrivals", with_barrier(program, other))


def fewer_arrivals(program: Program) -> Iterator[Change]:
    """One thread or one warp arrives for all of a role, and the barrier takes just that many."""
    for barrier, few in product(program.barriers, (1, 32)):
        changed, saved = program, Counter[int]()
        for site in sites(program, Arrive):
            action = site.action
            assert isinstance(action, Arrive)
            if action.barrier == barrier.name and not action.bytes:
                phase = action.number.offset % action.number.scale
                saved[phase] += max(action.count - few, 0)
                other = Site(changed, changed.role[site.role.name], site.section, site.place)
                changed = other.does(replace(action, count=min(action.count, few)))
        if len({*saved.values()}) == 1 and any(saved.values()):
            arrivals = barrier.arrivals - next(iter(saved.values()))
            text = f"{few} threads of a role arrive at {barrier.name}, which takes no more"
            yield Change(text, with_barrier(changed, replace(barrier, arrivals=arrivals)))


def wrong_bytes(program: Program) -> Iterator[Change]:
    """Half or twice the bytes announced, copied, or taken by a barrier."""
    for site in sites(program, Arrive, Run):
        action = site.action
        assert isinstance(action, Arrive | Run)
        for size in (action.bytes // 2, action.bytes * 2) if action.bytes else ():
            changed = site.does(replace(action, bytes=size))
            yield Change(f"{site.name}, {size} bytes", changed, site)
    for barrier in program.barriers:
        for size in (barrier.bytes // 2, barrier.bytes * 2) if barrier.bytes else ():
            other = with_barrier(program, replace(barrier, bytes=size))
            yield Change(f"{barrier.name} takes {size} bytes", other)


def barrier_depth(program: Program) -> Iterator[Change]:
    """A slot more or less of the barriers only."""
    for barrier in program.barriers:
        for slots in (barrier.slots - 1, barrier.slots + 1):
            if slots > 0:
                other = with_barrier(program, replace(barrier, slots=slots))
                yield Change(f"{barrier.name} has {slots} slots", other)


def allocation_depth(program: Program) -> Iterator[Change]:
    """A slot more or less of the storage only.

    One slot more gets the room for it, by moving what lies behind: an overlap is another mistake.
    """
    for allocation in program.allocations:
        each = allocation.size // allocation.slots
        if allocation.slots > 1:
            other = replace(allocation, slots=allocation.slots - 1, size=allocation.size - each)
            fewer = with_allocation(program, other)
            yield Change(f"{allocation.name} has {other.slots} slots", fewer)
        other = replace(allocation, slots=allocation.slots + 1, size=allocation.size + each)
        roomy = with_allocation(_moved_up(program, allocation, each), other)
        yield Change(f"{allocation.name} has {other.slots} slots", roomy)


def _moved_up(program: Program, allocation: Allocation, by: int) -> Program:
    """With everything that lies behind an allocation further up, on a machine that has the room."""
    if allocation.address < 0:
        return program

    def moved(other: Allocation) -> Allocation:
        behind = other.space is allocation.space and other.address > allocation.address
        return replace(other, address=other.address + by) if behind else other

    room = program.capacities
    if allocation.space is Space.SMEM:
        room = replace(room, smem_bytes=room.smem_bytes + by)
    elif allocation.space is Space.TMEM:
        room = replace(room, tmem_columns=room.tmem_columns + by)
    allocations = tuple(moved(other) for other in program.allocations)
    return replace(program, allocations=allocations, capacities=room)


def wrong_address(program: Program) -> Iterator[Change]:
    """An allocation one slot or one kilobyte (32 columns) further on or back."""
    for allocation in program.allocations:
        if allocation.address < 0:
            continue
        small = KILOBYTE if allocation.space is Space.SMEM else 32
        for by in sorted({small, allocation.size // allocation.slots}):
            for address in (allocation.address - by, allocation.address + by):
                changed = with_allocation(program, replace(allocation, address=address))
                what = f"{allocation.name} at {address} instead of {allocation.address}"
                yield Change(what, changed)


def wrong_slot(program: Program) -> Iterator[Change]:
    """An operation that uses the slot of an allocation before or after the right one."""
    for operation in program.operations:
        for name in dict.fromkeys(access.allocation for access in operation.accesses):
            if program.allocation[name].slots == 1:
                continue
            for by in (-1, 1):
                accesses = tuple(
                    replace(old, version=old.version.moved(by)) if old.allocation == name else old
                    for old in operation.accesses
                )
                other = replace(operation, accesses=accesses)
                operations = tuple(other if o is operation else o for o in program.operations)
                what = f"{operation.name} uses {name} at slot {by:+}"
                yield Change(what, replace(program, operations=operations))


def too_many_registers(program: Program) -> Iterator[Change]:
    """More registers for a role than its threads, or all of them together, can have."""
    most = program.capacities.max_registers
    for role in program.roles:
        yield Change(
            f"{role.name} has {most + 8} registers", with_role(program, _registers(role, most + 8))
        )
        if role.registers < most:
            yield Change(
                f"{role.name} takes the whole pool",
                with_role(program, _registers(role, program.capacities.registers_per_thread_sum)),
            )


def _registers(role: RoleProgram, registers: int) -> RoleProgram:
    return replace(role, registers=registers)

"""Counts and capacities: sums, which need no solver.

Contributions to a number depend on the guards in its own tile only. Guards look no further than
their bounds, and numbers no further than their offsets, so a few tiles of all short trip counts
have all cases.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum, auto
from itertools import product

from schedgen.findings import Claim, Finding
from schedgen.kernel import Space
from schedgen.program.model import (
    NUMBERED,
    Arrive,
    Barrier,
    Commit,
    Program,
    RoleProgram,
    Run,
    Step,
    Wait,
)
from schedgen.program.operations import Number
from schedgen.program.sequence import sequence

WARPGROUP = 4
TILES = 3


class _Fault(Enum):
    """What is wrong with a phase."""

    FREE = auto()
    NOBODY = auto()
    ARRIVALS = auto()
    BYTES = auto()
    ENDLESS = auto()
    UNSEEN = auto()


class _Phase:
    """What comes together at one number of a barrier."""

    def __init__(self) -> None:
        self.arrivals = self.expect_tx = self.copied = self.waits = 0


def counts(program: Program) -> Iterator[Finding]:
    """Sums that are wrong, and waits that nobody ends, each barrier's first."""
    seen: set[tuple[str, _Fault, Claim]] = set()
    for trips in _patterns(program):
        phases = _phases(program, trips)
        for barrier in program.barriers:
            numbers = phases[barrier.name]
            for number in sorted(numbers):
                for fault, finding in _wrong(program, barrier, numbers, number, trips):
                    key = (barrier.name, fault, finding.claim)
                    if key not in seen:
                        seen.add(key)
                        yield finding


def _patterns(program: Program) -> Iterator[tuple[int, ...]]:
    steps = [step for role in program.roles for step in role.loop]
    most = max((max(step.guard.low, step.guard.high) for step in steps), default=0) + 1
    deepest = max((barrier.slots for barrier in program.barriers), default=1)
    yield from product(range(most + 1), repeat=TILES)
    yield from ((n, deepest + n, n, deepest + 1, 1) for n in range(most + 1))
    yield (most + 1,) * (2 * deepest + 2)


def _touches_barrier(step: Step) -> bool:
    action = step.action
    return isinstance(action, Wait | Arrive | Commit) or (
        isinstance(action, Run) and action.barrier is not None
    )


def _phases(program: Program, trips: tuple[int, ...]) -> dict[str, dict[int, _Phase]]:
    found: dict[str, dict[int, _Phase]] = defaultdict(lambda: defaultdict(_Phase))
    for role in program.roles:
        kept = replace(
            role,
            before=tuple(filter(_touches_barrier, role.before)),
            loop=tuple(filter(_touches_barrier, role.loop)),
            after=tuple(filter(_touches_barrier, role.after)),
        )
        for instance in sequence(kept, trips):
            match instance.step.action:
                case Arrive(name, number, count, expect_tx):
                    phase = found[name][instance.number(number)]
                    phase.arrivals += count
                    phase.expect_tx += expect_tx
                case Commit(name, number):
                    found[name][instance.number(number)].arrivals += 1
                case Run(_, str(name), Number() as number, copied):
                    found[name][instance.number(number)].copied += copied
                case Wait(name, number):
                    found[name][instance.number(number)].waits += 1
                case _:
                    pass
    return found


def _wrong(
    program: Program,
    barrier: Barrier,
    numbers: dict[int, _Phase],
    number: int,
    trips: tuple[int, ...],
) -> Iterator[tuple[_Fault, Finding]]:
    phase, name = numbers[number], barrier.name
    made = phase.arrivals or phase.expect_tx or phase.copied
    free = number < 0 or number in barrier.skipped
    where = (f"tiles with {', '.join(map(str, trips))} iterations", f"phase number {number}")
    if free:
        if made:
            text = f"'{name}' gets arrivals for a phase that counts as complete from the start"
            yield _Fault.FREE, Finding(Claim.COUNT, text, (name,), where)
        return
    if not made:
        text = f"nobody arrives at a phase of '{name}' that is waited for"
        yield _Fault.NOBODY, Finding(Claim.COUNT, text, (name,), where)
        roles = [role.name for role in program.roles if _waits_for(role, name)]
        text = f"{', '.join(roles)} waits for ever for '{name}'"
        yield _Fault.NOBODY, Finding(Claim.DEADLOCK, text, (name, *roles), where)
        return
    moved = phase.expect_tx, phase.copied
    if phase.arrivals != barrier.arrivals:
        text = f"wrong arrivals at '{name}': {phase.arrivals} where it takes {barrier.arrivals}"
        yield _Fault.ARRIVALS, Finding(Claim.COUNT, text, (name,), where)
    if moved != (barrier.bytes, barrier.bytes):
        text = (
            f"wrong bytes at '{name}': {moved[0]} expected and {moved[1]} copied "
            f"where a phase has {barrier.bytes}"
        )
        yield _Fault.BYTES, Finding(Claim.COUNT, text, (name,), where)
    if phase.waits and (phase.arrivals < barrier.arrivals or moved[0] != moved[1]):
        text = (
            f"a phase of '{name}' never ends: {phase.arrivals} of {barrier.arrivals} arrive, "
            f"{moved[1]} of {moved[0]} bytes"
        )
        yield _Fault.ENDLESS, Finding(Claim.DEADLOCK, text, (name,), where)
    following = numbers.get(number + barrier.slots)
    if not phase.waits and following is not None and following.arrivals:
        text = f"nobody waits for a phase of '{name}', and the next one begins"
        yield _Fault.UNSEEN, Finding(Claim.PHASE, text, (name,), where)


def _waits_for(role: RoleProgram, name: str) -> bool:
    actions = (step.action for step in role.steps)
    return any(isinstance(action, Wait) and action.barrier == name for action in actions)


# -- capacities ----------------------------------------------------------------------------------


def capacities(program: Program) -> Iterator[Finding]:
    """Storage that overlaps or does not fit; too many registers, warps or named barriers."""
    machine = program.capacities
    for space, limit in ((Space.SMEM, machine.smem_bytes), (Space.TMEM, machine.tmem_columns)):
        end, owner = 0, ""
        allocations = [
            allocation for allocation in program.allocations if allocation.space is space
        ]
        for allocation in sorted(allocations, key=lambda allocation: allocation.address):
            if allocation.address < end:
                text = f"'{owner}' and '{allocation.name}' overlap"
                yield Finding(Claim.CAPACITY, text, (owner, allocation.name))
            if allocation.address + allocation.size > end:
                end, owner = allocation.address + allocation.size, allocation.name
        if end > limit or any(allocation.address < 0 for allocation in allocations):
            text = f"the allocations need {end} of {limit} in {space.value}"
            yield Finding(Claim.CAPACITY, text, (owner,))
    yield from _threads(program)
    yield from _threads_apart(program)


def _threads_apart(program: Program) -> Iterator[Finding]:
    """A row or column in registers belongs to the threads of one role."""
    used = {
        (role.owner, access)
        for role in program.roles
        for step in role.steps
        if isinstance(step.action, Run)
        for access in program.operation[step.action.operation].accesses
        if program.allocation[access.allocation].space is Space.REGISTERS
    }
    reported: set[str] = set()
    for role, access in sorted(used, key=str):
        strangers = [
            r
            for r, other in used
            if r != role and other.allocation == access.allocation and other.overlaps(access)
        ]
        if strangers and access.allocation not in reported:
            reported.add(access.allocation)
            text = f"'{role}' and '{min(strangers)}' share registers of '{access.allocation}'"
            yield Finding(Claim.CAPACITY, text, (access.allocation, role, min(strangers)))


def _threads(program: Program) -> Iterator[Finding]:
    machine = program.capacities
    names = tuple(role.name for role in program.roles)
    for role in program.roles:
        if role.registers > machine.max_registers:
            text = f"'{role.name}' needs {role.registers} registers of {machine.max_registers}"
            yield Finding(Claim.CAPACITY, text, (role.name,))
    warps = sum(role.warps for role in program.roles)
    if warps > machine.warps:
        yield Finding(Claim.CAPACITY, f"{warps} warps of {machine.warps}", names)
    # Whole warpgroups have their own registers. Smaller roles fill warpgroups together, each with
    # the most that one of its roles needs: at best, those that need much are in the same one.
    total = sum(role.warps // WARPGROUP * role.registers for role in program.roles)
    rest = sorted(
        (role.registers for role in program.roles for _ in range(role.warps % WARPGROUP)),
        reverse=True,
    )
    total += sum(rest[::WARPGROUP])
    if total > machine.registers_per_thread_sum:
        text = f"{total} registers per thread of {machine.registers_per_thread_sum}"
        yield Finding(Claim.CAPACITY, text, names)
    named = [barrier for barrier in program.barriers if barrier.kind in (*NUMBERED, "roles")]
    meeting = {barrier.name for barrier in program.barriers if barrier.kind == "role"}
    own = [role for role in program.roles if any(_waits_for(role, name) for name in meeting)]
    used = sum(barrier.slots for barrier in named) + len(own)
    if used > machine.named_barriers:
        text = f"{used} named barriers of {machine.named_barriers}"
        yield Finding(Claim.CAPACITY, text, tuple(barrier.name for barrier in named))

"""Counts: every phase of a barrier gets the arrivals and bytes that it takes, no more, no less.

A running number is provided by the steps whose own numbers take that value. Steps that run once for
each value, whatever the trip counts, are the only ones that add up for all programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from schedgen.findings import Claim, Finding
from schedgen.kernel import Space
from schedgen.ordering.events import EventGraph
from schedgen.ordering.steps import fires_always
from schedgen.program.model import NUMBERED, Arrive, Barrier, Commit, Program, Run, Wait
from schedgen.program.operations import Access, Number
from schedgen.roles import RoleKind

Provider = tuple[int, int, Number]


def count_findings(graph: EventGraph) -> Iterator[Finding]:
    """All phases that would take too few or too many, and waits for what nobody provides."""
    known = {barrier.name for barrier in graph.program.barriers}
    for name in sorted({*graph.providers, *graph.waits} - known):
        yield Finding(Claim.COUNT, f"there is no barrier {name}", (name,))
    for barrier in graph.program.barriers:
        if len(set(barrier.skipped)) < len(barrier.skipped):
            text = f"a phase of {barrier.name} is skipped twice"
            yield Finding(Claim.COUNT, text, (barrier.name,))
        providers = graph.providers.get(barrier.name, [])
        groups: dict[tuple[bool, int, int], list[Provider]] = {}
        for provider in providers:
            groups.setdefault(_key(provider[2]), []).append(provider)
        for group in groups.values():
            yield from _phase(graph, barrier, group)
        for wait in graph.waits.get(barrier.name, []):
            yield from _wait(graph, barrier, wait, groups)
        yield from _mixed(barrier, list(groups))


def _key(number: Number) -> tuple[bool, int, int]:
    return number.per_tile, number.scale, number.offset % number.scale


def _mixed(barrier: Barrier, keys: list[tuple[bool, int, int]]) -> Iterator[Finding]:
    if len({key[:2] for key in keys}) > 1:
        text = f"the phases of {barrier.name} are numbered in two ways"
        yield Finding(Claim.COUNT, text, (barrier.name,))
    elif keys and len(keys) != keys[0][1]:
        text = f"only {len(keys)} of {keys[0][1]} phases of {barrier.name} are provided"
        yield Finding(Claim.COUNT, text, (barrier.name,))


def _phase(graph: EventGraph, barrier: Barrier, group: list[Provider]) -> Iterator[Finding]:
    """The arrivals and bytes of one phase, those of ``group``."""
    arrivals = expect_tx = delivered = 0
    for step, _, number in group:
        action = graph.step(step).action
        if not fires_always(graph.step(step).guard, graph.events[step].section, number):
            text = f"{graph.events[step].name} does not happen in every phase of {barrier.name}"
            yield Finding(Claim.COUNT, text, (barrier.name, graph.events[step].name))
        match action:
            case Arrive():
                arrivals, expect_tx = arrivals + action.count, expect_tx + action.bytes
            case Commit():
                arrivals += 1
            case Run():
                delivered += action.bytes
            case _:
                pass
    name = f"{barrier.name}[{group[0][2].text}]"
    for what, got, takes in (
        ("arrivals", arrivals, barrier.arrivals),
        ("expected bytes", expect_tx, barrier.bytes),
        ("copied bytes", delivered, barrier.bytes),
    ):
        if got != takes:
            text = f"a phase of {name} gets {got} {what}, it takes {takes}"
            yield Finding(Claim.COUNT, text, (barrier.name,))
    offsets = {number.offset for _, _, number in group}
    if min(offsets) < 0:
        text = f"{name} is provided before its first phase"
        yield Finding(Claim.COUNT, text, (barrier.name,))
    if len(offsets) > 1:
        text = f"the first phases of {name} do not get all of their arrivals"
        yield Finding(Claim.COUNT, text, (barrier.name,))
    yield from _first_phases(barrier, group[0][2], min(offsets))


def _first_phases(barrier: Barrier, number: Number, offset: int) -> Iterator[Finding]:
    """Numbers that nobody provides, because the first one is later, have to be skipped."""
    missing = {k for k in range(offset) if (k - offset) % number.scale == 0}
    skipped = {k for k in barrier.skipped if (k - offset) % number.scale == 0}
    for k in sorted(missing ^ skipped):
        what = "is provided by nobody" if k in missing else "is skipped and provided as well"
        text = f"phase number {k} of {barrier.name} {what}"
        yield Finding(Claim.COUNT, text, (barrier.name,))


def _wait(
    graph: EventGraph,
    barrier: Barrier,
    wait: int,
    groups: dict[tuple[bool, int, int], list[Provider]],
) -> Iterator[Finding]:
    action = graph.step(wait).action
    assert isinstance(action, Wait)
    subject = (barrier.name, graph.events[wait].name)
    number = action.number
    if _key(number) not in groups:
        text = f"{graph.events[wait].name}: nobody ever arrives there"
        yield Finding(Claim.DEADLOCK, text, subject)
    if number.offset < -barrier.slots:
        text = (
            f"{graph.events[wait].name} starts {-number.offset} phases back, "
            f"a fresh barrier grants {barrier.slots}"
        )
        yield Finding(Claim.DEADLOCK, text, subject)
    later = [given for _, _, given in groups.get(_key(number), []) if given.offset < number.offset]
    ahead = max((number.offset - given.offset for given in later), default=0) // number.scale
    in_loop = graph.events[wait].section == "loop"
    if ahead > 0 and graph.step(wait).guard.high < ahead and in_loop:
        text = (
            f"{graph.events[wait].name} waits for an iteration that the last of a tile do not have"
        )
        yield Finding(Claim.DEADLOCK, text, subject)
    if ahead > 0 and not in_loop and number.per_tile:
        yield Finding(Claim.DEADLOCK, f"{graph.events[wait].name} waits for a later tile", subject)


def capacity_findings(program: Program) -> Iterator[Finding]:
    """Storage overlaps or does not fit, too many registers, warps or named barriers."""
    room = {"smem": program.capacities.smem_bytes, "tmem": program.capacities.tmem_columns}
    for space, size in room.items():
        allocations = sorted(
            (s for s in program.allocations if s.space == space), key=lambda s: s.address
        )
        end, last = 0, "the start"
        for allocation in allocations:
            if allocation.address < end:
                at = f"{allocation.name} at {allocation.address}"
                text = f"{at} overlaps {last}, which ends at {end}"
                yield Finding(Claim.CAPACITY, text, (allocation.name, last))
            end, last = max(end, allocation.address + allocation.size), allocation.name
        if end > size:
            text = f"{last} ends at {end} of {size} in {space}"
            yield Finding(Claim.CAPACITY, text, (last,))
    for allocation in program.allocations:
        needed = allocation.slots * _slot_size(
            allocation.space, allocation.rows, allocation.row_bytes
        )
        if allocation.address >= 0 and needed > allocation.size:
            text = f"{allocation.name} has room for {allocation.size}, its slots need {needed}"
            yield Finding(Claim.CAPACITY, text, (allocation.name,))
    yield from _role_capacities(program)
    yield from _private_registers(program)


def _private_registers(program: Program) -> Iterator[Finding]:
    """Threads see their own registers only, so no barrier hands a tile there to another role."""
    owners: dict[str, list[tuple[Access, str]]] = {}
    for role in program.roles:
        runs = (step.action for step in role.steps if isinstance(step.action, Run))
        for access in (a for run in runs for a in program.operation[run.operation].accesses):
            if program.allocation[access.allocation].space == "registers":
                owners.setdefault(access.allocation, []).append((access, role.owner))
    for allocation, accesses in owners.items():
        pairs = {
            tuple(sorted((one, other)))
            for (first, one), (second, other) in combinations(accesses, 2)
            if one != other and first.overlaps(second)
        }
        for one, other in sorted(pairs):
            text = f"registers of {allocation} are used by two roles, {one} and {other}"
            yield Finding(Claim.CAPACITY, text, (allocation, one, other))


def _slot_size(space: str, rows: int, row_bytes: int) -> int:
    return -(-row_bytes // 4) if space == Space.TMEM else rows * row_bytes


def _role_capacities(program: Program) -> Iterator[Finding]:
    machine = program.capacities
    narrow = [role for role in program.roles if role.kind is RoleKind.WARP]
    total = sum(role.registers for role in program.roles if role.kind is RoleKind.WARPGROUP)
    total += max((role.registers for role in narrow), default=0)
    if total > machine.registers_per_thread_sum:
        room = machine.registers_per_thread_sum
        text = f"all roles need {total} registers a thread, there are {room}"
        yield Finding(Claim.CAPACITY, text, ("registers",))
    for role in program.roles:
        if role.registers > machine.max_registers:
            most = machine.max_registers
            text = (
                f"{role.name} has {role.registers} registers a thread, at most {most} are possible"
            )
            yield Finding(Claim.CAPACITY, text, (role.name,))
    warps = sum(role.warps for role in program.roles if role.kind is RoleKind.WARPGROUP) + len(
        narrow
    )
    if warps > machine.warps:
        yield Finding(Claim.CAPACITY, f"{warps} warps, there are {machine.warps}", ("warps",))
    own = (*NUMBERED, "roles")
    named = sum(b.slots for b in program.barriers if b.kind in own) + _meeting_roles(program)
    if named > machine.named_barriers:
        text = f"{named} named barriers, there are {machine.named_barriers}"
        yield Finding(Claim.CAPACITY, text, ("named barriers",))


def _meeting_roles(program: Program) -> int:
    """Roles whose warps meet: each has one barrier of the hardware for all of its meetings."""
    kinds = {barrier.name: barrier.kind for barrier in program.barriers}
    return sum(
        any(
            isinstance(step.action, Wait) and kinds.get(step.action.barrier) == "role"
            for step in role.steps
        )
        for role in program.roles
    )

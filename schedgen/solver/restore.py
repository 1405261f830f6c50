"""What was decided, read back from a schedule, and whether the schedule is right.

Decisions are all that is believed. They are verified like those of the solver, and everything in
the schedule that follows from them is worked out again and compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from schedgen.dependence import RingOption, home_choice, ring_choice
from schedgen.kernel import Operation, Phase, Space
from schedgen.roles import RoleKind
from schedgen.schedule import Schedule, ScheduledBuffer
from schedgen.solver.decisions import Decisions
from schedgen.solver.describe import described
from schedgen.solver.problem import Problem
from schedgen.solver.tiles import TileSchedule
from schedgen.solver.verify import verify

_REGISTER_STEP = 8


def mistakes(problem: Problem, schedule: Schedule) -> tuple[str, ...]:
    """Every way in which ``schedule`` is no correct schedule of ``problem``; empty if it is one."""
    found = tuple(_incomplete(problem, schedule))
    if found:
        return found
    try:
        decisions = decisions_of(problem, schedule)
    except NotDecided as error:
        return (str(error),)
    found = verify(problem, decisions)
    return found or tuple(_differences(problem, schedule, decisions))


def _incomplete(problem: Problem, schedule: Schedule) -> Iterator[str]:
    """What is not named, or named twice, or not known."""
    kernel = problem.kernel
    for what, found, wanted in (
        ("operation", [op.id for op in schedule.ops], [o.name for o in _operations(problem)]),
        ("buffer", [b.name for b in schedule.buffers], [r.name for r in kernel.regions]),
    ):
        for name in dict.fromkeys((*wanted, *found)):
            if found.count(name) != wanted.count(name):
                yield f"{what} {name} is there {found.count(name)} times, not {wanted.count(name)}"
    members = [name for role in schedule.roles for name in role.operations]
    if sorted(members) != sorted(op.id for op in schedule.ops):
        yield "the roles do not have each operation once"
    known = {role.name for role in schedule.roles}
    if len(known) != len(schedule.roles) or any(op.role not in known for op in schedule.ops):
        yield "operations and roles do not fit together"


def _operations(problem: Problem) -> list[Operation]:
    return [o for o in problem.kernel.operations if not o.boundary]


def completed(problem: Problem, outline: Schedule) -> Schedule:
    """``outline``, of which only decisions are given (starts, roles with registers, storage, II and
    period), with everything that follows from them. Raises NotDecided if it is no schedule.
    """
    found = tuple(_incomplete(problem, outline))
    if found:
        raise NotDecided(found[0])
    decisions = decisions_of(problem, outline)
    names = {role.name: role.name for role in outline.roles}
    follows = described(problem, decisions, _tiles_of(problem, outline, decisions), names)
    roles = {role.name: role for role in follows["roles"]}
    given = tuple(replace(roles[r.name], registers=r.registers) for r in outline.roles)
    schedule = replace(outline, **{**follows, "roles": given, "buffers": outline.buffers})
    wrong = mistakes(problem, schedule)
    if wrong:
        raise NotDecided(wrong[0])
    return schedule


class NotDecided(ValueError):
    """Nothing that the solver could have decided gives what is in the schedule."""


def decisions_of(problem: Problem, schedule: Schedule) -> Decisions:
    """What was decided about the main loop of ``schedule``. Raises NotDecided."""
    start = {op.id: op.start for op in schedule.ops if op.phase == Phase.BODY}
    role_of = {op.id: op.role for op in schedule.ops}
    first: dict[str, str] = {}
    role: dict[str, str] = {}
    for group in problem.body_groups:
        names = {role_of[name] for name in group.operations}
        if len(names) > 1:
            raise NotDecided(
                f"{', '.join(group.operations)} need one role, they have {' and '.join(names)}"
            )
        role[group.name] = first.setdefault(names.pop(), group.name)
    buffer = {b.name: b for b in schedule.buffers}
    depth = {
        region.name: region.depth.low
        if region.ring is not None or buffer[region.name].alias is not None
        else buffer[region.name].depth
        for region in problem.kernel.regions
    }
    option = {**_places(problem, buffer), **_rings(problem, buffer)}
    return Decisions(schedule.ii_cycles, start, role, depth, option)


def _places(problem: Problem, buffer: Mapping[str, ScheduledBuffer]) -> dict[str, int]:
    """The alternatives of storage that regions have."""
    found: dict[str, int] = {}
    for region in problem.kernel.regions:
        if home_choice(region) not in problem.graph.choice:
            continue
        mine = buffer[region.name]
        for number, one in enumerate(region.options):
            unit = 4 if region.space is Space.TMEM else 1
            shift = 0 if one.host is None else mine.address - buffer[one.host].address
            if (one.host, one.skew) == (mine.alias, mine.skew) and one.column == shift * unit:
                found[home_choice(region)] = number
                break
        else:
            raise NotDecided(f"{region.name} cannot be where the schedule has it")
    return found


def _rings(problem: Problem, buffer: Mapping[str, ScheduledBuffer]) -> dict[str, int]:
    """The alternatives of shape that rings have."""
    found: dict[str, int] = {}
    for ring in problem.kernel.rings:
        choice = problem.graph.choice.get(ring_choice(ring))
        if choice is None:
            continue
        lags = tuple(buffer[name].lag for name in ring.regions)
        shape = RingOption(buffer[ring.regions[0]].depth, lags)
        if shape not in choice.options:
            raise NotDecided(f"ring {ring.name} cannot have the shape that the schedule gives it")
        found[choice.name] = choice.options.index(shape)
    return found


def _tiles_of(problem: Problem, schedule: Schedule, decisions: Decisions) -> TileSchedule:
    """What was decided about the loop over output tiles."""
    buffer = {b.name: b for b in schedule.buffers}
    return TileSchedule(
        period=schedule.tile.period_cycles,
        trips=problem.kernel.trips,
        start={op.id: op.start for op in schedule.ops if op.phase != Phase.BODY},
        role={op.id: op.role for op in schedule.ops},
        depth=decisions.depth,
        ring_depth={r.name: buffer[r.regions[0]].depth for r in problem.kernel.rings},
        cycle=None,
    )


def _differences(problem: Problem, schedule: Schedule, decisions: Decisions) -> Iterator[str]:
    """Where the schedule does not say what follows from ``decisions``."""
    tiles = _tiles_of(problem, schedule, decisions)
    follows = described(problem, decisions, tiles, {r.name: r.name for r in schedule.roles})
    needs = {role.name: role.registers for role in follows["roles"]}
    for role in schedule.roles:
        if role.registers < needs[role.name] or role.registers % _REGISTER_STEP:
            yield f"role {role.name} has {role.registers} registers, it needs {needs[role.name]}"
    given = tuple(replace(role, registers=needs[role.name]) for role in schedule.roles)
    for what, found, wanted in (
        ("operation", schedule.ops, follows["ops"]),
        ("unit", schedule.units, follows["units"]),
        ("dependence", schedule.edges, follows["edges"]),
        ("role", given, follows["roles"]),
        ("buffer", schedule.buffers, follows["buffers"]),
    ):
        if len(found) != len(wanted):
            yield f"{what}s: {len(found)}, not {len(wanted)}"
        for one, other in zip(found, wanted, strict=False):
            if one != other:
                yield f"{what} {_told(one, other)}"
    yield from _too_many_registers(problem, schedule)


def _told(found: Any, wanted: Any) -> str:
    """The first field that differs, in a message."""
    name, then = next((n, v) for n, v in asdict(wanted).items() if getattr(found, n) != v)
    key = asdict(wanted).get("id") or asdict(wanted).get("name") or f"{wanted.src} -> {wanted.dst}"
    return f"{key}: {name} is {getattr(found, name)!r}, {then!r} follows from the rest"


def _too_many_registers(problem: Problem, schedule: Schedule) -> Iterator[str]:
    """Registers that roles have, for more than the compiler may find in the register file."""
    machine = problem.machine
    wide = [r.registers for r in schedule.roles if r.kind is RoleKind.WARPGROUP]
    narrow = [r.registers for r in schedule.roles if r.kind is RoleKind.WARP]
    total = sum(wide) + max(narrow, default=0)
    if total > machine.registers_per_thread_sum:
        yield f"all roles together have {total} registers a thread"
    for role in schedule.roles:
        if role.registers > machine.max_registers:
            yield f"role {role.name} has {role.registers} registers a thread"

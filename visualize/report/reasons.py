"""Why the II is what it is, and what would help."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from schedgen.bounds import Constraint, ImpossibleCycle, Load, critical_cycle
from schedgen.program.model import Program
from schedgen.reasons import ReasonKind
from schedgen.schedule import Schedule
from schedgen.solver.decisions import Decisions, order_constraints
from schedgen.solver.problem import Problem
from schedgen.synchronize.pace import gains, pace
from schedgen.visualize.report.decided import decisions
from schedgen.visualize.unrolled import Link, links

_SHOWN = 12
_MOST = 200
"""Operations and barriers of a program up to which each of them is tried, in a few seconds."""
_TENTH = 10


def loads(
    schedule: Schedule, program: Program | None, problem: Problem | None
) -> list[dict[str, Any]]:
    """Busy cycles per iteration of each unit and each issuing role, with the share of each
    operation.

    With the problem the roles' cycles count waits and arrivals, as the solver does.
    """
    kinds = {unit.name: unit.kind for unit in schedule.units}
    rows = [_unit(schedule, program, name, kind) for name, kind in kinds.items()]
    rows += [_role(schedule, problem, role.name) for role in schedule.roles]
    return [row for row in rows if row["cycles"]]


def _unit(schedule: Schedule, program: Program | None, name: str, kind: str) -> dict[str, Any]:
    busy = next(unit.busy for unit in schedule.units if unit.name == name)
    parts: list[list[Any]] = []
    for op in schedule.body:
        used = dict(program.operation[op.id].units) if program else {}
        cycles = used.get(name, 0) if program else op.cycles if op.unit == name else 0
        if cycles:
            parts.append([op.id, cycles])
    return {"name": name, "kind": kind, "cycles": busy, "parts": parts}


def _role(schedule: Schedule, problem: Problem | None, name: str) -> dict[str, Any]:
    mine = [op for op in schedule.body if op.role == name]
    found: list[Load] = problem.loads() if problem else []
    counted = {
        part: cycles
        for load in found
        if load.resource.kind is ReasonKind.ISSUE
        for part, cycles in load.parts
    }
    cycles = {op.id: counted.get(op.id, op.hold) for op in mine}
    parts = [list(part) for part in cycles.items()]
    return {"name": name, "kind": "role", "cycles": sum(cycles.values()), "parts": parts}


def cycles(schedule: Schedule) -> list[dict[str, Any]]:
    """The cycles of dependences that set a pace, link by link."""
    tile = schedule.tile
    named = [
        ("certificate", "the certificate's cycle", links(schedule.certificate.cycle)),
        ("schedule", "the slowest cycle of the decided order", links(schedule.critical_cycle)),
    ]
    if tile.period_cycles > tile.floor_cycles:
        named.append(("tile", "what limits the loop over tiles", links(tile.cycle)))
    return [
        {
            "key": key,
            "title": title,
            "delay": sum(link.cycles for link in found),
            "distance": sum(link.distance for link in found),
            "unit": "tile" if key == "tile" else "iteration",
            "links": [_link(link) for link in found],
        }
        for key, title, found in named
        if found
    ]


def _link(link: Link) -> dict[str, Any]:
    return {
        "src": link.src,
        "dst": link.dst,
        "delay": link.cycles,
        "distance": link.distance,
        "reason": link.reason,
    }


def program_pace(program: Program) -> dict[str, Any]:
    """Cycles per iteration of the synchronized program, and the cycle that sets them."""
    low, high = pace(program, "low"), pace(program, "high")
    return {"low": low.cycles, "high": high.cycles, "cycle": list(high.cycle)}


def helps(
    schedule: Schedule | None, program: Program | None, problem: Problem | None
) -> list[dict[str, Any]]:
    """What would make the schedule or the program faster: ``what`` brings ``cycles``, from ``now``.

    For the schedule the decided order is kept, so that a new solve may gain more. Changes that gain
    the same are one row.
    """
    rows: list[dict[str, Any]] = []
    if schedule is not None and problem is not None:
        rows.extend(_in_schedule(schedule, problem))
    if program is not None and tried(program):
        now = pace(program).cycles
        found = [(gain.what, gain.cycles) for gain in gains(program)]
        rows.extend(_grouped("program", now, found))
    return rows


def tried(program: Program) -> bool:
    """Whether `helps` tries changes of ``program``: of large ones that takes too long."""
    return len(program.operations) + len(program.barriers) <= _MOST


def _in_schedule(schedule: Schedule, problem: Problem) -> list[dict[str, Any]]:
    made = decisions(schedule, problem)
    if made is None:
        return []
    constraints = order_constraints(problem, made)
    cycle = critical_cycle(constraints)
    if cycle is None:
        return []
    floor = max((load.cycles for load in problem.loads()), default=0)
    now = _ratio(constraints)
    found: list[tuple[str, float]] = []
    # What is not on the slowest cycle leaves it as slow as it is.
    on_cycle = {(c.src, c.dst) for c in cycle.constraints}
    for name in (op.id for op in schedule.body if op.id in {src for src, _ in on_cycle}):
        quicker = [_quicker(c) if c.src == name else c for c in constraints]
        found.append((f"{name} a tenth shorter", _ratio(quicker)))
    for name in _deepened(problem, made, on_cycle):
        deeper = {**made.depth, name: made.depth[name] + 1}
        more = Decisions(made.ii, made.start, made.role, deeper, made.option)
        found.append((f"one more slot for {name}", _ratio(order_constraints(problem, more))))
    # A unit or a role that is busy all the time leaves nothing to gain.
    better = sorted((f for f in found if max(f[1], floor) < now), key=lambda f: f[1])
    rows = _grouped("schedule", now, better)
    for row in rows:
        row["floor"] = floor
    return rows


def _quicker(constraint: Constraint) -> Constraint:
    c = constraint
    return Constraint(c.src, c.dst, c.delay - abs(c.delay) // _TENTH, c.distance, c.reason)


def _deepened(problem: Problem, made: Decisions, on_cycle: set[tuple[str, str]]) -> list[str]:
    """Buffers whose depth is the distance of a dependence between ``on_cycle`` operations."""
    edges = [dependence.edge for dependence in problem.dependences]
    names = {edge.depth_of for edge in edges if (edge.src, edge.dst) in on_cycle}
    return [
        region.name for region in problem.kernel.regions if region.name in names & {*made.depth}
    ]


def _ratio(constraints: list[Constraint]) -> float:
    try:
        cycle = critical_cycle(constraints)
    except ImpossibleCycle:
        return float("inf")
    return round(float(cycle.ratio), 2) if cycle else 0.0


def _grouped(where: str, now: float, found: list[tuple[str, float]]) -> list[dict[str, Any]]:
    rows = [
        {"where": where, "now": now, "cycles": cycles, "what": [what for what, _ in group]}
        for cycles, group in groupby(found, key=lambda gain: gain[1])
    ]
    return rows[:_SHOWN]

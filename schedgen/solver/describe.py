"""What decisions amount to: operations, units, dependences, roles and buffers of a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from schedgen.dependence import RingOption, ring_choice
from schedgen.kernel import Kernel, Phase
from schedgen.reasons import ReasonKind
from schedgen.schedule import (
    ScheduledBuffer,
    ScheduledEdge,
    ScheduledOperation,
    ScheduledRole,
    UnitLoad,
)
from schedgen.solver.decisions import Decisions, decided_edges
from schedgen.solver.problem import Problem
from schedgen.solver.registers import role_registers
from schedgen.solver.storage import placements_of
from schedgen.solver.tiles import TileSchedule


class Described(TypedDict):
    """The parts of a schedule that follow from what was decided."""

    ops: tuple[ScheduledOperation, ...]
    units: tuple[UnitLoad, ...]
    edges: tuple[ScheduledEdge, ...]
    roles: tuple[ScheduledRole, ...]
    buffers: tuple[ScheduledBuffer, ...]


def described(
    problem: Problem, decisions: Decisions, tiles: TileSchedule, names: Mapping[str, str]
) -> Described:
    """What ``decisions`` and ``tiles`` amount to; ``names`` are those of the roles."""
    return {
        "ops": _operations(problem, decisions, tiles, names),
        "units": _units(problem, decisions.ii),
        "edges": _edges(problem, decisions),
        "roles": _roles(problem, decisions, tiles, names),
        "buffers": _buffers(problem, decisions, tiles),
    }


def _operations(
    problem: Problem, decisions: Decisions, tiles: TileSchedule, names: Mapping[str, str]
) -> tuple[ScheduledOperation, ...]:
    found: list[ScheduledOperation] = []
    for operation in problem.kernel.operations:
        if operation.boundary:
            continue
        cost, in_loop = problem.costs[operation.name], operation.phase is Phase.BODY
        start = decisions.start[operation.name] if in_loop else tiles.start[operation.name]
        units = sorted(cost.units, key=lambda use: -use[1])
        found.append(
            ScheduledOperation(
                id=operation.name,
                kind=operation.kind.value,
                phase=operation.phase.value,
                unit=units[0][0] if units else _main_rate(problem, operation.name),
                role=names[tiles.role[operation.name]],
                start=start,
                cycles=cost.busy,
                hold=problem.hold(operation.name),
                latency=problem.latency(operation.name),
                stage=start // decisions.ii if in_loop else 0,
                slot=start % decisions.ii if in_loop else start,
            )
        )
    return tuple(found)


def _main_rate(problem: Problem, name: str) -> str:
    rates = sorted(problem.costs[name].rates, key=lambda use: -use[1])
    return rates[0][0] if rates else ""


def _units(problem: Problem, ii: int) -> tuple[UnitLoad, ...]:
    exclusive = problem.exclusive_units
    found: list[UnitLoad] = []
    for load in problem.loads():
        if load.resource.kind is ReasonKind.UNIT:
            (unit,) = load.resource.subjects
            kind = "exclusive" if unit in exclusive else "rate"
            found.append(UnitLoad(unit, kind, load.cycles, round(load.cycles / ii, 4)))
    return tuple(found)


def _edges(problem: Problem, decisions: Decisions) -> tuple[ScheduledEdge, ...]:
    start, ii = decisions.start, decisions.ii
    return tuple(
        ScheduledEdge(
            edge.src,
            edge.dst,
            distance,
            edge.kind.value,
            edge.resource,
            edge.bytes,
            delay,
            start[edge.dst] + ii * distance - start[edge.src] - delay,
        )
        for edge, delay, distance in decided_edges(problem, decisions)
    )


def _roles(
    problem: Problem, decisions: Decisions, tiles: TileSchedule, names: Mapping[str, str]
) -> tuple[ScheduledRole, ...]:
    needs = role_registers(problem, tiles.role, tiles.depth)
    return tuple(
        ScheduledRole(
            name=names[key],
            warps=problem.machine.role[problem.costs[members[0]].role].warps,
            registers=needs[key],
            operations=tuple(
                sorted(members, key=lambda n: _issue_place(problem.kernel, decisions, n))
            ),
        )
        for key in names
        if (members := [name for name, owner in tiles.role.items() if owner == key])
    )


def _issue_place(kernel: Kernel, decisions: Decisions, name: str) -> tuple[int, int]:
    """Before the loop, in it by start time within the period, after it."""
    phase = kernel.operation[name].phase
    if phase is Phase.BODY:
        return 1, decisions.start[name]
    place = [o.name for o in kernel.operations].index(name)
    return (0 if phase is Phase.BEFORE else 2), place


def _buffers(
    problem: Problem, decisions: Decisions, tiles: TileSchedule
) -> tuple[ScheduledBuffer, ...]:
    placements, _ = placements_of(
        problem.kernel,
        problem.graph,
        Decisions(decisions.ii, decisions.start, decisions.role, tiles.depth, decisions.option),
        tiles.ring_depth,
    )
    lag: dict[str, int] = {}
    for ring in problem.kernel.rings:
        choice = problem.graph.choice.get(ring_choice(ring))
        option = choice.options[decisions.option[choice.name]] if choice else None
        if isinstance(option, RingOption):
            lag.update(zip(ring.regions, option.lags, strict=True))
    found: list[ScheduledBuffer] = []
    for placement in placements:
        region = problem.kernel.region[placement.region]
        found.append(
            ScheduledBuffer(
                name=region.name,
                space=region.space.value,
                bytes=region.slot_bytes,
                depth=placement.depth,
                address=placement.address,
                alias=placement.alias,
                skew=placement.skew,
                ring=placement.ring,
                lag=lag.get(region.name, 0),
            )
        )
    return tuple(found)

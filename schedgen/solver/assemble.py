"""Puts what the solvers decided together into a :class:`Schedule`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

import schedgen
from schedgen.bounds import Constraint, critical_cycle
from schedgen.dependence import RingOption, ring_choice
from schedgen.kernel import Kernel, Phase
from schedgen.reasons import ReasonKind
from schedgen.schedule import (
    Certificate,
    Link,
    ObjectiveValue,
    Schedule,
    ScheduledBuffer,
    ScheduledEdge,
    ScheduledOperation,
    ScheduledRole,
    TileLoop,
    UnitLoad,
)
from schedgen.solver.decisions import Decisions, order_constraints
from schedgen.solver.problem import Problem, build_problem
from schedgen.solver.registers import role_registers
from schedgen.solver.search import Result
from schedgen.solver.storage import place
from schedgen.solver.tiles import TileSchedule


def assemble(
    problem: Problem, result: Result, tiles: TileSchedule, notes: tuple[str, ...] = ()
) -> Schedule:
    """The schedule that ``result`` and ``tiles`` describe."""
    decisions = result.decisions
    names = role_names(problem, tiles.role)
    constraints = order_constraints(problem, decisions)
    cycle = critical_cycle(constraints)
    first = min(decisions.start.values())
    return Schedule(
        kernel=problem.kernel.name,
        target=problem.machine.name,
        arch=problem.machine.arch,
        schedgen=schedgen.__version__,
        spec=problem.kernel.spec_file,
        spec_sha256=problem.kernel.spec_sha256,
        machine_sha256=problem.machine.sha256,
        latencies=problem.end,
        parameters=dict(problem.kernel.parameters),
        choices=_choices(problem, decisions),
        ii_cycles=result.ii,
        lower_bound_cycles=result.lower_bound,
        proven_optimal=result.proven,
        certificate=certificate(result),
        max_cycle_ratio_cycles=_ratios(problem, decisions)[problem.end],
        cycle_ratios=_ratios(problem, decisions),
        critical_cycle=_links(cycle.constraints if cycle else ()),
        stages=max((t - first) // result.ii for t in decisions.start.values()) + 1,
        length_cycles=max(decisions.start[n] - first + problem.latency(n) for n in problem.body),
        objectives=tuple(ObjectiveValue(o.name, o.value, o.proven) for o in result.objectives),
        **described(problem, decisions, tiles, names),
        tile=TileLoop(
            tiles.trips,
            tiles.period,
            tiles.trips * result.ii,
            _links(tiles.cycle.constraints if tiles.cycle else ()),
        ),
        notes=notes,
    )


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


def certificate(result: Result) -> Certificate:
    """Why nothing below the II of ``result`` is possible."""
    resource, recurrence = result.bound.resource, result.bound.recurrence
    if not result.proven:
        text = f"not proven: the search ended with II {result.ii}, lower bound {result.lower_bound}"
        return Certificate("none", text)
    if resource is not None and resource.cycles == result.ii:
        return Certificate("resource", resource.render(), units=(resource.resource.text,))
    if recurrence is not None and recurrence.bound == result.ii:
        return Certificate("recurrence", recurrence.render(), cycle=_links(recurrence.constraints))
    bound = result.bound.cycles
    text = (
        f"CP-SAT proved II {result.ii - 1} infeasible with up to {result.stages} stages; "
        f"the arithmetic bound is {bound}"
    )
    return Certificate("infeasible", text)


def _links(constraints: tuple[Constraint, ...]) -> tuple[Link, ...]:
    return tuple(
        Link(c.src, c.dst, c.delay, c.distance, c.reason)
        for c in constraints
        if c.reason is not None
    )


def _ratios(problem: Problem, decisions: Decisions) -> dict[str, float]:
    """Cycles per iteration that the decided order reaches at both ends of the latencies."""
    ratios: dict[str, float] = {}
    for end in ("low", "high"):
        other = (
            problem
            if end == problem.end
            else build_problem(problem.kernel, problem.machine, problem.graph, end)
        )
        cycle = critical_cycle(order_constraints(other, decisions))
        ratios[end] = round(float(cycle.ratio), 3) if cycle else 0.0
    return ratios


def _choices(problem: Problem, decisions: Decisions) -> dict[str, str]:
    """Parameters and storage that the solver picked, in words."""
    found = dict(problem.kernel.choices)
    for choice in problem.graph.choices:
        option = choice.options[decisions.option[choice.name]]
        if isinstance(option, RingOption):
            lags = ", ".join(map(str, option.lags))
            found[choice.name] = f"{option.depth} slots, lags {lags}"
        elif option.host is None:
            found[choice.name] = "storage of its own"
        else:
            found[choice.name] = f"in {option.host}" + (
                f", version j + {option.skew}" if option.skew else ""
            )
    return found


def role_names(problem: Problem, role: Mapping[str, str]) -> dict[str, str]:
    """A name for each role: the label of most of its work, or what kind of work it is; numbered if
    shared.
    """
    stems: dict[str, str] = {}
    for key in dict.fromkeys(role.values()):
        members = [problem.kernel.operation[n] for n, owner in role.items() if owner == key]
        pinned = next((o.role for o in members if o.role is not None), None)
        weight: dict[str, int] = {}
        for operation in members:
            if operation.label:
                hold = problem.costs[operation.name].hold.at(problem.end)
                weight[operation.label] = weight.get(operation.label, 0) + hold + 1
        cost = problem.costs[members[0].name]
        if pinned is not None:
            stems[key] = pinned
        elif problem.machine.role[cost.role].per_unit:
            stems[key] = cost.units[0][0] if cost.units else key
        elif weight:
            stems[key] = max(weight, key=lambda name: weight[name])
        else:
            stems[key] = {"copy": key if key in ("store", "tile load") else "load"}.get(
                cost.role, cost.role
            )
    stems = {key: stem.replace(" ", "_") for key, stem in stems.items()}
    shared = {stem for stem in stems.values() if list(stems.values()).count(stem) > 1}
    count: dict[str, int] = {}
    names: dict[str, str] = {}
    for key, stem in stems.items():
        names[key] = f"{stem}{count.get(stem, 0)}" if stem in shared else stem
        count[stem] = count.get(stem, 0) + 1
    return names


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
    found: list[ScheduledEdge] = []
    for dependence in problem.dependences:
        edge = dependence.edge
        if (
            edge.condition is not None
            and decisions.option[edge.condition.choice] != edge.condition.option
        ):
            continue
        groups = problem.group_of[edge.src].name, problem.group_of[edge.dst].name
        delay = dependence.delay + (
            dependence.handoff if decisions.crosses(problem, *groups) else 0
        )
        distance = edge.resolved(decisions.depth).distance
        slack = (
            decisions.start[edge.dst] + decisions.ii * distance - decisions.start[edge.src] - delay
        )
        found.append(
            ScheduledEdge(
                edge.src,
                edge.dst,
                distance,
                edge.kind.value,
                edge.resource,
                edge.bytes,
                delay,
                slack,
            )
        )
    return tuple(found)


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
    placements, _ = place(
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

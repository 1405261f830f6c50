"""Puts what the solvers decided together into a :class:`Schedule`."""

from __future__ import annotations

from collections.abc import Mapping

import schedgen
from schedgen.bounds import Constraint, critical_cycle
from schedgen.dependence import RingOption
from schedgen.kernel import Operation, Phase
from schedgen.schedule import (
    Certificate,
    Link,
    ObjectiveValue,
    Schedule,
    TileLoop,
)
from schedgen.solver.decisions import Decisions, order_constraints
from schedgen.solver.describe import described
from schedgen.solver.problem import Problem, build_problem
from schedgen.solver.search import Result
from schedgen.solver.tiles import TILE_LOADS, TileSchedule


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


def _copies(key: str, members: list[Operation]) -> str:
    """What a role of bulk copies is called: those of a tile stand before its main loop, or after
    it.
    """
    if key != TILE_LOADS:
        return "store" if key == "store" else "load"
    phases = {operation.phase for operation in members}
    names = {Phase.BEFORE: "prologue_load", Phase.AFTER: "epilogue_load"}
    return names[phases.pop()] if len(phases) == 1 else "tile_load"


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
            stems[key] = _copies(key, members) if cost.role == "copy" else cost.role
    stems = {key: stem.replace(" ", "_") for key, stem in stems.items()}
    shared = {stem for stem in stems.values() if list(stems.values()).count(stem) > 1}
    count: dict[str, int] = {}
    names: dict[str, str] = {}
    for key, stem in stems.items():
        names[key] = f"{stem}{count.get(stem, 0)}" if stem in shared else stem
        count[stem] = count.get(stem, 0) + 1
    return names

"""All modulo schedules of a small problem by plain backtracking, without a solver.

For published graphs with unit latencies, where "how many schedules are there, and how many of them
are wrong" is the question, and as an oracle for the solver on small problems.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from schedgen.bounds import Constraint
from schedgen.solver.decisions import Decisions
from schedgen.solver.problem import Problem


def enumerate_schedules(problem: Problem, ii: int, stages: int) -> Iterator[Decisions]:
    """Every schedule of ``problem`` with start times from 0 to ``ii * stages - 1``.

    Times are absolute: a schedule and the same one a cycle later are two. Raises ValueError if the
    problem leaves anything but start times to decide (ring depths, storage, roles).
    """
    depth, role, option = _decided(problem)
    constraints = [
        Constraint(d.edge.src, d.edge.dst, delay, d.edge.resolved(depth).distance)
        for d in problem.dependences
        for delay in (d.delay + (d.handoff if _apart(problem, d.edge.src, d.edge.dst) else 0),)
    ]
    for start in _extend({}, _order(problem, constraints), constraints, problem, ii, ii * stages):
        yield Decisions(ii, start, role, depth, option)


def violated(constraint: Constraint, ii: int, start: Mapping[str, int]) -> bool:
    """Whether ``start`` breaks ``constraint``."""
    return (
        start[constraint.dst] + ii * constraint.distance < start[constraint.src] + constraint.delay
    )


def _decided(problem: Problem) -> tuple[dict[str, int], dict[str, str], dict[str, int]]:
    """Depths, roles and storage of a problem that leaves none of them open."""
    open_depths = [r.name for r in problem.kernel.regions if not r.depth.fixed]
    open_choices = [choice.name for choice in problem.graph.choices if len(choice.options) > 1]
    open_roles = [f"role of {a.name} and {b.name}" for a, b in problem.mergeable]
    if undecided := [*open_depths, *open_choices, *open_roles]:
        raise ValueError(f"{problem.kernel.name} leaves open: {', '.join(undecided)}")
    depth = {region.name: region.depth.low for region in problem.kernel.regions}
    role = {group.name: group.name for group in problem.body_groups}
    return depth, role, {choice.name: 0 for choice in problem.graph.choices}


def _apart(problem: Problem, one: str, other: str) -> bool:
    return problem.group_of[one] is not problem.group_of[other]


def _order(problem: Problem, constraints: list[Constraint]) -> list[str]:
    """Operations such that each is tied to an earlier one where possible: mistakes show early."""
    left, order = list(problem.body), list[str]()
    while left:
        linked = {c.dst for c in constraints if c.src in order} | {
            c.src for c in constraints if c.dst in order
        }
        order.append(next((name for name in left if name in linked), left[0]))
        left.remove(order[-1])
    return order


def _extend(
    start: dict[str, int],
    order: list[str],
    constraints: list[Constraint],
    problem: Problem,
    ii: int,
    horizon: int,
) -> Iterator[dict[str, int]]:
    """All ways to complete ``start``."""
    if len(start) == len(order):
        yield dict(start)
        return
    name = order[len(start)]
    known = {name, *start}
    mine = [c for c in constraints if name in (c.src, c.dst) and {c.src, c.dst} <= known]
    for time in range(horizon):
        start[name] = time
        if not any(violated(c, ii, start) for c in mine) and _free(problem, ii, start, name):
            yield from _extend(start, order, constraints, problem, ii, horizon)
        del start[name]


def _free(problem: Problem, ii: int, start: Mapping[str, int], name: str) -> bool:
    """Whether the units and the issuing role of ``name`` have time for it, modulo ``ii``."""
    for other in start:
        for unit, cycles in problem.costs[name].units:
            theirs = problem.costs[other].cycles(unit)
            if theirs and not _disjoint(
                ii, start[name], cycles, start[other], theirs, name != other
            ):
                return False
        if not _apart(problem, name, other) and not problem.group_of[name].role_class.issues_ahead:
            holds = problem.hold(name), problem.hold(other)
            if all(holds) and not _disjoint(
                ii, start[name], holds[0], start[other], holds[1], name != other
            ):
                return False
    return True


def _disjoint(ii: int, one: int, cycles: int, other: int, theirs: int, distinct: bool) -> bool:
    """Whether two uses of one unit do not meet on the circle of ``ii`` cycles."""
    if not distinct:
        return cycles <= ii
    gap = (other - one) % ii
    return cycles <= gap and theirs <= ii - gap

"""What a solver decided, free of the solver: start times, roles, ring depths and storage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from schedgen.bounds import Constraint
from schedgen.edges import Edge
from schedgen.reasons import Reason, ReasonKind
from schedgen.solver.problem import Problem


@dataclass(frozen=True)
class Decisions:
    """A modulo schedule; ``role`` maps each group of the main loop to the first of its role."""

    ii: int
    start: Mapping[str, int]
    role: Mapping[str, str]
    depth: Mapping[str, int]
    option: Mapping[str, int]

    def at(self, ii: int, start: Mapping[str, int]) -> Decisions:
        """The same decisions at another II."""
        return replace(self, ii=ii, start=dict(start))

    def crosses(self, problem: Problem, one: str, other: str) -> bool:
        """Whether two groups are issued by different roles; groups outside the main loop are on
        their own.
        """
        return self.role.get(one, one) != self.role.get(other, other)


def crossing_groups(problem: Problem, decisions: Decisions, name: str) -> list[str]:
    """The groups whose role differs from the one of operation ``name``."""
    mine = problem.group_of[name].name
    return [g.name for g in problem.body_groups if decisions.crosses(problem, mine, g.name)]


def decided_edges(problem: Problem, decisions: Decisions) -> Iterator[tuple[Edge, int, int]]:
    """Edges that hold with the storage that was decided, each with its delay in cycles, hand-offs
    between roles included, and its distance in iterations.
    """
    for dependence in problem.dependences:
        edge, when = dependence.edge, dependence.edge.condition
        if when is not None and decisions.option[when.choice] != when.option:
            continue
        groups = problem.group_of[edge.src].name, problem.group_of[edge.dst].name
        handoff = dependence.handoff if decisions.crosses(problem, *groups) else 0
        yield edge, dependence.delay + handoff, edge.resolved(decisions.depth).distance


def order_constraints(problem: Problem, decisions: Decisions) -> list[Constraint]:
    """Everything that fixes the pace once all is decided: dependences, unit order and role order.

    Two operations that exclude each other keep the order in which they are on the circle of II
    cycles.
    """
    constraints = [
        Constraint(edge.src, edge.dst, delay, distance, edge.reason)
        for edge, delay, distance in decided_edges(problem, decisions)
    ]
    for unit, names in problem.exclusive_units.items():
        periods = Reason(ReasonKind.PERIODS, (unit,))
        for a, b in combinations(names, 2):
            cycles = problem.costs[a].cycles(unit), problem.costs[b].cycles(unit)
            constraints.extend(_both_ways(decisions, a, b, cycles, (0, 0), periods))
    for a, b in combinations(problem.body, 2):
        groups = problem.group_of[a].name, problem.group_of[b].name
        if decisions.crosses(problem, *groups) or problem.group_of[a].role_class.issues_ahead:
            continue
        spans = [role_span(problem, decisions, name) for name in (a, b)]
        if all(sum(span) for span in spans):
            tails = spans[0][1] + spans[1][0], spans[1][1] + spans[0][0]
            leads = spans[0][0], spans[1][0]
            constraints.extend(
                _both_ways(decisions, a, b, tails, leads, Reason(ReasonKind.ROLE_PERIODS))
            )
    return constraints


def role_span(problem: Problem, decisions: Decisions, name: str) -> tuple[int, int]:
    """Role cycles before and after the start of an operation."""
    crossing = crossing_groups(problem, decisions, name)
    return problem.lead(name, crossing), problem.tail(name, crossing)


def _both_ways(
    decisions: Decisions,
    a: str,
    b: str,
    cycles: tuple[int, int],
    leads: tuple[int, int],
    reason: Reason,
) -> list[Constraint]:
    """a before b by the periods between them, and b before the next a."""
    ii = decisions.ii
    gap = (decisions.start[b] - leads[1]) - (decisions.start[a] - leads[0])
    periods = gap // ii
    return [
        Constraint(a, b, cycles[0], -periods, reason),
        Constraint(b, a, cycles[1], periods + 1, reason),
    ]


def busiest_role(problem: Problem, decisions: Decisions) -> int:
    """Cycles per iteration that the busiest role spends on waiting, issuing and signalling."""
    cycles: dict[str, int] = {}
    for name in problem.body:
        group = problem.group_of[name]
        if not group.role_class.per_unit:
            role = decisions.role[group.name]
            cycles[role] = cycles.get(role, 0) + sum(role_span(problem, decisions, name))
    return max(cycles.values(), default=0)

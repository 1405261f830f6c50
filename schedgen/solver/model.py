"""The CP-SAT model of one initiation interval: start times, roles, ring depths, storage and
registers together.

Exclusive units and roles are circles of II cycles. Two operations that must not meet on one are
some whole number of periods apart; given that number, the constraint is a difference of two start
times, like every dependence. So the whole model is difference constraints under literals, in real
cycles, and start times need no split into slot and stage. One method adds one family of
constraints; ``build`` lists them in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

from ortools.sat.python import cp_model

from schedgen.solver.problem import Dependence, Group, Problem
from schedgen.solver.windows import Windows

Linear = cp_model.LinearExpr | int


# More possible periods than this are an integer variable instead of a literal each.
MOST_LITERALS = 4


@dataclass(frozen=True, slots=True)
class Periods:
    """Whole periods of a circle by which one operation follows another: ``number``, a sum over
    ``literals`` if there are any, of which one holds.
    """

    number: Linear
    literals: tuple[cp_model.IntVar, ...] = ()


def unit_circle(unit: str) -> str:
    """The name of the circle of ``unit``."""
    return f"unit {unit}"


class ModuloModel:
    """Variables and constraints for ``problem`` at initiation interval ``ii`` over at most
    ``stages`` stages, but for capacities: `schedgen.solver.formulation` adds those.
    """

    def __init__(self, problem: Problem, ii: int, stages: int) -> None:
        self.problem = problem
        self.ii = ii
        self.stages = stages
        self.cp = cp_model.CpModel()
        self.start: dict[str, cp_model.IntVar] = {}
        self.same: dict[tuple[str, str], cp_model.IntVar] = {}
        self.option: dict[tuple[str, int], cp_model.IntVar] = {}
        self.opens: dict[str, cp_model.IntVar] = {}
        self.depth: dict[str, Linear] = {}
        self.registers: dict[str, Linear] = {}
        self.smem: Linear = 0
        self.tmem: Linear = 0
        self.periods: dict[str, dict[tuple[str, str], Periods]] = {}
        """Circle (unit, or group of a role) -> periods between each two that never meet on it."""
        self._active: dict[str, cp_model.IntVar] = {}
        self._spans: dict[str, tuple[Linear, Linear]] = {}
        self.windows = Windows(problem.body, problem.unconditional(), ii)
        self.add_times()
        self.add_roles()
        self.add_storage_choices()
        self.add_dependences()
        self.add_units()
        self.add_role_order()

    # -- variables
    # ---------------------------------------------------------------------------------------------

    def add_times(self) -> None:
        """A start time per operation, relative to the first one, within what dependences allow."""
        body = self.problem.body
        reach = self.ii * self.stages
        for name in body:
            least = self.windows.least(body[0], name)
            most = self.windows.most(body[0], name)
            low = -reach if least is None else max(least, -reach)
            high = reach if most is None else min(most, reach)
            if low > high:
                self.cp.add_bool_or([])
                low, high = 0, 0
            self.start[name] = self.cp.new_int_var(low, high, f"start {name}")

    def add_roles(self) -> None:
        """Sharing a role is an equivalence between the groups that may share one."""
        self.mergeable = self.problem.mergeable_at(self.ii)
        for one, other in self.mergeable:
            self.same[one.name, other.name] = self.cp.new_bool_var(
                f"{one.name} and {other.name} share a role"
            )
        names = [group.name for group in self.problem.body_groups]
        for (a, c), b in product(combinations(names, 2), names):
            first, second = self.known(a, b), self.known(b, c)
            if b not in (a, c) and first is not None and second is not None:
                self.cp.add_bool_or([first.negated(), second.negated(), self.same_role(a, c)])
        for one, other in self.mergeable:
            if one.pinned is not None and one.pinned == other.pinned:
                self.cp.add(self.same[one.name, other.name] == 1)
        for number, group in enumerate(self.problem.body_groups):
            shared = [
                self.same[e.name, group.name]
                for e in self.problem.body_groups[:number]
                if (e.name, group.name) in self.same
            ]
            self.opens[group.name] = self.cp.new_bool_var(f"{group.name} opens a role")
            self.cp.add_bool_or([self.opens[group.name], *shared])
            for literal in shared:
                self.cp.add_implication(literal, self.opens[group.name].negated())

    def same_role(self, one: str, other: str) -> cp_model.IntVar:
        """The literal that groups ``one`` and ``other`` share a role, false if they cannot."""
        literal = self.known(one, other)
        return self.cp.new_constant(0) if literal is None else literal

    def known(self, one: str, other: str) -> cp_model.IntVar | None:
        """The literal that two groups share a role if that is a decision at all."""
        return self.same.get((one, other), self.same.get((other, one)))

    def add_storage_choices(self) -> None:
        """Ring depths, and one alternative per storage decision."""
        rotating = {edge.depth_of for edge in self.problem.graph.edges}
        for region in self.problem.kernel.regions:
            if region.depth.fixed or region.name not in rotating:
                self.depth[region.name] = region.depth.low
            else:
                self.depth[region.name] = self.cp.new_int_var(
                    region.depth.low, region.depth.high, f"depth {region.name}"
                )
        for choice in self.problem.graph.choices:
            literals = [
                self.cp.new_bool_var(f"{choice.name}: {n}") for n in range(len(choice.options))
            ]
            self.cp.add_exactly_one(literals)
            self.option.update(((choice.name, n), literal) for n, literal in enumerate(literals))
        for choice in self.problem.graph.choices:
            for mine, rival in choice.excludes:
                theirs = self.option.get((rival.choice, rival.option))
                if theirs is not None:
                    self.cp.add_bool_or(
                        [self.option[choice.name, mine].negated(), theirs.negated()]
                    )

    # -- constraints
    # -------------------------------------------------------------------------------------------

    def add_dependences(self) -> None:
        """start(dst) + II * distance >= start(src) + delay, plus a hand-off between different
        roles.
        """
        for dependence in self.problem.dependences:
            edge = dependence.edge
            slack = self.slack(dependence)
            if edge.condition is None:
                self.cp.add(slack >= 0)
            else:
                literal = self.option[edge.condition.choice, edge.condition.option]
                self.cp.add(slack >= 0).only_enforce_if(literal)

    def slack(self, dependence: Dependence) -> cp_model.LinearExpr:
        """Cycles by which ``dependence`` is fulfilled."""
        edge = dependence.edge
        distance = edge.distance + (self.depth[edge.depth_of] if edge.depth_of else 0)
        delay = dependence.delay + dependence.handoff * self.crosses(edge.src, edge.dst)
        return self.start[edge.dst] + self.ii * distance - self.start[edge.src] - delay

    def crosses(self, one: str, other: str) -> Linear:
        """1 if the two operations are issued by different roles, else 0."""
        a, b = self.problem.group_of[one].name, self.problem.group_of[other].name
        if a == b:
            return 0
        together = self.known(a, b)
        return 1 if together is None else 1 - together

    def add_units(self) -> None:
        """An exclusive unit serves one operation at a time."""
        for unit, names in self.problem.exclusive_units.items():
            for a, b in combinations(names, 2):
                cycles = [self.problem.costs[name].cycles(unit) for name in (a, b)]
                periods = self.keep_apart(a, b, (0, 0), (cycles[0], cycles[1]))
                self.periods.setdefault(unit_circle(unit), {})[a, b] = periods

    def add_role_order(self) -> None:
        """A warpgroup issues its operations one after another; waits come before, the arrive after.

        A role of one thread only hands work to a unit that queues it, so it may run ahead of the
        start times; that it is not too busy for the II is part of the resource bound.
        """
        for group in self.problem.body_groups:
            if group.role_class.issues_ahead:
                self._limit_issue(group)
                continue
            for name in self.problem.in_body(group):
                self.cp.add(sum(self.role_span(name)) <= self.ii)
            for a, b in combinations(self.problem.in_body(group), 2):
                self._keep_roles_apart(a, b, None)
        for one, other in self.mergeable:
            if not one.role_class.issues_ahead:
                together = self.same[one.name, other.name]
                for a, b in product(self.problem.in_body(one), self.problem.in_body(other)):
                    self._keep_roles_apart(a, b, together)

    def _limit_issue(self, group: Group) -> None:
        """What a role that runs ahead has to issue in an iteration takes at most the II."""
        total: Linear = self._issue_cycles(group)
        for other in self.problem.body_groups:
            literal = self.known(group.name, other.name)
            if literal is not None and other.name != group.name:
                share = self.cp.new_int_var(0, self.ii, f"issue of {other.name} by {group.name}")
                cycles = self._issue_cycles(other)
                self.cp.add(share >= cycles).only_enforce_if(literal)
                total = total + share
        self.cp.add(total <= self.ii)

    def _issue_cycles(self, group: Group) -> Linear:
        return sum(sum(self.role_span(name)) for name in self.problem.in_body(group))

    def _keep_roles_apart(self, a: str, b: str, when: cp_model.IntVar | None) -> None:
        (lead_a, tail_a), (lead_b, tail_b) = self.role_span(a), self.role_span(b)
        conditions = [] if when is None else [when]
        for busy in (self._busy(a), self._busy(b)):
            if busy is False:
                return
            if busy is not True:
                conditions.append(busy)
        periods = self.keep_apart(a, b, (lead_a, lead_b), (tail_a, tail_b), conditions)
        if not conditions:
            circle = f"role of {self.problem.group_of[a].name}"
            self.periods.setdefault(circle, {})[a, b] = periods

    def _busy(self, name: str) -> cp_model.IntVar | bool:
        """Whether the role spends any cycles on ``name``; what takes none meets nothing."""
        span = sum(self.role_span(name))
        if isinstance(span, int) or self.problem.hold(name) > 0:
            return not isinstance(span, int) or span > 0
        if name not in self._active:
            self._active[name] = active = self.cp.new_bool_var(f"{name} takes cycles")
            self.cp.add(span == 0).only_enforce_if(active.negated())
        return self._active[name]

    def keep_apart(
        self,
        a: str,
        b: str,
        leads: tuple[Linear, Linear],
        tails: tuple[Linear, Linear],
        when: Sequence[cp_model.IntVar] = (),
    ) -> Periods:
        """On the circle of II cycles, [start - lead, start + tail) of ``a`` and ``b`` do not meet,
        where all literals of ``when`` hold.

        Some whole number of periods lies between them. Where dependences leave one number only, no
        decision is needed.
        """
        gap = self.start[b] - self.start[a]
        after, before = tails[0] + leads[1], tails[1] + leads[0]
        periods = self._periods(a, b, _at_least(after), _at_least(before))
        given = [literal.negated() for literal in when]
        if len(periods) > MOST_LITERALS:
            return self._period_variable(gap, periods, after, before, when)
        literals = [self.cp.new_bool_var(f"{b} {period} periods after {a}") for period in periods]
        self.cp.add_bool_or([*given, *literals])
        for period, literal in zip(periods, literals, strict=True):
            self.cp.add(gap - period * self.ii >= after).only_enforce_if(literal)
            self.cp.add(gap - period * self.ii <= self.ii - before).only_enforce_if(literal)
        number = sum(period * literal for period, literal in zip(periods, literals, strict=True))
        return Periods(number, tuple(literals))

    def _period_variable(
        self,
        gap: Linear,
        periods: range,
        after: Linear,
        before: Linear,
        when: Sequence[cp_model.IntVar],
    ) -> Periods:
        """The number of periods as an integer, where so many are possible that literals would drown
        the model.
        """
        period = self.cp.new_int_var(periods.start, periods.stop - 1, "periods")
        for constraint in (
            gap - self.ii * period >= after,
            gap - self.ii * period <= self.ii - before,
        ):
            self.cp.add(constraint).only_enforce_if(*when)
        return Periods(period)

    def _periods(self, a: str, b: str, after: int, before: int) -> range:
        """Numbers of periods by which ``b`` can follow ``a``, given how far apart dependences let
        them be.
        """
        least, most = self.windows.least(a, b), self.windows.most(a, b)
        low = -self.stages if least is None else -(-(least + before - self.ii) // self.ii)
        high = self.stages if most is None else (most - after) // self.ii
        return range(max(low, -self.stages), min(high, self.stages) + 1)

    def role_span(self, name: str) -> tuple[Linear, Linear]:
        """Role cycles before and after the start of an operation; they shrink when roles are
        shared.
        """
        if name not in self._spans:
            self._spans[name] = self._role_span(name)
        return self._spans[name]

    def _role_span(self, name: str) -> tuple[Linear, Linear]:
        problem = self.problem
        mine = problem.group_of[name].name
        waits, arrives = problem.synchronization[name].waits, problem.synchronization[name].arrives
        lead = problem.machine.cycles("wait") * sum(1 - self._same_or_zero(mine, g) for g in waits)
        tail: Linear = problem.hold(name)
        if arrives:
            cost = problem.machine.cycles("arrive")
            shared = [self._same_or_zero(mine, g) for g in arrives]
            if any(isinstance(literal, int) for literal in shared):
                return lead, tail + cost
            signals = self.cp.new_bool_var(f"{name} signals")
            for literal in shared:
                self.cp.add(signals >= 1 - literal)
            tail = tail + cost * signals
        return lead, tail

    def _same_or_zero(self, one: str, other: str) -> Linear:
        literal = self.known(one, other)
        return 0 if literal is None else literal


def _at_least(span: Linear) -> int:
    """A lower bound of a role span, for pruning only."""
    return span if isinstance(span, int) else 0

"""Z3 as an independent second opinion on an initiation interval.

The encoding shares no code with the CP-SAT model and none of its pruning. Each operation has an
integer start time without bounds, so a schedule may have any number of stages. Two operations that
exclude each other on the circle of II cycles have an unbounded integer: the whole periods between
them. All else is linear arithmetic under a few literals (which groups share a role, where tiles are
stored). Every assertion carries a `Premise`, so that a person can read an unsatisfiable core.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, permutations, product
from time import perf_counter
from typing import Any

from schedgen.dependence import RingOption, home_choice, ring_choice
from schedgen.kernel import Region, Ring, Space
from schedgen.solver.decisions import Decisions
from schedgen.solver.problem import Dependence, Problem
from schedgen.solver.registers import register_tiles, streaming_registers
from schedgen.solver.storage import BARRIER_BYTES, aligned_bytes

# Z3 resource units for one question: half a minute or so. The shipped specs need a tenth of it.
RESOURCE_LIMIT = 250_000_000

# A Z3 expression or a number: z3 has no type stubs, and is imported only when it is needed.
Term = Any


@dataclass(frozen=True, slots=True)
class Premise:
    """The constraint, as a user sees it, that an assertion comes from.

    ``family``: unit, rate, role, dependence, slots, storage, smem, tmem, registers, warps, or given
    for what defines a decision. ``subject`` names the unit, group, edge, region or decision.
    """

    family: str
    subject: str = ""
    dependence: Dependence | None = None


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What Z3 says about ``ii``: infeasible, feasible or unknown, which confirms nothing.

    ``schedule`` is Z3's own schedule, if it found one.
    """

    ii: int
    verdict: str
    reason: str
    seconds: float
    schedule: Decisions | None = None


def confirm_infeasible(
    problem: Problem, ii: int, *, rlimit: int = RESOURCE_LIMIT, seconds: float | None = None
) -> Confirmation:
    """Whether ``problem`` has no schedule at ``ii``, whatever the number of stages.

    ``rlimit`` is a budget in Z3's deterministic resource units, ``seconds`` a wall-clock backstop.
    """
    begin = perf_counter()
    encoding = Encoding(problem, ii)
    solver = make_solver(encoding, rlimit, seconds)
    solver.add(*(assertion for _, assertion in encoding.assertions))
    answer = str(solver.check())
    verdict = {"unsat": "infeasible", "sat": "feasible"}.get(answer, "unknown")
    text = {
        "infeasible": f"Z3 refuted II {ii} for any number of stages",
        "feasible": f"Z3 found a schedule with II {ii}",
        "unknown": f"Z3 gave up on II {ii}: {solver.reason_unknown()}",
    }
    schedule = encoding.read(solver.model()) if answer == "sat" else None
    return Confirmation(ii, verdict, text[verdict], perf_counter() - begin, schedule)


def make_solver(encoding: Encoding, rlimit: int, seconds: float | None = None) -> Any:
    """An incremental solver for linear integers that repeats itself.

    The push keeps Z3 from choosing among its tactics, of which some run under wall-clock limits.
    """
    solver = encoding.z3.SolverFor("QF_LIA", ctx=encoding.context)
    solver.set("random_seed", 0)
    solver.set("rlimit", rlimit)
    if seconds is not None:
        solver.set("timeout", max(1, round(seconds * 1000)))
    solver.push()
    return solver


class Encoding:
    """The constraints of ``problem`` at ``ii`` as Z3 assertions, each with its premise."""

    def __init__(self, problem: Problem, ii: int) -> None:
        import z3

        self.z3: Any = z3
        self.context: Any = z3.Context()
        self.problem, self.ii = problem, ii
        self.assertions: list[tuple[Premise, Term]] = []
        self.demand: dict[str, Term] = {}  # of smem, tmem and registers
        self.start: dict[str, Term] = {name: self._int(f"start {name}") for name in problem.body}
        self.depth = {region.name: self._slots(region) for region in problem.kernel.regions}
        self.option: dict[str, list[Term]] = {}
        self.shared: dict[tuple[str, str], Term] = {
            (a.name, b.name): z3.Bool(f"{a.name} with {b.name}", self.context)
            for a, b in combinations(problem.body_groups, 2)
            if problem.may_share_role(a, b)
        }
        self._choices()
        self._dependences()
        self._units()
        self._roles()
        self._memory()
        self._registers()

    def read(self, model: Any) -> Decisions:
        """The schedule that ``model`` describes."""

        def value(term: Term) -> Any:
            known = isinstance(term, int)
            return term if known else model.eval(term, model_completion=True).py_value()

        start = {name: value(term) for name, term in self.start.items()}
        groups = [group.name for group in self.problem.body_groups]
        chosen = {name: [value(literal) for literal in self.option[name]] for name in self.option}
        return Decisions(
            ii=self.ii,
            start={name: time - min(start.values()) for name, time in start.items()},
            role={g: next(first for first in groups if value(self.same(first, g))) for g in groups},
            depth={name: value(term) for name, term in self.depth.items()},
            option={c.name: chosen[c.name].index(True) for c in self.problem.graph.choices},
        )

    def _add(self, family: str, subject: str, holds: Term, edge: Dependence | None = None) -> None:
        term = self.z3.BoolVal(holds, self.context) if isinstance(holds, bool) else holds
        self.assertions.append((Premise(family, subject, edge), term))

    def _int(self, name: str) -> Term:
        return self.z3.Int(name, self.context)

    def _if(self, condition: Term, yes: Term, no: Term) -> Term:
        return self.z3.If(condition, yes, no, self.context)

    # -- decisions -----------------------------------------------------------------------------

    def same(self, one: str, other: str) -> Term:
        """Whether two groups share a role."""
        literal = self.shared.get((one, other), self.shared.get((other, one)))
        return self.z3.BoolVal(one == other, self.context) if literal is None else literal

    def _slots(self, region: Region) -> Term:
        low, high = region.depth.low, region.depth.high
        if low == high:
            return low
        slots = self._int(f"slots of {region.name}")
        self._add("given" if low == 1 else "slots", region.name, slots >= low)
        self._add("slots", region.name, slots <= high)
        return slots

    def _choices(self) -> None:
        """Each region has one place and each ring one shape; sharing a role is transitive."""
        counts = {home_choice(r): len(r.options) for r in self.problem.kernel.regions}
        counts |= {choice.name: len(choice.options) for choice in self.problem.graph.choices}
        for name, count in counts.items():
            literals = [self.z3.Bool(f"{name}: {n}", self.context) for n in range(count)]
            self.option[name] = literals
            self._add("given", name, self.z3.PbEq([(b, 1) for b in literals], 1, self.context))
        for choice in self.problem.graph.choices:
            for mine, rival in choice.excludes:
                both = self.option[choice.name][mine], self.option[rival.choice][rival.option]
                self._add("storage", choice.name, self.z3.Not(self.z3.And(*both)))
        for a, b, c in permutations([group.name for group in self.problem.body_groups], 3):
            both = self.z3.And(self.same(a, b), self.same(b, c))
            self._add("given", "sharing", self.z3.Implies(both, self.same(a, c)))

    # -- time ----------------------------------------------------------------------------------

    def _dependences(self) -> None:
        """``start[dst] + II * distance >= start[src] + delay``, and a hand-off between roles."""
        group = self.problem.group_of
        for dependence in self.problem.dependences:
            edge, condition = dependence.edge, dependence.edge.condition
            together = self.same(group[edge.src].name, group[edge.dst].name)
            delay = dependence.delay + self._if(together, 0, dependence.handoff)
            distance = edge.distance + (self.depth[edge.depth_of] if edge.depth_of else 0)
            holds = self.start[edge.dst] - self.start[edge.src] + self.ii * distance >= delay
            if condition is not None:
                chosen = self.option[condition.choice][condition.option]
                holds = self.z3.Implies(chosen, holds)
            self._add("dependence", f"{edge.src} -> {edge.dst}", holds, dependence)

    def _units(self) -> None:
        """An exclusive unit serves one operation at a time; work on any unit fits into one II."""
        costs, rates = self.problem.costs, dict[str, Fraction]()
        for unit, names in self.problem.exclusive_units.items():
            cycles = {name: costs[name].cycles(unit) for name in names}
            self._add("unit", unit, sum(cycles.values()) <= self.ii)
            for a, b in combinations(names, 2):
                self._add("unit", unit, self._apart(a, b, cycles[a], cycles[b]))
        for unit, share in (use for name in self.problem.body for use in costs[name].rates):
            rates[unit] = rates.get(unit, Fraction(0)) + share
        for unit, total in rates.items():
            self._add("rate", unit, total <= self.ii)

    def _apart(self, a: str, b: str, after: Term, before: Term) -> Term:
        """On the circle b starts ``after`` or more cycles behind a, and a ``before`` behind b."""
        periods = self._int(f"periods {len(self.assertions)} from {a} to {b}")
        gap = self.start[b] - self.start[a] - self.ii * periods
        return self.z3.And(gap >= after, gap <= self.ii - before)

    def _span(self, name: str) -> tuple[Term, Term]:
        """Cycles of its role before and after ``name`` starts: waits; its issue and an arrive."""
        machine, mine = self.problem.machine, self.problem.group_of[name].name
        partners = self.problem.synchronization[name]
        waits = sum(self._if(self.same(mine, g), 0, 1) for g in partners.waits)
        signals = sum(self._if(self.same(mine, g), 0, 1) for g in partners.arrives)
        arrive = self._if(signals > 0, machine.cycles("arrive"), 0)
        return machine.cycles("wait") * waits, self.problem.hold(name) + arrive

    def _roles(self) -> None:
        """A role has II cycles for one iteration; a warpgroup does one thing at a time."""
        span = {name: self._span(name) for name in self.problem.body}
        groups = self.problem.body_groups
        work = {g.name: sum(sum(span[name]) for name in self.problem.in_body(g)) for g in groups}
        for one in groups:
            busy = (self._if(self.same(one.name, g.name), work[g.name], 0) for g in groups)
            self._add("role", one.name, sum(busy) <= self.ii)
        for one, other in combinations_with_replacement(groups, 2):
            together = self.same(one.name, other.name)
            for a, b in product(self.problem.in_body(one), self.problem.in_body(other)):
                if not one.role_class.issues_ahead and (one is not other or a < b):
                    (lead_a, tail_a), (lead_b, tail_b) = span[a], span[b]
                    meet = self.z3.And(together, lead_a + tail_a > 0, lead_b + tail_b > 0)
                    apart = self._apart(a, b, tail_a + lead_b, tail_b + lead_a)
                    self._add("role", one.name, self.z3.Implies(meet, apart))

    # -- capacities ----------------------------------------------------------------------------

    def _memory(self) -> None:
        """Slots of every region that is stored on its own, and of every ring, fit."""
        kernel, machine = self.problem.kernel, self.problem.machine
        for space, room in (
            (Space.SMEM, machine.smem_bytes - BARRIER_BYTES),
            (Space.TMEM, machine.tmem_columns),
        ):
            used = sum(self._ring(ring, space) for ring in kernel.rings)
            for region in (r for r in kernel.regions if r.space is space and r.ring is None):
                size = slot_size(region) * self.depth[region.name]
                places = zip(region.options, self.option[home_choice(region)], strict=True)
                used += sum(self._if(b, size, 0) for option, b in places if option.host is None)
            self.demand[space] = used
            self._add(space, "", used <= room)

    def _ring(self, ring: Ring, space: Space) -> Term:
        """Bytes or columns of a shared ring in ``space``."""
        regions = [self.problem.kernel.region[name] for name in ring.regions]
        size = max((slot_size(region) for region in regions if region.space is space), default=0)
        choice = self.problem.graph.choice.get(ring_choice(ring))
        if choice is None:
            return size * ring.depth.low
        shapes = zip(choice.options, self.option[choice.name], strict=True)
        return sum(self._if(b, size * s.depth, 0) for s, b in shapes if isinstance(s, RingOption))

    def _registers(self) -> None:
        """Tiles, addresses and temporaries of all roles fit, in steps of 8; so do the warps."""
        problem, machine, slots = self.problem, self.problem.machine, self.depth
        groups = [g for g in problem.body_groups if not g.role_class.per_unit]
        wide = [g for g in groups if not g.role_class.issues_ahead]
        tiles = {g.name: sum(n * slots[r] for r, n in register_tiles(problem, g)) for g in wide}
        narrow = max((g.role_class.registers for g in groups if g not in wide), default=0)
        total, warps = -(-narrow // 8) * 8, 0
        for number, lead in enumerate(groups):
            before = (self.same(group.name, lead.name) for group in groups[:number])
            follows = self.z3.Or(self.z3.BoolVal(False, self.context), *before)
            warps += self._if(follows, 0, lead.role_class.warps)
            if lead.role_class.issues_ahead:
                continue
            blocks = self._int(f"register blocks of {lead.name}")
            kept = sum(self._if(self.same(g.name, lead.name), tiles[g.name], 0) for g in wide)
            for mate in wide:
                need = kept + lead.role_class.registers + streaming_registers(problem, mate)
                other = self.z3.Not(self.same(mate.name, lead.name))
                self._add("registers", lead.name, self.z3.Or(follows, other, 8 * blocks >= need))
            fits = self.z3.And(blocks >= 0, 8 * blocks <= machine.max_registers)
            self._add("registers", lead.name, fits)
            total += 8 * blocks
        self.demand["registers"] = total
        self._add("registers", "", total <= machine.registers_per_thread_sum)
        self._add("warps", "", warps <= 4 * machine.warpgroups)


def slot_size(region: Region) -> int:
    """Bytes of a slot in shared memory, columns of one in tensor memory."""
    return aligned_bytes(region) if region.space is Space.SMEM else region.tmem_columns

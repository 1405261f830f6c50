"""Why a kernel has no schedule at any initiation interval, and the smallest change that helps.

An operation is never too long, because the II has no upper limit. What can be impossible: tiles
that do not fit into a memory however they are stored, operations that wait for each other within
one iteration, and a decision about storage of which every alternative is impossible. Every fix was
tried: the changed kernel is derived and priced again, and the constraint holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from schedgen.bounds import Constraint, Cycle, ImpossibleCycle, critical_cycle
from schedgen.dependence import Choice, Condition, RingOption
from schedgen.kernel import Space
from schedgen.solver.confirm import Encoding, Term, confirm_infeasible, slot_size
from schedgen.solver.explain import alternative, find_core, render_core
from schedgen.solver.problem import Group, Problem
from schedgen.solver.registers import register_tiles, streaming_registers
from schedgen.solver.repair import cycle_edits, decided, deeper_rings, rebuilt, smaller
from schedgen.solver.storage import BARRIER_BYTES

# Slots that a fix may add to a ring, and alternatives that a message lists.
MORE_SLOTS = 8
SHOWN = 4


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The constraint that cannot be met, by how much it is missed, and what would help."""

    rule: str
    message: str
    fix: str


def diagnose(problem: Problem) -> Diagnosis | None:
    """Why ``problem`` has no schedule at any II, None if it has one."""
    found = _capacity(problem) or _cycle(problem)
    if found is not None:
        return found
    ii = longest_ii(problem)
    answer = confirm_infeasible(problem, ii)
    if answer.verdict == "feasible":
        return None
    if answer.verdict == "unknown":
        return Diagnosis("undecided", answer.reason, "make the kernel smaller to see the reason")
    for choice in problem.graph.choices:
        found = _no_alternative(problem, choice)
        if found is not None:
            return found
    facts = "; ".join(render_core(problem, ii, find_core(problem, ii)))
    return Diagnosis("conflict", f"impossible together: {facts}", "relax one of these")


def longest_ii(problem: Problem) -> int:
    """An II at which one operation after the other fits: where that fails, nothing works."""
    wait, arrive = problem.machine.cycles("wait"), problem.machine.cycles("arrive")
    cycles = Fraction(sum(d.delay + d.handoff for d in problem.dependences))
    for name in problem.body:
        cost = problem.costs[name]
        cycles += problem.latency(name) + problem.hold(name) + cost.release.at(problem.end)
        cycles += wait * len(problem.synchronization[name].waits) + arrive
        cycles += cost.busy + sum(share for _, share in cost.rates)
    return 2 * ceil(cycles) + 1


# -- capacities --------------------------------------------------------------------------------


class _Capacities(Encoding):
    """Decisions and what they take, without time."""

    def _dependences(self) -> None: ...

    def _units(self) -> None: ...

    def _roles(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Excess:
    """A resource of which a kernel needs ``over`` more than the ``room`` that there is."""

    resource: str
    space: Space
    room: int
    over: int
    unit: str


def too_much(problem: Problem) -> Excess | None:
    """The first memory that is too small however tiles are stored and roles are shared."""
    machine = problem.machine
    for resource, space, room, unit in (
        ("smem", Space.SMEM, machine.smem_bytes - BARRIER_BYTES, "bytes of shared memory"),
        ("tmem", Space.TMEM, machine.tmem_columns, "columns of tensor memory"),
        ("thread", Space.REGISTERS, machine.max_registers // 8 * 8, "registers of a thread"),
        (
            "registers",
            Space.REGISTERS,
            machine.registers_per_thread_sum,
            "registers per thread of all roles",
        ),
    ):
        over = least(problem, resource) - room
        if over > 0:
            return Excess(resource, space, room, over, unit)
    return None


def _capacity(problem: Problem) -> Diagnosis | None:
    """Why a memory is too small, and what would do: only what keeps the kernel possible."""
    found = too_much(problem)
    if found is None:
        return None
    resource, room, over, unit = found.resource, found.room, found.over, found.unit
    parts = sorted(_parts(problem, resource).items(), key=lambda part: -part[1])[:SHOWN]
    listed = ", ".join(f"{name} {size}" for name, size in parts if size)
    barriers = f" beside {BARRIER_BYTES} for barriers" if resource == "smem" else ""
    edit = smaller(problem, found.space, lambda p: least(p, resource) - room, _possible)
    return Diagnosis(
        f"{resource}-capacity",
        f"the kernel needs at least {room + over} {unit}, {over} more than the {room} there are"
        f"{barriers}; most is for {listed}",
        f"{edit.text}, or free {over} {unit} in another way"
        if edit
        else f"free {over} {unit}; no change of a single buffer is enough",
    )


def least(problem: Problem, resource: str) -> int:
    """The smallest need for ``resource``, whatever is decided.

    ``resource``: smem (bytes), tmem (columns), registers (of all roles), thread (of one role).
    """
    if resource == "thread":
        return max((sum(_registers(problem, g).values()) for g in _wide(problem)), default=0)
    encoding = _Capacities(problem, 1)
    demand: Term = encoding.demand[resource]
    if isinstance(demand, int):
        return demand
    optimizer = encoding.z3.Optimize(ctx=encoding.context)
    for premise, assertion in encoding.assertions:
        total = premise.subject == ""
        if premise.family in ("given", "slots", "storage", "registers") and not total:
            optimizer.add(assertion)
    optimizer.minimize(demand)
    possible = str(optimizer.check()) == "sat"
    return optimizer.model().eval(demand, model_completion=True).as_long() if possible else 0


def _parts(problem: Problem, resource: str) -> dict[str, int]:
    """What takes ``resource``: buffers and rings, or the tiles of the role that needs most."""
    kernel, parts = problem.kernel, dict[str, int]()
    wide = {g.name: _registers(problem, g) for g in _wide(problem)}
    if resource == "thread":
        return max(wide.values(), key=lambda needs: sum(needs.values()))
    if resource == "registers":
        return {f"the role of {name}": sum(needs.values()) for name, needs in wide.items()}
    for region in kernel.regions:
        if region.space == resource and region.ring is None:
            size = slot_size(region) * region.depth.low
            parts[region.base] = parts.get(region.base, 0) + size
    for ring in kernel.rings:
        slots = [
            slot_size(r) for r in map(kernel.region.get, ring.regions) if r and r.space == resource
        ]
        parts[f"ring {ring.name}"] = ring.depth.low * max(slots, default=0)
    return parts


def _wide(problem: Problem) -> list[Group]:
    """Groups whose threads hold tiles."""
    kinds = [(group, group.role_class) for group in problem.body_groups]
    return [group for group, kind in kinds if not (kind.issues_ahead or kind.per_unit)]


def _registers(problem: Problem, group: Group) -> dict[str, int]:
    """Registers of a thread that ``group`` needs at least."""
    depth = {region.name: region.depth.low for region in problem.kernel.regions}
    tiles = {name: size * depth[name] for name, size in register_tiles(problem, group)}
    beside = group.role_class.registers + streaming_registers(problem, group)
    return tiles | {"addresses and temporaries": beside}


# -- dependences and storage -------------------------------------------------------------------


def _impossible(problem: Problem) -> Cycle | None:
    """A dependence cycle within one iteration that no decision avoids."""
    settled = {choice.name for choice in problem.graph.choices if len(choice.options) == 1}
    constraints = problem.unconditional()
    for dependence in problem.dependences:
        edge = dependence.edge
        if edge.condition is not None and edge.condition.choice in settled:
            slots = problem.kernel.region[edge.depth_of].depth.high if edge.depth_of else 0
            distance = edge.distance + slots
            constraints.append(
                Constraint(edge.src, edge.dst, dependence.delay, distance, edge.reason)
            )
    try:
        critical_cycle(constraints)
    except ImpossibleCycle as error:
        return error.cycle
    return None


def _cycle(problem: Problem) -> Diagnosis | None:
    cycle = _impossible(problem)
    if cycle is None:
        return None
    chain = "".join(
        f" -> {c.dst} ({c.reason.text})" for c in cycle.constraints if c.reason is not None
    )
    fix = "change several dependences: no other distance, slot or place of one is enough"
    for edit in cycle_edits(problem, cycle):
        changed = rebuilt(problem, edit.kernel)
        if changed is not None and _works(changed):
            fix = edit.text
            break
    return Diagnosis(
        "dependence-cycle",
        f"operations wait for each other: {cycle.constraints[0].src}{chain} takes {cycle.delay} "
        f"cycles and spans {cycle.distance} iterations; one of these dependences has to reach the "
        "next iteration",
        fix,
    )


def _possible(problem: Problem) -> bool:
    """Whether everything fits, and no operation waits for itself."""
    return too_much(problem) is None and _impossible(problem) is None


def _works(problem: Problem) -> bool:
    """Whether there is a schedule at some II."""
    if not _possible(problem):
        return False
    return confirm_infeasible(problem, longest_ii(problem)).verdict == "feasible"


def _no_alternative(problem: Problem, choice: Choice) -> Diagnosis | None:
    """Why every alternative of ``choice`` is impossible on its own, None if one is not."""
    reasons: list[str] = []
    fixes: list[str] = []
    for number, option in enumerate(choice.options):
        taken = rebuilt(problem, decided(problem.kernel, choice, option))
        found = None if taken is None else _capacity(taken) or _cycle(taken)
        if found is None:
            return None
        condition = Condition(choice.name, number)
        reasons.append(f"{alternative(problem, condition)}: {found.message}")
        fixes.append(f"{found.fix} (starting from {alternative(problem, condition)})")
    if isinstance(choice.options[0], RingOption):
        for edit in deeper_rings(problem.kernel, choice.about, MORE_SLOTS):
            changed = rebuilt(problem, edit.kernel)
            if changed is not None and _works(changed):
                fixes.insert(0, edit.text)
                break
    more = f"; and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
    listed = "; ".join(reasons[:SHOWN]) + more
    message = f"no alternative for the {choice.name} is possible; {listed}"
    return Diagnosis("no-alternative", message, fixes[0])

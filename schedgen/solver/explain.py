"""Why an initiation interval cannot be smaller, in sentences for the author of a kernel.

Arithmetic bounds explain themselves: the busiest resource, or the slowest dependence cycle. Above
them the explanation is an unsatisfiable core of the Z3 encoding: constraints that together leave no
schedule. The core is shrunk by leaving out one constraint after the other, within a budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from schedgen.bounds import Load, critical_cycle
from schedgen.dependence import Condition, RingOption
from schedgen.kernel import Space
from schedgen.reasons import Reason, ReasonKind
from schedgen.solver.confirm import RESOURCE_LIMIT, Encoding, Premise, make_solver, slot_size
from schedgen.solver.problem import Dependence, Problem
from schedgen.solver.storage import BARRIER_BYTES

# Z3 resource units for one attempt to spare a constraint, and how many attempts may run out.
STEP_LIMIT = 2_000_000
PATIENCE = 12


@dataclass(frozen=True, slots=True)
class Core:
    """Constraints that together leave no schedule; ``minimal`` if none of them can be spared.

    ``verdict`` is infeasible; or feasible or unknown, and then there are no ``premises``.
    """

    verdict: str
    premises: tuple[Premise, ...] = ()
    minimal: bool = False


def explain_bound(problem: Problem, result_ii: int) -> tuple[str, ...]:
    """Why no schedule of ``problem`` has an II below ``result_ii``; the first sentence sums it up.

    Where the bound is arithmetic each sentence is a bound of its own. Otherwise Z3 has to refute
    ``result_ii - 1``; if it does not, the one sentence says so.
    """
    head = f"II cannot go below {result_ii}"
    loads = [load for load in problem.loads() if load.cycles >= result_ii]
    sentences = [f"{head}: {_busy(load)}" for load in loads]
    cycle = critical_cycle(problem.unconditional())
    if cycle is not None and cycle.bound >= result_ii:
        sentences.append(f"{head}: a dependence cycle takes longer: {cycle.render()}")
    if result_ii <= 1:
        return ("II 1 is the smallest there is",)
    if sentences:
        return tuple(sentences)
    core = find_core(problem, result_ii - 1)
    if core.verdict != "infeasible":
        return (f"no explanation why II cannot be {result_ii - 1}: to Z3 that is {core.verdict}",)
    facts = render_core(problem, result_ii - 1, core)
    some = "" if core.minimal else " (perhaps fewer would do)"
    legend = "A -(c, +d)-> B: B starts c cycles or more after A of d iterations before"
    summary = f"{len(facts)} facts leave no schedule with {result_ii - 1}{some}; {legend}"
    return (f"{head}: {summary}", *facts)


def find_core(problem: Problem, ii: int, *, rlimit: int = RESOURCE_LIMIT) -> Core:
    """Constraints that leave no schedule at ``ii``, few of them if the budget allows."""
    encoding = Encoding(problem, ii)
    solver = make_solver(encoding, rlimit)
    literals: dict[Premise, Any] = {}
    for premise, assertion in encoding.assertions:
        if premise.family == "given":
            solver.add(assertion)
            continue
        if premise not in literals:
            literals[premise] = encoding.z3.Bool(f"because {len(literals)}", encoding.context)
        solver.add(encoding.z3.Implies(literals[premise], assertion))
    verdict, core = _check(solver, literals, list(literals))
    if verdict != "infeasible":
        return Core(verdict)
    size = len(literals) + 1
    while len(core) < size:
        size = len(core)
        core = _check(solver, literals, core)[1]
    return _shrink(solver, literals, core)


def _check(
    solver: Any, literals: Mapping[Premise, Any], kept: list[Premise]
) -> tuple[str, list[Premise]]:
    """What Z3 says about the constraints ``kept``, and which of them refute the II if it is so."""
    answer = str(solver.check(*(literals[premise] for premise in kept)))
    if answer != "unsat":
        return {"sat": "feasible"}.get(answer, "unknown"), kept
    used = {str(literal) for literal in solver.unsat_core()}
    return "infeasible", [premise for premise in kept if str(literals[premise]) in used]


def _shrink(solver: Any, literals: Mapping[Premise, Any], core: list[Premise]) -> Core:
    """Leaves out one constraint after the other, dependences last, as long as Z3 is quick."""
    solver.set("rlimit", STEP_LIMIT)
    minimal = True
    for edges in (False, True):
        undecided = 0
        for premise in [p for p in core if (p.dependence is not None) is edges]:
            if premise in core and undecided < PATIENCE:
                verdict, used = _check(solver, literals, [r for r in core if r is not premise])
                core = used if verdict == "infeasible" else core
                undecided += verdict == "unknown"
        minimal = minimal and not undecided
    return Core("infeasible", tuple(core), minimal)


# -- sentences ---------------------------------------------------------------------------------


def render_core(problem: Problem, ii: int, core: Core) -> tuple[str, ...]:
    """A sentence for each constraint of ``core``, dependences joined into chains."""
    facts = [_fact(problem, ii, premise) for premise in core.premises if premise.dependence is None]
    edges = [premise.dependence for premise in core.premises if premise.dependence is not None]
    facts.extend(_chains(problem, [d for d in edges if d.edge.condition is None]))
    facts.extend(_alternatives(problem, [d for d in edges if d.edge.condition is not None]))
    return tuple(dict.fromkeys(facts))


def _fact(problem: Problem, ii: int, premise: Premise) -> str:
    machine = problem.machine
    match premise.family:
        case "unit" | "rate" | "role":
            kind = ReasonKind.ISSUE if premise.family == "role" else ReasonKind.UNIT
            what = Reason(kind, (premise.subject,))
            load = next(load for load in problem.loads() if load.resource == what)
            single = "" if premise.family == "rate" else ", with one operation at a time"
            return f"{_busy(load, f' of {ii}')}{single}"
        case "smem":
            return f"shared memory: {_demand(problem, Space.SMEM)}"
        case "tmem":
            return f"tensor memory: {_demand(problem, Space.TMEM)}"
        case "registers" if premise.subject:
            return f"a thread has at most {machine.max_registers} registers"
        case "registers":
            return f"all roles share {machine.registers_per_thread_sum} registers per thread"
        case "warps":
            return f"all roles have {4 * machine.warpgroups} warps at most"
        case "slots":
            depth = problem.kernel.region[premise.subject].depth
            return f"{premise.subject} has {depth.low} to {depth.high} slots"
        case _:
            return f"{premise.subject} cannot overlap another tile in the same host"


def _busy(load: Load, limit: str = "") -> str:
    unit = load.resource.kind is ReasonKind.UNIT
    who = f"{'unit' if unit else 'the role that issues'} {load.resource.subjects[0]}"
    parts = ", ".join(f"{name} {cycles}" for name, cycles in load.parts)
    return f"{who} is busy {load.cycles}{limit} cycles per iteration ({parts})"


def _demand(problem: Problem, space: Space) -> str:
    """How much room there is in ``space``, what is always there, and what else could be."""
    kernel, machine = problem.kernel, problem.machine
    in_bytes = space is Space.SMEM
    room = machine.smem_bytes - BARRIER_BYTES if in_bytes else machine.tmem_columns
    regions = [r for r in kernel.regions if r.space is space and r.ring is None]
    fixed = [r for r in regions if all(option.host is None for option in r.options)]
    total = sum(slot_size(region) * region.depth.low for region in fixed)
    facts = [f"{room} {'bytes' if in_bytes else 'columns'}"]
    facts.extend([f"{', '.join(r.name for r in fixed)} take {total} or more"] if fixed else [])
    for ring in kernel.rings:
        slots = [
            slot_size(r) for r in map(kernel.region.get, ring.regions) if r and r.space is space
        ]
        facts.extend([f"a slot of ring {ring.name} takes {max(slots)}"] if slots else [])
    for region in (r for r in regions if r not in fixed):
        hosts = list(dict.fromkeys(option.host for option in region.options if option.host))
        size = slot_size(region) * region.depth.low
        if total + size > room or len(hosts) == len(region.options):
            facts.append(f"{region.name} ({size}) has to live in {' or '.join(hosts)}")
        else:
            facts.append(f"{region.name} takes {size} unless it lives in {' or '.join(hosts)}")
    return ", ".join(facts)


def _step(problem: Problem, dependence: Dependence) -> tuple[int, int]:
    """Least cycles and most iterations of a dependence."""
    edge = dependence.edge
    one, other = problem.group_of[edge.src], problem.group_of[edge.dst]
    cross = one is not other and not problem.may_share_role(one, other)
    slots = 0 if edge.depth_of is None else problem.kernel.region[edge.depth_of].depth.high
    return dependence.delay + (dependence.handoff if cross else 0), edge.distance + slots


def _arrow(problem: Problem, dependence: Dependence) -> str:
    delay, distance = _step(problem, dependence)
    later = f", {distance:+d}" if distance else ""
    return f" -({delay}{later})-> {dependence.edge.dst}"


def _chains(problem: Problem, edges: list[Dependence]) -> Iterator[str]:
    """Dependences joined end to end; chains that differ only in their instance are told once."""
    alike: dict[tuple[object, ...], list[list[Dependence]]] = {}
    operation = problem.kernel.operation
    for chain in _paths(edges):
        ends = [(operation[d.edge.src].base, operation[d.edge.dst].base) for d in chain]
        steps = [_step(problem, dependence) for dependence in chain]
        alike.setdefault(tuple(zip(ends, steps, strict=True)), []).append(chain)
    for first, *others in alike.values():
        text = first[0].edge.src + "".join(_arrow(problem, dependence) for dependence in first)
        also = [f"{chain[0].edge.src} ... {chain[-1].edge.dst}" for chain in others]
        yield f"{text}" + (f"; likewise {', '.join(also)}" if also else "")


def _paths(edges: list[Dependence]) -> Iterator[list[Dependence]]:
    """Cuts ``edges`` into paths, each as long as it goes from where nothing leads to."""
    left = list(edges)
    while left:
        targets = {dependence.edge.dst for dependence in left}
        step = next((d for d in left if d.edge.src not in targets), left[0])
        path: list[Dependence] = []
        while True:
            left.remove(step)
            path.append(step)
            onward = [d for d in left if d.edge.src == path[-1].edge.dst]
            if not onward:
                break
            step = max(onward, key=lambda d: d.delay)
        yield path


def _alternatives(problem: Problem, edges: list[Dependence]) -> Iterator[str]:
    """What each way of storing a tile makes wait, one sentence per decision."""
    choices: dict[str, dict[str, list[str]]] = {}
    for dependence in edges:
        condition = dependence.edge.condition
        if condition is not None:
            ways = choices.setdefault(condition.choice, {})
            text = dependence.edge.src + _arrow(problem, dependence)
            ways.setdefault(alternative(problem, condition), []).append(text)
    for choice, ways in choices.items():
        texts = [f"{way}: {', '.join(waits)}" for way, waits in ways.items()]
        yield f"{choice}: {'; '.join(texts)}"


def alternative(problem: Problem, condition: Condition) -> str:
    """One alternative of a storage decision in words."""
    option = problem.graph.choice[condition.choice].options[condition.option]
    if isinstance(option, RingOption):
        slots = f"{option.depth} slot" + ("s" if option.depth > 1 else "")
        return f"{slots} with lags {', '.join(map(str, option.lags))}"
    if option.host is None:
        return "in storage of its own"
    return f"in {option.host}" + (f" of iteration +{option.skew}" if option.skew else "")

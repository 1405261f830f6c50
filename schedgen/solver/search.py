"""Finds the smallest initiation interval with its certificate, then the best schedule among the
fastest.

Feasibility is monotone: a schedule for II keeps its order of operations for II + 1, because every
constraint between two operations, order included, is ``start[b] + II * d >= start[a] + c`` and no
cycle of such constraints spans fewer than one iteration. So "II - 1 is infeasible" excludes
everything below, and a feasible schedule whose critical cycle is shorter than its II can be
tightened at once without another search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from ortools.sat.python import cp_model

from schedgen.bounds import Cycle, Load, busiest, critical_cycle
from schedgen.solver.asking import Answer, Asking, Question, Stop
from schedgen.solver.decisions import Decisions, busiest_role, order_constraints
from schedgen.solver.formulation import modulo_model
from schedgen.solver.model import ModuloModel
from schedgen.solver.objectives import LEVELS
from schedgen.solver.problem import Problem
from schedgen.solver.reading import hint, read_decisions

# Iterations in flight that the search allows at least; see `stage_limit`.
MIN_STAGES = 12
# Gaps of at most one of so many cycles of the II are not halved any more: what is in them is
# infeasible as a rule, and a look that does not find that out costs more than one that succeeds.
NARROW = 64
# Deterministic seconds of CP-SAT for one secondary objective.
OBJECTIVE_BUDGET = 4.0
# Improvements of one of them before its bound is asked for.
MOST_STEPS = 32
# Wall-clock seconds for a first schedule once the time limit has passed without one.
LAST_RESORT_SECONDS = 2.0

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Effort:
    """What one feasibility question may take.

    Attributes:
        budget: deterministic seconds of CP-SAT.
        proof: whether to expect that there is no schedule: then with `schedgen.solver.implied`, and
            without linear relaxations, which know next to nothing of constraints under literals.
            Without both, proofs for attention with a soft cap take 2 to 12 times as long.
    """

    budget: float
    proof: bool


LOOK = (Effort(0.15, proof=False),)
"""A brief look, enough for most questions."""
SETTLE = (Effort(30.0, proof=True), Effort(60.0, proof=False))
"""What it takes, up to a minute or two."""


class Unsolved(RuntimeError):
    """The budget ran out before any schedule was found."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The arithmetic lower bound and its reason: the busiest resource or the slowest dependence
    cycle.
    """

    resource: Load | None
    recurrence: Cycle | None

    @property
    def cycles(self) -> int:
        resource = self.resource.cycles if self.resource else 1
        recurrence = self.recurrence.bound if self.recurrence else 1
        return max(1, resource, recurrence)


@dataclass(frozen=True, slots=True)
class Objective:
    """One level of the lexicographic objective: its value and whether it was proven best."""

    name: str
    value: int
    proven: bool


@dataclass
class Result:
    """What the search found out."""

    ii: int
    lower_bound: int
    bound: Bound
    decisions: Decisions
    proven: bool
    stages: int = MIN_STAGES
    objectives: list[Objective] = field(default_factory=list[Objective])
    seconds: float = 0.0


def arithmetic_bound(problem: Problem) -> Bound:
    """Resource and recurrence bound; raises ImpossibleCycle if no II at all can work."""
    return Bound(busiest(problem.loads()), critical_cycle(problem.unconditional()))


def search(
    problem: Problem, *, time_limit: float | None = None, progress: Progress | None = None
) -> Result | None:
    """The best modulo schedule of ``problem``, or None if there is none at any II: `smallest`, then
    `refine`.
    """
    result = smallest(problem, time_limit=time_limit, progress=progress)
    if result is not None:
        refine(problem, result, time_limit=time_limit)
    return result


def smallest(
    problem: Problem,
    *,
    time_limit: float | None = None,
    progress: Progress | None = None,
    bound: Bound | None = None,
) -> Result | None:
    """A schedule with the smallest II, or None if there is none at any II.

    Raises Unsolved if ``time_limit`` (seconds) ends before the first schedule was found.
    """
    begin = perf_counter()
    found = _smallest(
        problem, bound or arithmetic_bound(problem), _Clock(begin, time_limit), progress
    )
    if found is not None:
        found.seconds = perf_counter() - begin
    return found


@dataclass(frozen=True, slots=True)
class _Clock:
    begin: float
    limit: float | None

    @property
    def left(self) -> float | None:
        return None if self.limit is None else max(0.0, self.limit - (perf_counter() - self.begin))


def _smallest(
    problem: Problem, bound: Bound, clock: _Clock, progress: Progress | None
) -> Result | None:
    """Gallops upwards from the bound to a feasible II, then closes the gap from both sides.

    Feasible IIs take a solver milliseconds and infeasible ones seconds, but only the largest of
    these has to be proven infeasible. So each II gets a brief look first; one that ends without an
    answer is taken to be infeasible until the largest of them is proven to be.
    """

    def ask(question: Question, stop: Stop) -> Answer:
        efforts = SETTLE if question.settle else LOOK
        return _feasible(problem, question.ii, clock, efforts, stop)

    with Asking(ask) as asking:
        return _galloped(problem, bound, clock, progress, asking)


def _galloped(
    problem: Problem, bound: Bound, clock: _Clock, progress: Progress | None, asking: Asking
) -> Result | None:
    low, high, step = bound.cycles, None, 1
    looked = low  # nothing was found below; below ``low`` there is nothing
    ceiling = _sequential(problem)
    best: Decisions | None = None
    unknown = False
    ii = low
    while high is None or low < high:
        settle = high is not None and looked >= high
        if progress is not None:
            progress(
                f"II {ii}, lower bound {low}"
                + (f", best so far {high}" if high is not None else "")
                + (f", proving that II {ii} is infeasible" if settle else "")
            )
        then = None if settle else _question(ii + 1, high, 4 * step, ceiling)
        status, decisions = asking.answer(Question(ii, settle), then)
        if status == "feasible":
            assert decisions is not None
            best, high = decisions, _tightened(problem, decisions)
            assert high <= ii, f"an order found at II {ii} needs {high} cycles"
            looked = low if settle else looked
        elif status == "infeasible":
            low = ii + 1
            looked = max(looked, low)
            if ii >= ceiling:
                return None
        elif settle or clock.left == 0 or (high is None and ii >= ceiling):
            unknown = True
            break
        else:
            looked, step = ii + 1, 4 * step
        ii = _question(looked, high, step, ceiling).ii
        step *= 2
    if best is None:
        # Out of time: anything that works is better than nothing, and at this II almost everything
        # does.
        left = _Clock(perf_counter(), LAST_RESORT_SECONDS)
        status, best = _feasible(problem, ceiling, left, SETTLE[1:])
        if best is None:
            raise Unsolved("the time limit ended before a schedule was found")
        high = _tightened(problem, best)
    assert high is not None
    proven = not unknown and low >= high
    decisions = best if best.ii == high else _retime(problem, best, high)
    lower = high if proven else low
    return Result(high, lower, bound, decisions, proven, stage_limit(problem, max(1, high - 1)))


def _question(looked: int, high: int | None, step: int, ceiling: int) -> Question:
    """What is asked next if nothing was found below ``looked``, and a schedule with ``high``."""
    if high is None:
        return Question(min(ceiling, looked + step), settle=False)
    if looked >= high:
        return Question(high - 1, settle=True)
    narrow = high - looked <= max(8, high // NARROW)
    return Question(high - 1 if narrow else (looked + high) // 2, settle=False)


def _sequential(problem: Problem) -> int:
    """An II at which one iteration after the other fits, whatever their order."""
    return sum(d.delay + d.handoff for d in problem.dependences if d.edge.condition is None) + sum(
        problem.latency(n) + problem.costs[n].busy + 200 for n in problem.body
    )


def _tightened(problem: Problem, decisions: Decisions) -> int:
    """The II that the schedule reaches if everything keeps its order and place."""
    cycle = critical_cycle(order_constraints(problem, decisions))
    units = busiest(problem.loads())
    return max(
        cycle.bound if cycle else 1,
        units.cycles if units else 1,
        busiest_role(problem, decisions),
        1,
    )


def _retime(problem: Problem, decisions: Decisions, ii: int) -> Decisions:
    """The same order and storage at a smaller II: longest paths give the earliest start times."""
    constraints = order_constraints(problem, decisions)
    start = dict.fromkeys(problem.body, 0)
    for _ in range(len(start) + 1):
        changed = False
        for c in constraints:
            reach = start[c.src] + c.delay - ii * c.distance
            if reach > start[c.dst]:
                start[c.dst], changed = reach, True
        if not changed:
            return decisions.at(ii, start)
    raise AssertionError("the order was said to fit into this II")


def make_solver(budget: float, left: float | None) -> cp_model.CpSolver:
    """A CP-SAT solver that repeats itself: one worker, fixed seed, deterministic time."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = budget
    if left is not None:
        solver.parameters.max_time_in_seconds = max(left, 0.01)
    return solver


def stage_limit(problem: Problem, ii: int) -> int:
    """Iterations that may be in flight: more than enough to hide the longest latency twice over."""
    longest = max((problem.latency(name) for name in problem.body), default=0)
    return max(MIN_STAGES, 4 + 2 * -(-longest // ii))


def _feasible(
    problem: Problem, ii: int, clock: _Clock, efforts: Sequence[Effort], stop: Stop | None = None
) -> Answer:
    """Whether there is a schedule with ``ii``, by the first of ``efforts`` that finds out, or that
    is told to stop.
    """
    stop = stop or Stop()
    for effort in efforts:
        if clock.left == 0:
            break
        model = modulo_model(problem, ii, stage_limit(problem, ii), implied=effort.proof)
        solver = make_solver(effort.budget, clock.left)
        if effort.proof:
            solver.parameters.linearization_level = 0
        if not stop.goes_on(solver):
            break
        status = solver.solve(model.cp)
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return "feasible", read_decisions(model, solver.value)
        if status == cp_model.INFEASIBLE:
            return "infeasible", None
    return "unknown", None


def refine(problem: Problem, result: Result, *, time_limit: float | None = None) -> None:
    """Optimizes the lesser objectives one after the other, each under the values of those before
    it.
    """
    begin = perf_counter()
    clock = _Clock(begin, time_limit)
    model = modulo_model(problem, result.ii, stage_limit(problem, result.ii))
    decisions = result.decisions
    for level in LEVELS:
        expression = level.expression(model)
        if isinstance(expression, int):
            continue
        (model.cp.maximize if level.largest else model.cp.minimize)(expression)
        solver, status = _best(model, decisions, expression, largest=level.largest, clock=clock)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            result.objectives.append(Objective(level.name, 0, False))
            break
        value = round(solver.value(expression))
        decisions = read_decisions(model, solver.value)
        result.objectives.append(Objective(level.name, value, status == cp_model.OPTIMAL))
        model.cp.add(expression >= value if level.largest else expression <= value)
    result.decisions = decisions
    result.seconds += perf_counter() - begin


class _Creeping(cp_model.CpSolverSolutionCallback):
    """Ends a search that improves in small steps."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def on_solution_callback(self) -> None:
        """CP-SAT calls this for each improvement."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            self.stop_search()


def _best(
    model: ModuloModel,
    decisions: Decisions,
    expression: cp_model.LinearExpr,
    *,
    largest: bool,
    clock: _Clock,
) -> tuple[cp_model.CpSolver, cp_model.CpSolverStatus]:
    """Optimizes ``model``, whose objective is ``expression``, from ``decisions`` on: the solver and
    its status.

    Where the bound of an objective is known at once, search may still creep there in hundreds of
    steps, each of them milliseconds. After `MOST_STEPS` the bound itself is asked for.
    """
    _hint(model, decisions)
    solver, creeping = make_solver(OBJECTIVE_BUDGET, clock.left), _Creeping()
    status = solver.solve(model.cp, creeping)
    if status != cp_model.FEASIBLE or creeping.steps <= MOST_STEPS:
        return solver, status
    bound = round(solver.best_objective_bound)
    _hint(model, read_decisions(model, solver.value))
    asked = model.cp.clone()
    asked.clear_objective()
    asked.add(expression >= bound if largest else expression <= bound)
    reached = make_solver(OBJECTIVE_BUDGET, clock.left)
    if reached.solve(asked) == cp_model.OPTIMAL:
        return reached, cp_model.OPTIMAL
    _hint(model, decisions)
    patient = make_solver(OBJECTIVE_BUDGET, clock.left)
    found = patient.solve(model.cp)
    return (patient, found) if found in (cp_model.OPTIMAL, cp_model.FEASIBLE) else (solver, status)


def _hint(model: ModuloModel, decisions: Decisions) -> None:
    model.cp.clear_hints()
    hint(model, decisions)

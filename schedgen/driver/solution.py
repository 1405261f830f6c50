"""From a spec and a machine to the best schedule: binds, derives, bounds, searches, assembles.

Where the spec leaves parameters to the solver, each combination is a kernel of its own. They are
tried in order of their lower bounds, cycles per multiply-add so that tile sizes compare, and a
combination whose bound does not beat the best schedule so far is not searched. Among equals the one
that the spec lists first wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from time import perf_counter
from typing import TYPE_CHECKING

from schedgen.bounds import ImpossibleCycle
from schedgen.dependence import derive
from schedgen.driver.binding import kernels_of
from schedgen.driver.found import Infeasible, OutOfTime, Solution
from schedgen.errors import SchedgenError, suggest
from schedgen.kernel import Kernel
from schedgen.machine import CostError, Machine
from schedgen.schedule import Schedule
from schedgen.solver.problem import Problem, ProblemError, build_problem
from schedgen.spec.reader import Spec

if TYPE_CHECKING:
    from schedgen.solver.search import Bound, Result

Progress = Callable[[str], None]


@dataclass(frozen=True)
class _Candidate:
    """One combination of parameters with its arithmetic bound, in cycles per unit of work."""

    number: int
    problem: Problem
    bound: Bound
    cost: Fraction


def solve(
    spec: Spec,
    machine: Machine,
    *,
    settings: Mapping[str, str] | None = None,
    latencies: str = "high",
    time_limit: float | None = None,
    confirm: bool = False,
    explain: bool = False,
    advise: bool = True,
    progress: Progress | None = None,
) -> Solution:
    """The best schedule of ``spec`` on ``machine``.

    ``latencies``: the end of the machine's intervals that the schedule must hold for, ``high``
    (which covers all) or ``low``. ``confirm`` asks Z3 whether II - 1 is infeasible. ``time_limit``
    in seconds gives the best so far, with ``proven_optimal`` False. Where there is no schedule,
    ``advise`` looks for a setting that has one. Raises SpecError, Infeasible or OutOfTime.
    """
    from schedgen.solver.assemble import assemble
    from schedgen.solver.search import Unsolved, refine, smallest
    from schedgen.solver.tiles import schedule_tiles, shortage

    begin = perf_counter()
    check_target(spec, machine)

    def advice() -> str | None:
        return _advice(spec, machine, settings or {}, latencies) if advise else None

    candidates = _candidates(spec, machine, settings or {}, latencies)
    best: tuple[_Candidate, Result] | None = None
    skipped = 0
    proven = True
    for candidate in candidates:
        if best is not None and candidate.cost >= Fraction(
            best[1].ii, _work(best[0].problem.kernel)
        ):
            skipped += 1
            continue
        left = None if time_limit is None else max(0.0, time_limit - (perf_counter() - begin))
        try:
            result = smallest(
                candidate.problem, time_limit=left, progress=progress, bound=candidate.bound
            )
        except Unsolved:
            proven = False
            continue
        if result is not None and (best is None or _cost(candidate, result) < _cost(*best)):
            best = candidate, result
        proven = proven and (result is None or result.proven)
    if best is None:
        if not proven:
            raise OutOfTime("the time limit ended before a schedule was found; raise --time-limit")
        raise Infeasible(_diagnosis(candidates[0].problem, advice))
    candidate, result = best
    result.proven = result.proven and proven
    left = None if time_limit is None else max(0.0, time_limit - (perf_counter() - begin))
    refine(candidate.problem, result, time_limit=left)
    _check(candidate.problem, result)
    try:
        tiles = schedule_tiles(candidate.problem, result.decisions)
    except ImpossibleCycle as error:
        raise Infeasible(
            f"{candidate.problem.kernel.name} has no schedule on {machine.name} [tile-cycle]: "
            f"outside of the main loop, {error}\n  fix: give a ring there more slots, or list "
            "operations in the order in which data and storage let them run"
        ) from None
    if tiles is None:
        lack = shortage(candidate.problem, result.decisions)
        setting = advice()
        raise Infeasible(
            f"{candidate.problem.kernel.name} has no schedule on {machine.name} "
            f"[registers-capacity]: {lack}\n  fix: "
            + (f"{setting} has a schedule; or " if setting else "")
            + "cut what is outside of the main loop into slices ('over'), or pass a tile through "
            "shared memory"
        )
    schedule = assemble(candidate.problem, result, tiles, _notes(candidates, candidate, skipped))
    if confirm:
        schedule = confirmed(candidate.problem, schedule)
    sentences: tuple[str, ...] = ()
    if explain:
        from schedgen.solver.explain import explain_bound

        sentences = explain_bound(candidate.problem, schedule.ii_cycles)
    return Solution(schedule, candidate.problem, perf_counter() - begin, sentences)


def _check(problem: Problem, result: Result) -> None:
    """The solver is not trusted: a simulation that shares no code with it has the last word."""
    from schedgen.solver.verify import verify

    violations = verify(problem, result.decisions)
    if violations:
        shown = "\n  ".join(violations[:5])
        raise SchedgenError(
            f"the schedule found for {problem.kernel.name} is wrong; this is a bug in schedgen:\n"
            f"  {shown}"
        )


def check_target(spec: Spec, machine: Machine) -> None:
    """The spec must know the target; a model file of one's own counts as the machine whose name it
    has.
    """
    if machine.name not in spec.file.targets:
        fix = suggest(machine.name, spec.file.targets) or f"use --target {spec.file.targets[0]}"
        raise SchedgenError(
            f"{spec.file.kernel} is not written for {machine.name}, "
            f"only for {', '.join(spec.file.targets)}; {fix}"
        )


def _candidates(
    spec: Spec, machine: Machine, settings: Mapping[str, str], latencies: str
) -> list[_Candidate]:
    from schedgen.solver.search import arithmetic_bound

    found: list[_Candidate] = []
    problem: Problem | None = None
    reason: Exception | None = None
    for number, kernel in enumerate(kernels_of(spec, machine, settings)):
        try:
            problem = build_problem(kernel, machine, derive(kernel), latencies)
            bound = arithmetic_bound(problem)
        except (ProblemError, CostError, ImpossibleCycle) as error:
            reason = reason or error
            continue
        found.append(_Candidate(number, problem, bound, Fraction(bound.cycles, _work(kernel))))
    if not found:
        if isinstance(reason, ImpossibleCycle) and problem is not None:
            raise Infeasible(_diagnosis(problem, lambda: None))
        raise Infeasible(str(reason))
    return sorted(found, key=lambda candidate: (candidate.cost, candidate.number))


def _work(kernel: Kernel) -> int:
    """What one iteration achieves, so that kernels with different tiles compare."""
    return max(1, kernel.products)


def _cost(candidate: _Candidate, result: Result) -> tuple[Fraction, int]:
    return Fraction(result.ii, _work(candidate.problem.kernel)), candidate.number


def _notes(candidates: list[_Candidate], chosen: _Candidate, skipped: int) -> tuple[str, ...]:
    decided = chosen.problem.kernel.decided
    if len(candidates) == 1:
        return decided
    picked = ", ".join(f"{name}={value}" for name, value in chosen.problem.kernel.choices)
    return (
        *decided,
        f"{picked}: best of {len(candidates)} combinations; "
        f"{skipped} of them were excluded by their lower bound alone",
    )


def _advice(
    spec: Spec, machine: Machine, settings: Mapping[str, str], latencies: str
) -> str | None:
    """A setting that has a schedule, and a kernel."""
    from schedgen.driver.advice import can_be_emitted, settings_that_help

    def works(changed: Mapping[str, str]) -> bool:
        try:
            found = solve(spec, machine, settings=changed, latencies=latencies, advise=False)
        except SchedgenError:
            return False
        return can_be_emitted(found)

    return settings_that_help(spec, machine, settings, works)


def _diagnosis(problem: Problem, advice: Callable[[], str | None]) -> str:
    from schedgen.solver.infeasible import diagnose

    diagnosis = diagnose(problem)
    what = f"{problem.kernel.name} has no schedule on {problem.machine.name}"
    if diagnosis is None:
        return f"{what}, and no single constraint is to blame"
    setting = advice()
    fix = f"{setting} has a schedule; or {diagnosis.fix}" if setting else diagnosis.fix
    return f"{what} [{diagnosis.rule}]: {diagnosis.message}\n  fix: {fix}"


def confirmed(problem: Problem, schedule: Schedule) -> Schedule:
    """``schedule`` with Z3's opinion on its certificate. Raises SchedgenError if Z3 finds the
    opposite.
    """
    from schedgen.solver.confirm import confirm_infeasible

    verdict = confirm_infeasible(problem, schedule.ii_cycles - 1)
    if verdict.verdict == "feasible":
        raise SchedgenError(
            f"CP-SAT and Z3 disagree about II {schedule.ii_cycles - 1} of {schedule.kernel}; "
            "this is a bug in schedgen"
        )
    by = f"z3 in {verdict.seconds:.1f} s" if verdict.verdict == "infeasible" else None
    notes = schedule.notes if by else (*schedule.notes, f"Z3 could not decide: {verdict.reason}")
    return replace(
        schedule,
        certificate=replace(schedule.certificate, confirmed_by="z3" if by else None),
        notes=notes,
    )

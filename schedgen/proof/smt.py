"""Method 2 of the proof: Z3 searches for an execution that violates a claim.

Trip counts, the number of tiles and all latencies are free; `smt_window` says why a few iterations
are enough. A question is asked in small windows first. No answer in a window holds for a larger one
too, because more events only add order; what a window violates is asked again in larger ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import Any

from schedgen.findings import Claim, Finding, Verdict
from schedgen.program.model import Program, WaitGroup
from schedgen.program.warps import by_warps
from schedgen.proof import smt_accesses, smt_phases
from schedgen.proof.smt_deadlock import blocked, cycle_lines, steady
from schedgen.proof.smt_order import add_order
from schedgen.proof.smt_pairs import tile_pairs
from schedgen.proof.smt_phases import Phases
from schedgen.proof.smt_question import Question, action
from schedgen.proof.smt_races import Races
from schedgen.proof.smt_static import capacities, counts
from schedgen.proof.smt_window import Event, Window

# Z3 resource units for the questions of one window.
RESOURCE_LIMIT = 400_000_000
# How often a window grows before what it violates is reported.
GROWTH = (0, 1, 3)
# Events of a witness beside those in question.
LINES = 12

# The subject of a finding that says that there is no answer.
UNKNOWN = ("z3",)

Key = tuple[Claim, tuple[str, ...], tuple[object, ...]]
"""Claim, subject and detail of a question."""


def refute(program: Program, seconds: float | None = None) -> Verdict:
    """Search for violations of all claims; no findings are a proof. ``seconds`` limits the search,
    and what it leaves out is said in the bound of the verdict.
    """
    begin = perf_counter()
    warps = by_warps(program)
    search = _Search(warps, None if seconds is None else begin + seconds)
    findings = [*capacities(program), *counts(warps), *search.run()]
    return Verdict("z3", tuple(findings), perf_counter() - begin, "; ".join(search.left_out))


class _Search:
    """All windows of one program."""

    def __init__(self, program: Program, until: float | None) -> None:
        self.program, self.until = program, until
        self.left_out: dict[str, None] = {}
        self.margin = 1 + _reach(program)
        self.pairs = tile_pairs(program)

    def run(self) -> list[Finding]:
        """What is violated in windows of each shape."""
        found: dict[Key, Finding] = {}
        for one, other, allocation in smt_accesses.uncomparable(self.program):
            text = f"{one} and {other} count slots of '{allocation}' in ways that do not compare"
            found[Claim.RACE, (one, other, allocation), ()] = Finding(
                Claim.RACE, text, (one, other, allocation)
            )
        for name in smt_phases.uncomparable(self.program):
            text = f"the numbers of '{name}' count different things and do not compare"
            found[Claim.PHASE, (name,), ()] = Finding(Claim.PHASE, text, (name,))
        span, jumps = self._sizes()
        stuck: Finding | None = None
        for jump in (0, *sorted(jumps)):
            suspects: set[Key] | None = None
            results: dict[Key, Finding] = {}
            for growth in GROWTH:
                window = Window(self.program, margin=self.margin + growth, span=span, jump=jump)
                add_order(window)
                if jump <= 1 and not growth and stuck is None:
                    stuck = self._deadlock(window)
                results = self._ask(window, suspects)
                suspects = set(results)
                if not suspects or any(key[1] == UNKNOWN for key in suspects):
                    break
            found.update(results)
        return [*([stuck] if stuck else []), *found.values()]

    def _sizes(self) -> tuple[int, set[int]]:
        """The iterations that questions span, and the distances between tiles."""
        apart = smt_phases.distances(self.program)
        span = max([1, *(abs(turns) for per_tile, turns in apart if not per_tile)])
        jumps = {1, *(abs(turns) for per_tile, turns in apart if per_tile and turns)}
        jumps.update(turns for pair in self.pairs for turns in pair.apart if turns)
        for one, other in smt_accesses.conflicts(self.program):
            versions = one.access.version, other.access.version
            if not any(version.per_tile for version in versions):
                shift = abs(versions[0].offset - versions[1].offset)
                turns = (self.program.allocation[one.access.allocation].slots + shift) // versions[
                    0
                ].scale
                span = max(span, turns)
        return span, jumps

    # -- asking --------------------------------------------------------------------------------

    def _solver(self, window: Window) -> Any:
        """All assertions are differences of times: shortest paths are much faster than simplex."""
        solver = window.z3.SimpleSolver(ctx=window.context)
        solver.set("arith.solver", 1)
        solver.set("random_seed", 0)
        solver.set("rlimit", RESOURCE_LIMIT)
        if self.until is not None:
            solver.set("timeout", max(1, round((self.until - perf_counter()) * 1000)))
        return solver

    def _ask(self, window: Window, suspects: set[Key] | None) -> dict[Key, Finding]:
        """The questions that ``window`` answers with an execution, one finding for each key."""
        races, phases = Races(window, self.pairs), Phases(window)
        questions: dict[Key, list[Question]] = {}
        for question in (*races.questions(), *phases.questions()):
            key = _key(question)
            if suspects is None or key in suspects:
                questions.setdefault(key, []).append(question)
        if not questions:
            return {}
        if self.until is not None and perf_counter() >= self.until:
            self.left_out["the time ended before all questions were asked"] = None
            text = "not shown for all tiles: the time ended"
            return {(Claim.RACE, UNKNOWN, ()): Finding(Claim.RACE, text, UNKNOWN)}
        solver = self._solver(window)
        violated = {
            key: window.z3.Or(*(question.formula for question in group))
            for key, group in questions.items()
        }
        solver.add(*window.assertions(), *races.defined)
        found: dict[Key, Finding] = {}
        while len(found) < len(violated):
            solver.push()
            solver.add(window.any(term for key, term in violated.items() if key not in found))
            answer = str(solver.check())
            if answer == "unsat":
                return found
            if answer == "unknown":
                self.left_out["Z3 gave up on some questions"] = None
                text = f"not shown for all tiles: {solver.reason_unknown()}"
                return {**found, (Claim.RACE, UNKNOWN, ()): Finding(Claim.RACE, text, UNKNOWN)}
            model = solver.model()
            for key, group in questions.items():
                hit = next((q for q in group if _true(window, model, q)), None)
                if key not in found and hit is not None:
                    found[key] = _finding(window, model, hit)
            solver.pop()
        return found

    def _deadlock(self, window: Window) -> Finding | None:
        cycle = blocked(window, RESOURCE_LIMIT)
        if cycle:
            lines = cycle_lines(window, cycle)
            roles = tuple(dict.fromkeys(event.role for event in cycle if event.step >= 0))
            return Finding(Claim.DEADLOCK, f"{', '.join(roles)} wait in a circle", roles, lines)
        regular = True if window.jump else steady(window, RESOURCE_LIMIT)
        if cycle is None and regular:
            return None
        roles = tuple(role.name for role in self.program.roles)
        if cycle is None and regular is False:
            text = "a long loop cannot go on: its waits have a cycle"
            return Finding(Claim.DEADLOCK, text, roles)
        self.left_out["Z3 gave up on cyclic waits"] = None
        return Finding(Claim.DEADLOCK, "not shown: Z3 gave up", roles)


def _reach(program: Program) -> int:
    """How far a step looks within its tile: pipelining, guards, initial values and wait_groups."""
    steps = [step for role in program.roles for step in role.steps]
    far = [max(step.shift, step.guard.low, step.guard.high) for step in steps]
    far += [step.action.lag for step in steps if isinstance(step.action, WaitGroup)]
    far += [access.initial for operation in program.operations for access in operation.accesses]
    return max(far, default=0)


def _key(question: Question) -> Key:
    return question.claim, question.subject, question.detail


def _true(window: Window, model: Any, question: Question) -> bool:
    return window.z3.is_true(model.eval(question.formula, model_completion=True))


# -- findings ------------------------------------------------------------------------------------


def _finding(window: Window, model: Any, question: Question) -> Finding:
    return Finding(
        question.claim, question.text, question.subject, _witness(window, model, question.events)
    )


def _witness(window: Window, model: Any, events: Iterable[Event]) -> tuple[str, ...]:
    """The events in question and waits, arrivals and completions of their roles near them."""

    def value(event: Event) -> int:
        return model.eval(window.time(event), model_completion=True).as_long()

    wanted = {event for event in events if event in window.times}
    wanted |= {d for e in wanted if (d := e._replace(kind="done")) in window.times}
    low, high = min(map(value, wanted)), max(map(value, wanted))
    roles = {event.role for event in wanted}
    near = {
        (instant.kind, instant.number + step) for _, _, _, instant in wanted for step in (-1, 0, 1)
    }
    between = [
        event
        for event in window.times
        if event.role in roles
        and event.kind in ("at", "done")
        and low < value(event) < high
        and event.instant in near
    ]
    chosen = sorted(
        wanted | set(sorted(between, key=value)[:LINES]), key=lambda event: (value(event), event)
    )
    return tuple(dict.fromkeys(f"{_words(window, e)} (time {value(e) - low})" for e in chosen))


def _words(window: Window, event: Event) -> str:
    kind, number = event.instant
    where = {
        "cell": f"iteration c{number - window.anchor:+d}",
        "first": f"tile t+{number}, first iteration",
        "last": f"tile t+{number}, last iteration",
        "tile": f"tile t+{number}",
    }[kind]
    verb = {"done": " is complete", "poll": " begins"}.get(event.kind, "")
    return f"{event.role}, {where}: {action(window.program, event.role, event.step)}{verb}"

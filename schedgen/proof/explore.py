"""Executes small cases of a program under every timing that matters.

A program is deterministic but for timing: an event that can happen stays possible until it does,
whatever else happens first. Therefore one execution per event is enough to know what can come
before it: hold the event back, let everything else happen that can. What happens is then the
largest set that does without the event, and contains whatever any execution does without it.

    * A race is a later access that begins before an earlier one has ended: it shows when the end is
      held back.
    * A wait passes too early, or an arrival counts for the wrong phase, while some arrival or copy
      of a phase before is missing: it shows when that is held back.
    * A wait is lapped if a phase too many is completed while it is held back; and an arrival breaks
      the rule that somebody has seen the phase before if it happens while all waits for that are.
    * A deadlock shows in every execution that ends: all end in the same state.

Parity makes a wait for a phase impossible again once the next one is complete, and lets it pass
where it should not. But as long as neither has happened, which the machine notices, a wait does
what it would do if it saw the number of the phase; so the argument holds up to the first confusion,
and that one is found. Events that can only happen one after the other (steps of a role, completions
in a queue) share an execution: when all else has come to rest with the first held back, it is let
go and the next one is held back. The tensor queue is in the order of issue, which is a matter of
timing if several roles issue: then a completion is held back in an execution in which everything
that could be issued before it was.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from schedgen.execution.events import Case
from schedgen.execution.machine import Machine
from schedgen.findings import Claim, Finding, Verdict
from schedgen.program.model import Program
from schedgen.program.operations import Number
from schedgen.program.warps import by_warps
from schedgen.proof.machine_conflicts import Setup
from schedgen.proof.machine_counts import count_findings
from schedgen.proof.machine_trace import Subject, deadlock, findings, subjects

METHOD = "execution"
BUDGET = 2_000_000
"""Events to execute at most for the cases chosen by `cases`, two seconds or so."""

Holds = Sequence[Sequence[int]]
"""Sets of events to hold back; when nothing else can happen, the next set is let go."""


def explore(
    program: Program,
    trips_list: Sequence[Sequence[int]] | None = None,
    *,
    first: bool = False,
    budget: int = BUDGET,
) -> Verdict:
    """Searches the cases ``trips_list`` (trip counts of the tiles) for anything that goes wrong.

    ``first``: one finding is enough, the search ends there. ``budget``: events to execute, where
    the cases are not given.
    """
    start = time.perf_counter()
    program = by_warps(program)
    found = _Findings()
    covered: list[str] = []
    spent = 0
    for trips in cases(program) if trips_list is None else trips_list:
        setup = Setup(program, trips)
        plans = list(_plans(setup))
        spent += len(plans) * len(setup.case.events)
        if trips_list is None and covered and spent > budget:
            break
        covered.append(str(list(trips)))
        found.add(count_findings(setup))
        for holds in plans:
            if first and found.known:
                break
            _execute(setup, holds, found)
        if first and found.known:
            break
    bound = f"every timing of tiles with trip counts {', '.join(covered)}"
    return Verdict(METHOD, found.all, time.perf_counter() - start, bound)


def exhaustive(program: Program, trips: Sequence[int], limit: int = 200_000) -> Verdict:
    """Looks at every state that any order of events leads to; only for tiny programs.

    ``limit`` is the number of states to look at; more are a ValueError.
    """
    start = time.perf_counter()
    setup = Setup(by_warps(program), trips)
    found = _Findings()
    found.add(count_findings(setup))
    first = Machine(setup)
    found.of(setup, first)
    seen = {first.key()}
    stack: list[tuple[Machine, _Path | None]] = [(first, None)]
    while stack:
        machine, path = stack.pop()
        if not machine.ready and not machine.finished:
            found.add([deadlock(setup, machine, _unwind(path))], once=Claim.DEADLOCK)
        for place, event in enumerate(machine.ready):
            after = machine.copy()
            del after.ready[place]
            after.fire(event)
            now = _Path(event, path)
            found.of(setup, after, now)
            if (key := after.key()) not in seen:
                seen.add(key)
                stack.append((after, now))
        if len(seen) > limit:
            raise ValueError(f"more than {limit} states")
    bound = f"all {len(seen)} states for trip counts {list(trips)}"
    return Verdict(METHOD, found.all, time.perf_counter() - start, bound)


class _Path(NamedTuple):
    """The last event of an execution, and the path to it."""

    event: int
    before: _Path | None


def _unwind(path: _Path | None) -> list[int]:
    log: list[int] = []
    while path is not None:
        log.append(path.event)
        path = path.before
    return log[::-1]


class _Findings:
    """Findings so far, one for each subject."""

    def __init__(self) -> None:
        self.known: dict[Subject, Finding] = {}

    @property
    def all(self) -> tuple[Finding, ...]:
        return tuple(self.known.values())

    def add(self, new: Sequence[Finding], once: Claim | None = None) -> None:
        for finding in new:
            if once is None or all(claim is not once for claim, _ in self.known):
                self.known.setdefault((finding.claim, finding.subject), finding)

    def of(self, setup: Setup, machine: Machine, path: _Path | None = None) -> None:
        """Adds the problems that the machine has noted, and clears them."""
        problems, machine.problems = machine.problems, []
        for problem in problems:
            if any(subject not in self.known for subject in subjects(setup, problem)):
                log = machine.log if path is None else _unwind(path)
                self.add(list(findings(setup, problem, log)))


def _execute(setup: Setup, holds: Holds, found: _Findings) -> None:
    """One execution, in which ``holds`` happen as late as possible."""
    machine = Machine(setup)
    level = {event: place for place, events in enumerate(holds) for event in events}
    held: dict[int, list[int]] = defaultdict(list)
    let_go = 0
    found.of(setup, machine)
    while True:
        while machine.ready:
            event = machine.ready.pop()
            place = level.get(event, -1)
            if place >= let_go:
                held[place].append(event)
                continue
            machine.fire(event)
            if machine.problems:
                found.of(setup, machine)
        if let_go == len(holds):
            break
        machine.ready.extend(held.pop(let_go, ()))
        let_go += 1
    if not machine.finished:
        found.add([deadlock(setup, machine, machine.log)], once=Claim.DEADLOCK)


# -- what to hold back -------------------------------------------------------------------------


def _plans(setup: Setup) -> Iterator[Holds]:
    """Which events to hold back, for one execution after the other."""
    case = setup.case
    yield ()
    for steps in case.roles.values():
        yield [(step,) for step in steps]
    queued: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for step, completion in case.completion.items():
        if setup.queue[completion] < 0:
            yield [(completion,)]
        else:
            queued[setup.queue[completion]].append((step, completion))
    for pairs in queued.values():
        if len({case.events[step].role for step, _ in pairs}) == 1:
            yield [(completion,) for _, completion in pairs]
        else:
            yield from ([(step,), (completion,)] for step, completion in pairs)
    for index, event in enumerate(case.events):
        if event.kind == "arrival":
            yield [(index,)]
    yield from _shared_waits(setup)


def _shared_waits(setup: Setup) -> Iterator[Holds]:
    """All waits for one number, where several roles wait for it."""
    case = setup.case
    for barrier in case.program.barriers:
        holds: list[list[int]] = []
        for _, waits in sorted(
            (n, w) for (name, n), w in case.waits.items() if name == barrier.name
        ):
            if holds and not _follow(case, holds[-1], waits):
                yield holds
                holds = []
            if holds or len({case.events[wait].role for wait in waits}) > 1:
                holds.append(waits)
        if holds:
            yield holds


def _follow(case: Case, first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether each of the second waits comes after one of the first in its role."""
    places = {case.events[wait].role: case.events[wait].position for wait in first}
    later = (case.events[wait] for wait in second)
    return all(places.get(event.role, event.position) < event.position for event in later)


# -- which cases -------------------------------------------------------------------------------


def cases(program: Program) -> list[tuple[int, ...]]:
    """Trip counts that take every ring once around and every guard to its limits.

    A wait is lapped one round and a phase later than the first, so tiles get up to two rounds.
    """
    rings = [_depth(program, per_tile=False), _depth(program, per_tile=True)]
    shifts = max((role.shifts for role in program.roles), default=0)
    depth, tiles = rings
    found: list[tuple[int, ...]] = [(0,), (1,), (2,), (0, 1, 1), (1, 0, 2), (2, 1)]
    found += [(depth + 1,), (depth - 1, depth), (1,) * (2 * tiles + 1), (0,) * (tiles + 2)]
    found += [(shifts + 1,), (2 * depth + 1,), (2,) * (tiles + 2), (depth + 1, depth + 1)]
    found += [(depth + shifts + 1, 1, depth)]
    return sorted(set(found), key=lambda trips: (sum(trips) + len(trips), trips))


def _depth(program: Program, *, per_tile: bool) -> int:
    """The slots of the largest ring that goes on with every tile, or with every iteration."""

    def counts(number: Number | None) -> bool:
        return number is not None and number.per_tile is per_tile

    slots = [1]
    for role in program.roles:
        for step in role.steps:
            number = getattr(step.action, "number", None)
            barrier = getattr(step.action, "barrier", None)
            if barrier is not None and counts(number):
                slots.append(program.barrier[barrier].slots)
    accesses = chain.from_iterable(operation.accesses for operation in program.operations)
    slots += [program.allocation[a.allocation].slots for a in accesses if counts(a.version)]
    return max(slots)

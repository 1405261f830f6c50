"""Tells a person what happened in an execution: findings with traces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from schedgen.execution.describe import describe, number_of, place
from schedgen.execution.events import Case, Event, Signal
from schedgen.execution.machine import Machine, Problem, Trouble
from schedgen.findings import Claim, Finding
from schedgen.proof.machine_conflicts import Conflict, Setup, Touch

LONGEST = 60
"""Lines of a trace; of longer ones the beginning is left out."""

Subject = tuple[Claim, tuple[str, ...]]

CLAIMS = {
    Trouble.RACE: Claim.RACE,
    Trouble.EARLY: Claim.PHASE,
    Trouble.LAPPED: Claim.PHASE,
    Trouble.AHEAD: Claim.PHASE,
    Trouble.SURPLUS: Claim.COUNT,
    Trouble.UNSEEN: Claim.PHASE,
}


def subjects(setup: Setup, problem: Problem) -> Iterator[Subject]:
    """What a problem is about: problems with the same subject make one finding."""
    claim = CLAIMS[problem.trouble]
    event = setup.case.events[problem.event]
    if problem.trouble is Trouble.RACE:
        for conflict in setup.conflicts[problem.event][problem.other]:
            yield claim, _pair(setup.case, conflict.earlier, conflict.later)
        return
    assert event.signal is not None
    if problem.trouble is Trouble.SURPLUS:
        yield claim, (event.signal.barrier,)
    else:
        yield claim, (event.signal.barrier, event.role)


def findings(setup: Setup, problem: Problem, log: Sequence[int]) -> Iterator[Finding]:
    """The findings of a problem that came up at the end of ``log``."""
    if problem.trouble is Trouble.RACE:
        yield from _races(setup, problem, log)
        return
    event = setup.case.events[problem.event]
    signal = event.signal
    assert signal is not None
    text = f"{place(event)}: {_confusion(setup.case, problem, event, signal)}"
    cited = _around(setup.case, problem, log) if event.waits else [problem.event]
    for claim, subject in subjects(setup, problem):
        yield Finding(claim, text, subject, trace(setup.case, log, cited, text))


def _around(case: Case, problem: Problem, log: Sequence[int]) -> list[int]:
    """How a role came to a wait, and what took the slot to the phase that it finds."""
    event = case.events[problem.event]
    assert event.signal is not None
    phases = range(min(event.signal.phase, problem.other - 1), problem.other)
    cited = case.roles[event.role][: event.position][-1:]
    for other in log:
        signal = case.events[other].signal
        if signal is not None and signal.cell == event.signal.cell and signal.phase in phases:
            cited.append(other)
    return cited


def _races(setup: Setup, problem: Problem, log: Sequence[int]) -> Iterator[Finding]:
    case = setup.case
    for conflict in setup.conflicts[problem.event][problem.other]:
        earlier, later = conflict.earlier, conflict.later
        text = (
            f"{_access(case, later)}, but {_access(case, earlier)}, "
            f"is meant to come first and {_state(setup, problem, log, conflict)}"
        )
        if problem.event != later.event:
            text += f"; the later one sees what is there at: {describe(case, problem.event)}"
        cited = (problem.event, earlier.event)
        claim, subject = Claim.RACE, _pair(case, earlier, later)
        yield Finding(claim, text, subject, trace(case, log, cited, text))


def _state(setup: Setup, problem: Problem, log: Sequence[int], conflict: Conflict) -> str:
    """How far the earlier access of a conflict has come."""
    if conflict.missing:
        return f"no {conflict.missing} orders the two"
    earlier = conflict.earlier.event
    if earlier not in log:
        return "has not begun"
    if setup.case.completion.get(earlier) == problem.other:
        return "is not complete"
    return f"still has to be followed by: {describe(setup.case, problem.other)}"


def _confusion(case: Case, problem: Problem, event: Event, signal: Signal) -> str:
    phase = problem.other
    wanted = f"{number_of(case, signal)}, phase {signal.phase}"
    match problem.trouble:
        case Trouble.EARLY:
            return (
                f"the wait for {wanted}, passes while the slot is still in phase {phase}: "
                "the parity is the same as if it were complete"
            )
        case Trouble.LAPPED:
            return (
                f"the wait for {wanted}, is lapped: the slot has come to phase {phase}, "
                "whose parity does not tell that the phase it wants is over"
            )
        case Trouble.AHEAD:
            return f"what is meant for {wanted}, counts for phase {phase}, which is not complete"
        case Trouble.SURPLUS:
            return f"arrives for {wanted}, which takes no more: the slot is in phase {phase}"
        case _:
            key = signal.barrier, signal.number - case.program.barrier[signal.barrier].slots
            who = "no wait for the phase before has returned"
            if not case.waits.get(key):
                who = "nobody ever waits for the phase before"
            return f"arrives for {wanted}, but {who}"


def _pair(case: Case, earlier: Touch, later: Touch) -> tuple[str, ...]:
    names = [case.operation(touch.event).name for touch in (earlier, later)]
    return (*names, earlier.access.allocation)


def _access(case: Case, touch: Touch) -> str:
    access = touch.access
    slot = touch.number % case.program.allocation[access.allocation].slots
    verb = "writing" if access.write else "reading"
    return (
        f"{case.operation(touch.event).name} of {place(case.events[touch.event])} "
        f"{verb} {access.buffer} in {access.allocation} slot {slot}"
    )


def deadlock(setup: Setup, machine: Machine, log: Sequence[int]) -> Finding:
    """The finding for an execution in which nothing can happen any more."""
    case = setup.case
    lines: list[str] = []
    subject: list[str] = []
    for role, steps in case.roles.items():
        stuck = next((step for step in steps if not machine.done >> step & 1), None)
        if stuck is None:
            continue
        signal = case.events[stuck].signal
        lines.append(f"{describe(case, stuck)}: {_lack(setup, machine, stuck)}")
        subject.append(role)
        if signal is not None and signal.barrier not in subject:
            subject.append(signal.barrier)
    text = f"{len(lines)} of {len(case.roles)} roles wait for ever: {'; '.join(lines)}"
    last = [
        next((event for event in reversed(log) if event in set(steps)), -1)
        for steps in case.roles.values()
    ]
    witness = trace(case, log, [event for event in last if event >= 0], *lines)
    return Finding(Claim.DEADLOCK, text, tuple(subject), witness)


def _lack(setup: Setup, machine: Machine, stuck: int) -> str:
    """What a role that stands still is waiting for."""
    case = setup.case
    signal = case.events[stuck].signal
    if signal is None:
        return "what it wait_groups is not complete"
    missing = [
        describe(case, event)
        for event in case.signals.get((signal.barrier, signal.number), ())
        if not machine.done >> event & 1
    ]
    state = f"the slot is in phase {machine.phases[signal.cell]}"
    if missing:
        return f"{state}, still to come: {', '.join(missing)}"
    pending, expect_tx = machine.pending[signal.cell], machine.expect_tx[signal.cell]
    return f"{state} with {pending} arrivals and {expect_tx} bytes open, and nothing is to come"


# -- lines -------------------------------------------------------------------------------------


def trace(case: Case, log: Sequence[int], cited: Sequence[int], *end: str) -> tuple[str, ...]:
    """The events of ``log`` without which those cited could not have happened, then ``end``."""
    causes: dict[int, list[int]] = defaultdict(list)
    for cause, effects in enumerate(case.then):
        for effect in effects:
            causes[effect].append(cause)
    happened = set(log)
    wanted = [event for event in cited if event in happened]
    past: set[int] = set()
    while wanted:
        event = wanted.pop()
        if event in past:
            continue
        past.add(event)
        wanted += causes[event]
        signal = case.events[event].signal
        if case.events[event].waits and signal is not None:
            wanted += case.signals.get((signal.barrier, signal.number), [])
    events = [event for event in log if event in past]
    left = max(len(events) - LONGEST, 0)
    lines = [f"... {left} steps"] if left else []
    lines += [f"{i + 1}. {describe(case, event)}" for i, event in enumerate(events) if i >= left]
    return (f"trip counts {list(case.trips)}", *lines, *(f"=> {line}" for line in end))

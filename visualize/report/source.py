"""What a report is about: the file, and everything that existing stages derive from it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from schedgen.driver.checking import load_program, rebind
from schedgen.errors import SchedgenError
from schedgen.program.file import is_program
from schedgen.program.model import Program
from schedgen.schedule import Schedule, ScheduledEdge, ScheduledOperation, read_schedule

if TYPE_CHECKING:
    from schedgen.solver.problem import Problem


@dataclass(frozen=True)
class Source:
    """A schedule, the program synthesized from it and the problem that it solves.

    ``schedule`` is None for a program file: it has no start times. ``missing`` says in a sentence
    why there is no program, '' if there is one. ``problem`` is None where the spec is not at hand.
    ``explanation``: why II - 1 is impossible, if somebody asked.
    """

    schedule: Schedule | None
    program: Program | None
    problem: Problem | None = None
    explanation: tuple[str, ...] = ()
    missing: str = ""


def read_source(text: str, file: str, *, explain: bool = False) -> Source:
    """The schedule or program in ``text``, with what can be derived from it.

    ``explain`` asks Z3 where the file does not say why II - 1 is impossible; that takes up to half
    a minute. Raises SchedgenError or ScheduleError for a file that is neither.
    """
    data = _json(text)
    if is_program(data):
        return Source(None, load_program(text, file))
    schedule = settled(read_schedule(text, file))
    program, missing = None, ""
    try:
        program = load_program(schedule.to_json(), file)
    except SchedgenError as error:
        missing = str(error).removeprefix(f"{file}: ")
    problem = _problem(schedule, file)
    told = _told(data)
    if explain and not told and problem is not None and schedule.proven_optimal:
        from schedgen.solver.explain import explain_bound

        told = explain_bound(problem, schedule.ii_cycles)
    return Source(schedule, program, problem, told, missing)


def settled(schedule: Schedule) -> Schedule:
    """``schedule`` with everything that repeats start times computed from them again.

    A file has start times, and besides stages, slots and slacks that follow from them. Whoever
    changes one start time sees that change everywhere.
    """
    start = {op.id: op.start for op in schedule.ops}
    ii = max(schedule.ii_cycles, 1)

    def place(op: ScheduledOperation) -> ScheduledOperation:
        if op.phase != "body":
            return replace(op, stage=0, slot=op.start)
        return replace(op, stage=op.start // ii, slot=op.start % ii)

    def slack(edge: ScheduledEdge) -> ScheduledEdge:
        if edge.src not in start or edge.dst not in start:
            return edge
        gap = start[edge.dst] + ii * edge.distance - start[edge.src]
        return replace(edge, slack=gap - edge.delay)

    ops = tuple(map(place, schedule.ops))
    body = [op for op in ops if op.phase == "body"]
    ends = [op.start + op.latency for op in body]
    return replace(
        schedule,
        ops=ops,
        edges=tuple(map(slack, schedule.edges)),
        stages=max((op.stage for op in body), default=0) + 1,
        length_cycles=max(ends, default=0) - min((op.start for op in body), default=0),
    )


def _problem(schedule: Schedule, file: str) -> Problem | None:
    """The problem that the schedule solves, None where its spec or machine is not at hand."""
    from schedgen.dependence import derive
    from schedgen.machine import CostError
    from schedgen.solver.problem import ProblemError, build_problem

    try:
        kernel, machine = rebind(schedule, file)
        return build_problem(kernel, machine, derive(kernel), schedule.latencies)
    except (SchedgenError, ProblemError, CostError):
        return None


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _told(data: object) -> tuple[str, ...]:
    """The explanation that ``solve --explain --json`` leaves in its output."""
    if not isinstance(data, dict):
        return ()
    found = cast("dict[str, object]", data).get("explanation", [])
    lines = cast("list[object]", found) if isinstance(found, list) else []
    return tuple(line for line in lines if isinstance(line, str))

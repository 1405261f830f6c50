"""How fast the synchronized program runs: the maximum cycle ratio of its event graph.

The schedule says when operations start; the program says what they really wait for. Its critical
cycle is what the hardware will show if latencies are as the machine model says.
"""

from __future__ import annotations

from dataclasses import dataclass

from schedgen.bounds import Constraint, critical_cycle
from schedgen.ordering.events import EventGraph
from schedgen.ordering.graph import event_graph
from schedgen.program.model import Program, Run, Wait
from schedgen.program.operations import Engine
from schedgen.reasons import Reason, ReasonKind


@dataclass(frozen=True, slots=True)
class Pace:
    """Cycles per iteration in the steady state, and the cycle that sets them."""

    cycles: float
    cycle: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gain:
    """``what`` would bring the pace to ``cycles``."""

    what: str
    cycles: float


def pace(program: Program, end: str = "high") -> Pace:
    """The pace of ``program`` at the ``low`` or ``high`` end of its latencies."""
    return _Timing(program, end).pace()


def gains(program: Program, end: str = "high") -> list[Gain]:
    """What one more stage behind each barrier and a tenth off each latency would bring, best first.

    A stage more lets whoever waits for a slot run an iteration further ahead. Storage is not
    looked at: the gain says whether to look for it.
    """
    timing = _Timing(program, end)
    now = timing.pace().cycles
    found = [
        Gain(f"one more stage behind {barrier.name}", timing.pace(deeper=barrier.name).cycles)
        for barrier in program.barriers
    ]
    found += [
        Gain(f"{operation.name} a tenth shorter", timing.pace(shorter=operation.name).cycles)
        for operation in program.operations
    ]
    return sorted((gain for gain in found if gain.cycles < now), key=lambda gain: gain.cycles)


class _Timing:
    """The event graph of the loop with the delays of its arcs."""

    def __init__(self, program: Program, end: str) -> None:
        self.graph = event_graph(program)
        self.end = end
        self.arcs = [
            (a, arc, _delay(self.graph, a, arc.dst, end)) for a, arc in self.graph.loop_arcs()
        ]
        self.unit, self.busy = _busiest_unit(program)

    def pace(self, *, deeper: str = "", shorter: str = "") -> Pace:
        """The pace, with a stage more behind barrier ``deeper``, operation ``shorter`` quicker."""
        behind = Reason(ReasonKind.BARRIER, (deeper,))
        constraints = [
            Constraint(
                str(a),
                str(arc.dst),
                delay - (abs(delay) // 10 if shorter and self._runs(a) == shorter else 0),
                arc.shift + (arc.shift > 0 and arc.why == behind),
                arc.why,
            )
            for a, arc, delay in self.arcs
        ]
        found = critical_cycle(constraints)
        if found is None or found.ratio <= self.busy:
            return Pace(float(self.busy), (self.unit,))
        names = tuple(self.graph.events[int(c.src)].name for c in found.constraints if c.delay)
        return Pace(round(float(found.ratio), 2), names)

    def _runs(self, event: int) -> str:
        step = self.graph.events[event].step
        return step.action.operation if step and isinstance(step.action, Run) else ""


def _busiest_unit(program: Program) -> tuple[str, int]:
    """The unit with the most cycles of work in an iteration."""
    work: dict[str, int] = {}
    for role in program.roles:
        for step in role.loop:
            if isinstance(step.action, Run):
                for unit, cycles in program.operation[step.action.operation].units:
                    work[unit] = work.get(unit, 0) + cycles
    return max(work.items(), key=lambda load: load[1], default=("", 0))


def _delay(graph: EventGraph, a: int, b: int, end: str) -> int:
    """Cycles from event ``a`` to event ``b`` at least, where an arc connects them."""
    event, other = graph.events[a], graph.events[b]
    pick = 0 if end == "low" else 1
    run = event.step.action if event.step is not None else None
    operation = graph.program.operation[run.operation] if isinstance(run, Run) else None
    if operation is not None and event.part == "step":
        # Its role goes on when it was issued; a synchronous one when it is done.
        held = operation.hold[pick] if event.role == other.role and other.part == "step" else 0
        return max(held, operation.latency[pick]) if operation.engine is Engine.THREADS else held
    if operation is not None and event.part == "begin" and other.part == "end":
        return operation.latency[pick]
    if operation is not None and event.part == "end" and other.part == "begin":
        # The next operation of a queue starts when the unit is free, before the result is there.
        return operation.busy - operation.latency[pick]
    if other.step is not None and isinstance(other.step.action, Wait) and event.part != "end":
        return graph.program.handoff[pick] if event.role != other.role else 0
    return 0

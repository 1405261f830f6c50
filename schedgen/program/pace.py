"""How fast the synchronized program runs: the maximum cycle ratio of its event graph.

The schedule says when operations start; the program says what they really wait for. Its critical
cycle is what the hardware will show if latencies are as the machine model says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from schedgen.bounds import Constraint, critical_cycle
from schedgen.program.model import Engine, Program, Run, Wait
from schedgen.proof.events import EventGraph


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
    graph = EventGraph(program)
    constraints = [
        Constraint(str(a), str(arc.dst), _delay(graph, a, arc.dst, end), arc.shift, arc.why)
        for a, arc in graph.loop_arcs()
    ]
    found, (unit, busy) = critical_cycle(constraints), _busiest_unit(program)
    if found is None or found.ratio <= busy:
        return Pace(float(busy), (unit,))
    names = tuple(graph.events[int(c.src)].name for c in found.constraints if c.delay)
    return Pace(round(float(found.ratio), 2), names)


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


def gains(program: Program, end: str = "high") -> list[Gain]:
    """What one more slot of each ring and a tenth off each latency would bring, best first."""
    now = pace(program, end).cycles
    found: list[Gain] = []
    for operation in program.operations:
        low, high = operation.latency
        quick = replace(operation, latency=(low - low // 10, high - high // 10))
        faster = replace(
            program,
            operations=tuple(quick if o is operation else o for o in program.operations),
        )
        found.append(Gain(f"{operation.name} a tenth shorter", pace(faster, end).cycles))
    return sorted((g for g in found if g.cycles < now), key=lambda gain: gain.cycles)

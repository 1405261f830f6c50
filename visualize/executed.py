"""A program as the same view: one tile, each step as early as its waits let it happen.

A program file has no start times. What it does have is who waits for what and how long everything
takes, and with latencies at one end of their intervals that gives the times: those of the machine
model if nothing else slows it down. The rules are those of `schedgen.synchronize.pace`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from schedgen.errors import SchedgenError
from schedgen.execution.events import BEFORE, LOOP, Event, unroll
from schedgen.execution.machine import Machine, Setup
from schedgen.program.model import Program, Run, Wait, WaitGroup
from schedgen.program.operations import Engine, TileOperation
from schedgen.visualize.storage import Storage
from schedgen.visualize.tracks import program_tracks
from schedgen.visualize.view import (
    OUTSIDE,
    Arrow,
    Slice,
    Unrolled,
    split_name,
)

EXTRA = 3
"""Iterations beyond those that fill the pipeline, if nobody says how many."""

# A program does not say which kind of operation the threads of a role execute.
_KINDS = {
    Engine.THREADS: "map",
    Engine.TENSOR: "mma",
    Engine.WGMMA: "mma",
    Engine.COPY_IN: "load",
    Engine.COPY_OUT: "store",
}


@dataclass
class _Role:
    """Where a role stands; ``waited``: source, barrier and slack of waits since its last slice."""

    clock: int = 0
    last: int = -1
    waited: list[tuple[int, str, int]] = field(default_factory=list[tuple[int, str, int]])


def execute(program: Program, *, end: str = "high", trips: int | None = None) -> Unrolled:
    """A tile of ``trips`` iterations, latencies at their ``low`` or ``high`` end.

    Raises SchedgenError for a program that comes to a stop.
    """
    stages = max((role.shifts for role in program.roles), default=0) + 1
    count = min(program.trips, stages + EXTRA) if trips is None else trips
    run = _Execution(program, 1 if end == "high" else 0, count)
    run.go()
    slices = sorted(run.slices, key=lambda s: (s.start, s.role, s.operation))
    place = {one.index: number for number, one in enumerate(slices)}
    tracks, placed = program_tracks(program, slices)
    return Unrolled(
        kernel=program.kernel,
        target=program.target,
        arch=program.arch,
        latencies=end,
        ii_cycles=program.ii_cycles,
        stages=stages,
        trips=count,
        begin=min((s.start for s in placed), default=0),
        end=max((max(s.end, s.hold_end, s.unit_end) for s in placed), default=1),
        cut=None,
        tracks=tracks,
        slices=placed,
        arrows=tuple(replace(a, src=place[a.src], dst=place[a.dst]) for a in run.arrows),
        occupancies=tuple(run.storage.occupancies()),
        critical_cycle=(),
        planned=False,
    )


class _Execution:
    """One tile: of the events that can happen, the earliest one does."""

    def __init__(self, program: Program, pick: int, trips: int) -> None:
        self.program, self.pick = program, pick
        self.case = unroll(program, (trips,))
        self.slices: list[Slice] = []
        self.arrows: list[Arrow] = []
        self.storage = Storage(program)
        self.free: dict[str, int] = {}
        self.roles = {role.name: _Role() for role in program.roles}
        self.rank = {role.name: number for number, role in enumerate(program.roles)}
        self.needed = [0] * len(self.case.events)
        """When all that an event needs had happened."""
        self.source = [-1] * len(self.case.events)
        """The last slice of its role when a completion or an arrival was asked for."""
        self.complete = [0] * len(self.case.queues)
        """When all that is in a queue is complete."""
        self.came: dict[tuple[str, int], list[tuple[int, str, int]]] = {}
        """By number of a barrier, what came: time, role, slice. The role is empty for copied bytes:
        their latency lasts until a waiting role may read them."""

    def go(self) -> None:
        """Runs all roles to their end."""
        machine = Machine(Setup(self.case))
        while machine.ready:
            time, _, event = min(self._next(event) for event in machine.ready)
            machine.ready.remove(event)
            machine.fire(event)
            self._happen(event, time)
            for later in self.case.then[event]:
                self.needed[later] = max(self.needed[later], time)
                if self.case.events[event].kind == "step":
                    self.source[later] = self.roles[self.case.events[event].role].last
        for name, steps in self.case.roles.items():
            stuck = next((step for step in steps if not machine.done >> step & 1), None)
            if stuck is not None:
                action = self.case.events[stuck].action
                assert isinstance(action, Wait)
                raise SchedgenError(
                    f"{name} waits for {action.barrier}[{action.number.text}] for ever; "
                    "'schedgen check' says why"
                )

    def _next(self, index: int) -> tuple[int, int, int]:
        """When an event that is ready happens; among equal times completions are first."""
        event = self.case.events[index]
        if event.kind != "step":
            return self.needed[index], -1, index
        role = self.roles[event.role]
        time = max(role.clock, self._completed(event) if event.waits else 0)
        if isinstance(event.action, WaitGroup):
            time = max(time, self.needed[index])
        return time, self.rank[event.role], index

    def _completed(self, event: Event) -> int:
        """When the phase that a wait is for was complete, as its role sees it."""
        assert event.signal is not None
        handoff = self.program.handoff[self.pick]
        came = self.came.get((event.signal.barrier, event.signal.number), [])
        return max(
            (time + (handoff if who not in ("", event.role) else 0) for time, who, _ in came),
            default=0,
        )

    def _happen(self, index: int, time: int) -> None:
        event = self.case.events[index]
        role = self.roles[event.role]
        signal = event.signal
        if event.waits and signal is not None:
            ready = self._completed(event)
            if came := self.came.get((signal.barrier, signal.number)):
                role.waited.append((max(came)[2], signal.barrier, max(0, role.clock - ready)))
        elif signal is not None:
            who = "" if event.kind == "completion" else event.role
            last = role.last if event.kind == "step" else self.source[index]
            came = self.came.setdefault((signal.barrier, signal.number), [])
            came.append((time, who, last))
        if event.kind == "step":
            role.clock = time
            if isinstance(event.action, Run):
                self._run(index, role)

    def _run(self, index: int, role: _Role) -> None:
        event = self.case.events[index]
        operation = self.case.operation(index)
        latency, hold = operation.latency[self.pick], operation.hold[self.pick]
        unit, cycles = operation.units[0] if operation.units else ("", 0)
        queued = operation.engine.asynchronous
        begin = max(role.clock, self.free.get(unit, 0)) if queued else role.clock
        result = begin + latency
        if queued:
            self.free[unit] = begin + max(cycles, operation.busy)
            completion = self.case.completion[index]
            queue = self.case.events[completion].queue
            if queue >= 0:  # what is in it completes in order
                result = self.complete[queue] = max(result, self.complete[queue])
            self.needed[completion] = result
        # Masks and the like cost nothing in the model; there is nothing to draw.
        if latency or hold or cycles:
            self._draw(role, operation, event, (begin, result, hold, cycles))
        iteration = event.instance.iteration if event.section == LOOP else OUTSIDE
        used = begin + max(cycles, operation.busy) if queued else result
        self.storage.touch(operation, event.instance, iteration, (begin, used, result))
        role.clock += hold if queued else max(hold, latency)

    def _draw(
        self,
        role: _Role,
        operation: TileOperation,
        event: Event,
        times: tuple[int, int, int, int],
    ) -> None:
        begin, result, hold, cycles = times
        looped = event.section == LOOP
        queued = operation.engine.asynchronous
        name, part = split_name(operation.name)
        kept = hold if queued else max(hold, result - begin)
        number = len(self.slices)
        self.slices.append(
            Slice(
                index=number,
                operation=operation.name,
                name=name,
                instance=part,
                kind=_KINDS[operation.engine],
                iteration=event.instance.iteration if looped else OUTSIDE,
                phase="steady" if looped else "before" if event.section == BEFORE else "after",
                unit=operation.units[0][0] if operation.units else "",
                exclusive=queued,
                role=event.role,
                start=begin,
                unit_end=begin + (cycles if queued else kept),
                hold_end=begin + kept,
                end=result,
            )
        )
        for source, barrier, slack in role.waited:
            if source >= 0:
                delay = begin - self.slices[source].start - slack
                self.arrows.append(Arrow(source, number, "barrier", barrier, 0, delay, slack))
        role.waited.clear()
        role.last = number

"""A program as the same view: one tile, each step as early as its waits let it happen.

A program file has no start times. What it does have is who waits for what and how long everything
takes, and with latencies at one end of their intervals that gives the times: those of the machine
model if nothing else slows it down. The rules are those of `schedgen.program.pace`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from schedgen.errors import SchedgenError
from schedgen.program.model import (
    Arrive,
    Commit,
    Drain,
    Engine,
    Fence,
    Number,
    Program,
    RoleProgram,
    Run,
    Step,
    TileOperation,
    Wait,
)
from schedgen.program.sequence import Instance, sequence
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
class _Phase:
    """A phase of a barrier: arrivals and bytes so far, and what came: time, role, slice.

    The role is empty for copied bytes: their latency lasts until a waiting role may read them.
    """

    arrivals: int = 0
    bytes: int = 0
    came: list[tuple[int, str, int]] = field(default_factory=list[tuple[int, str, int]])


@dataclass
class _Role:
    """Where a role stands. ``done``: its slices of each engine, with the time of completion."""

    program: RoleProgram
    steps: Iterator[tuple[str, Instance]]
    next: tuple[str, Instance] | None
    clock: int = 0
    last: int = -1
    waited: list[tuple[int, str, int]] = field(default_factory=list[tuple[int, str, int]])
    done: dict[Engine, list[tuple[str, int, int]]] = field(
        default_factory=dict[Engine, list[tuple[str, int, int]]]
    )

    def complete(self, engine: Engine) -> int:
        """When everything that was issued to ``engine`` so far is complete."""
        return max((end for _, end, _ in self.done.get(engine, [])), default=self.clock)


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
    """One tile, role by role: whoever can go on at the earliest time does."""

    def __init__(self, program: Program, pick: int, trips: int) -> None:
        self.program, self.pick, self.trips = program, pick, trips
        self.slices: list[Slice] = []
        self.arrows: list[Arrow] = []
        self.phases: dict[tuple[str, int], _Phase] = {}
        self.storage = Storage(program)
        self.free: dict[str, int] = {}
        self.roles: list[_Role] = []
        for role in program.roles:
            steps = _marked(role, trips)
            self.roles.append(_Role(role, steps, next(steps, None)))

    def go(self) -> None:
        """Runs all roles to their end."""
        while True:
            ready = [(time, n) for n, r in enumerate(self.roles) if (time := self._ready(r)) >= 0]
            if not ready:
                break
            self._step(self.roles[min(ready)[1]])
        for role in self.roles:
            if role.next is not None:
                action = role.next[1].step.action
                assert isinstance(action, Wait)
                raise SchedgenError(
                    f"{role.program.name} waits for {action.barrier}[{action.number.text}] for "
                    "ever; 'schedgen check' says why"
                )

    def _ready(self, role: _Role) -> int:
        """When the next step of ``role`` can happen, -1 if nobody knows yet."""
        if role.next is None:
            return -1
        instance = role.next[1]
        action = instance.step.action
        if not isinstance(action, Wait):
            return role.clock
        ready = self._completed(role, action, instance.number(action.number))
        return -1 if ready is None else max(role.clock, ready)

    def _completed(self, role: _Role, wait: Wait, number: int) -> int | None:
        barrier = self.program.barrier[wait.barrier]
        if number < 0 or number in barrier.skipped:
            return 0
        phase = self.phases.get((wait.barrier, number))
        if phase is None or phase.arrivals < barrier.arrivals or phase.bytes < barrier.bytes:
            return None
        handoff = self.program.handoff[self.pick]
        return max(time + (handoff if who not in ("", role.program.name) else 0)
                   for time, who, _ in phase.came)  # fmt: skip

    def _step(self, role: _Role) -> None:
        assert role.next is not None
        section, instance = role.next
        name = role.program.name
        match instance.step.action:
            case Wait(barrier=barrier, number=number) as wait:
                ready = self._completed(role, wait, instance.number(number)) or 0
                if phase := self.phases.get((barrier, instance.number(number))):
                    _, _, source = max(phase.came)
                    slack = max(0, role.clock - ready)
                    role.waited.append((source, barrier, slack))
                role.clock = max(role.clock, ready)
            case Arrive(barrier=barrier, number=number, count=count):
                self._signal(barrier, instance.number(number), count, 0, role.clock, name, role)
            case Commit(barrier=barrier, number=number):
                time = max(role.clock, role.complete(Engine.TENSOR))
                self._signal(barrier, instance.number(number), 1, 0, time, name, role)
            case Drain(operation=operation, lag=lag):
                role.clock = max(role.clock, self._drained(role, operation, lag, section, instance))
            case Run() as run:
                self._run(role, run, section, instance)
            case Fence():
                pass
        role.next = next(role.steps, None)

    def _signal(
        self, barrier: str, number: int, arrivals: int, size: int, time: int, who: str, role: _Role
    ) -> None:
        phase = self.phases.setdefault((barrier, number), _Phase())
        phase.arrivals += arrivals
        phase.bytes += size
        phase.came.append((time, who, role.last))

    def _drained(
        self, role: _Role, operation: str, lag: int, section: str, instance: Instance
    ) -> int:
        """When the instance that a drain waits for, and all before it, is complete."""
        issued = role.done.get(self.program.operation[operation].engine, [])
        wanted = None if section != "loop" else instance.iteration - lag
        found = [
            number
            for number, (name, _, iteration) in enumerate(issued)
            if name == operation and (wanted is None or iteration == wanted)
        ]
        return max((end for _, end, _ in issued[: found[-1] + 1]), default=0) if found else 0

    def _run(self, role: _Role, run: Run, section: str, instance: Instance) -> None:
        operation = self.program.operation[run.operation]
        latency, hold = operation.latency[self.pick], operation.hold[self.pick]
        unit, cycles = operation.units[0] if operation.units else ("", 0)
        queued = operation.engine.asynchronous
        begin = max(role.clock, self.free.get(unit, 0)) if queued else role.clock
        result = begin + latency
        if queued:
            self.free[unit] = begin + max(cycles, operation.busy)
            # Operations of an engine that works in order complete in order.
            if operation.engine is not Engine.COPY_IN and role.done.get(operation.engine):
                result = max(result, role.complete(operation.engine))
        # Masks and the like cost nothing in the model; there is nothing to draw.
        if latency or hold or cycles:
            self._draw(role, operation, section, instance, (begin, result, hold, cycles))
        iteration = instance.iteration if section == "loop" else OUTSIDE
        used = begin + max(cycles, operation.busy) if queued else result
        self.storage.touch(operation, instance, iteration, (begin, used, result))
        role.done.setdefault(operation.engine, []).append((run.operation, result, iteration))
        if run.barrier is not None and run.number is not None:
            number: Number = run.number
            self._signal(run.barrier, instance.number(number), 0, run.bytes, result, "", role)
        role.clock += hold if queued else max(hold, latency)

    def _draw(
        self,
        role: _Role,
        operation: TileOperation,
        section: str,
        instance: Instance,
        times: tuple[int, int, int, int],
    ) -> None:
        begin, result, hold, cycles = times
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
                iteration=instance.iteration if section == "loop" else OUTSIDE,
                phase="steady" if section == "loop" else section,
                unit=operation.units[0][0] if operation.units else "",
                exclusive=queued,
                role=role.program.name,
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


def _marked(role: RoleProgram, trips: int) -> Iterator[tuple[str, Instance]]:
    """The steps of ``role`` with the section that each is from."""
    sections: dict[int, str] = {}
    for section, steps in (("before", role.before), ("loop", role.loop), ("after", role.after)):
        for step in steps:
            sections[id(step)] = section
    for instance in sequence(role, (trips,)):
        step: Step = instance.step
        yield sections[id(step)], instance

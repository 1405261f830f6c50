"""What a program takes where its roles share the units of an SM.

`schedgen.synchronize.pace` says what waits allow; here whoever wants a unit that is taken goes on
more slowly. Nothing but its barriers keeps a program's roles to the order in which the schedule has
them, so how they share depends on how they lie to each other. Two ends of that are executed:

- *in turn*: exclusive units serve requests as they come, one after the other, so that roles that do
  the same come to lie behind each other, as the schedule has them;
- *in step*: roles with equal loops begin each iteration together and share every unit, so that all
  want the same one at the same time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from schedgen.errors import SchedgenError
from schedgen.execution.events import LOOP, Event, unroll
from schedgen.execution.fused import fused
from schedgen.execution.machine import Machine as Barriers
from schedgen.execution.machine import Setup
from schedgen.execution.sharing import Sharing
from schedgen.machine import Machine
from schedgen.program.model import Fence, FenceKind, Program, RoleProgram, Run, WaitGroup
from schedgen.program.operations import Engine, TileOperation

Manner = Literal["in turn", "in step"]

FENCE = "proxy_fence"
"""Constant: cycles of a fence to the asynchronous proxy, for each warp. A model may lack it."""
_FILLED, _COUNTED = 12, 24
"""Iterations after which a program is in its steady state, and those that are counted."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Cycles for which a thread is busy with a wait that finds its barrier complete, and with an
    arrival; ``handoff``: from an arrival until a role that waits goes on; ``fence``: of a fence to
    the asynchronous proxy, for each warp of its role.
    """

    wait: float
    arrive: float
    handoff: float
    fence: float


def cycles_per_iteration(
    program: Program,
    machine: Machine,
    manner: Manner,
    end: str = "high",
    without: Collection[str] = (),
) -> float:
    """Cycles of an iteration in the steady state, latencies at their ``low`` or ``high`` end.

    Operations named in ``without`` take no time: those whose condition seldom holds.

    Raises SchedgenError for a program that comes to a stop.
    """
    program = fused(program, without)
    many, few = (
        Contended(program, machine, manner, end, (trips,)).cycles()
        for trips in (_FILLED + _COUNTED, _FILLED)
    )
    return (many - few) / _COUNTED


def cycles_of_tiles(
    program: Program,
    machine: Machine,
    manner: Manner,
    trips: Sequence[int],
    end: str = "high",
    without: Collection[str] = (),
) -> float:
    """Cycles of output tiles, one after the other, with so many iterations each; the rest is as for
    `cycles_per_iteration`.
    """
    return Contended(fused(program, without), machine, manner, end, trips).cycles()


class Contended:
    """Output tiles with ``trips`` iterations. Jobs are numbered by the events whose operation they
    are.
    """

    def __init__(
        self,
        program: Program,
        machine: Machine,
        manner: Manner,
        end: str,
        trips: Sequence[int],
    ) -> None:
        self.pick = 1 if end == "high" else 0
        handoff = program.handoff[self.pick]
        fence = float(machine.value(FENCE)) if FENCE in machine.constant else 0.0
        self.costs = Costs(machine.cycles("wait"), machine.cycles("arrive"), handoff, fence)
        self.warps = {role.name: role.warps for role in program.roles}
        self.case = unroll(program, trips)
        in_step = manner == "in step"
        self.units = Sharing(() if in_step else _exclusive(program, machine))
        self.clock = {role.name: 0.0 for role in program.roles}
        """When a role can take its next step; infinity while it executes an operation."""
        self.needed = [0.0] * len(self.case.events)
        """When all that an event needs had happened."""
        self.came: dict[tuple[str, int], list[tuple[float, str]]] = defaultdict(list)
        """By number of a barrier: when arrivals came, and of which role; empty for bytes."""
        self.queues: dict[tuple[str, Engine], list[int]] = defaultdict(list)
        self.issued: dict[int, float] = {}
        """When all instructions of an operation of an engine were issued."""
        self.gates = _Gates(program.roles if in_step else (), self._first())

    def _first(self) -> dict[str, list[int]]:
        """The first step of each iteration of the loops of each role."""
        events = self.case.events
        found: dict[str, dict[tuple[int, int], int]] = defaultdict(dict)
        for role, steps in self.case.roles.items():
            for step in steps:
                if events[step].section == LOOP:
                    instance = events[step].instance
                    found[role].setdefault((instance.tile, instance.iteration), step)
        return {role: list(first.values()) for role, first in found.items()}

    def cycles(self) -> float:
        """Runs all roles to their end."""
        barriers = Barriers(Setup(self.case))
        last = 0.0
        while True:
            time, event = min(((self._time(e), e) for e in barriers.ready), default=(inf, -1))
            done, job = self.units.next()
            if done == inf and time == inf:
                # All that is left waits at a gate for a role that waits for one of these.
                time, event = min(
                    ((self._time(e, gated=False), e) for e in barriers.ready), default=(inf, -1)
                )
                if time == inf:
                    break
            if done <= time:
                last = max(last, self._end(job, done))
            else:
                last = max(last, self._fire(barriers, event, time))
        if not barriers.finished:
            raise SchedgenError("the program comes to a stop; 'schedgen check' says why")
        return last

    def _end(self, job: int, time: float) -> float:
        """An operation needs its units no longer; when that is."""
        self.units.advance(time)
        self.units.remove(job)
        self._finished(job, time)
        return time

    def _fire(self, barriers: Barriers, event: int, time: float) -> float:
        """An event happens, not before ``time``; when it does."""
        time = max(time, self.units.now)
        self.units.advance(time)
        barriers.ready.remove(event)
        barriers.fire(event)
        for later in self.case.then[event]:
            self.needed[later] = max(self.needed[later], time)
        self._happen(event, time)
        return time

    def _time(self, index: int, gated: bool = True) -> float:
        """When an event that is ready happens, as far as that is known."""
        event = self.case.events[index]
        if event.kind != "step":
            return self.needed[index]
        time = self.clock[event.role]
        if event.waits:
            time = max(time, self._complete(event))
        if isinstance(event.action, WaitGroup):
            time = max(time, self.needed[index])
        return self.gates.opens(index, time) if gated else time

    def _complete(self, event: Event) -> float:
        """When the phase that a wait is for was complete, as its role sees it."""
        assert event.signal is not None
        came = self.came[event.signal.barrier, event.signal.number]
        handoff = self.costs.handoff
        return max(
            (t + (handoff if who not in ("", event.role) else 0) for t, who in came), default=0
        )

    def _happen(self, index: int, time: float) -> None:
        event = self.case.events[index]
        if event.signal is not None and not event.waits:
            who = "" if event.kind == "completion" else event.role
            self.came[event.signal.barrier, event.signal.number].append((time, who))
        if event.kind != "step":
            return
        self.clock[event.role] = time + self._busy(event)
        if isinstance(event.action, Run):
            self._begin(index, event)

    def _busy(self, event: Event) -> float:
        """Cycles that a step on a barrier in memory, or a fence, takes its role."""
        action = event.action
        if isinstance(action, Fence) and action.kind is FenceKind.ASYNC_PROXY:
            return round(self.costs.fence * self.warps[event.role])
        if (
            event.signal is None
            or self.case.program.barrier[event.signal.barrier].kind != "mbarrier"
        ):
            return 0.0
        return self.costs.wait if event.waits else self.costs.arrive

    def _begin(self, index: int, event: Event) -> None:
        """The role of ``event`` comes to an operation."""
        operation = self.case.operation(index)
        if operation.engine.asynchronous:
            self.clock[event.role] += operation.hold[self.pick]
            self.issued[index] = self.clock[event.role]
            self.needed[self.case.completion[index]] = inf
            queue = self.queues[_server(operation, event.role), operation.engine]
            queue.append(index)
            if len(queue) == 1:
                self._serve(index)
        elif any(cycles for _, cycles in operation.units):
            self.clock[event.role] = inf
            self.units.add(index, dict(operation.units), ahead=False)
        else:
            self.clock[event.role] += operation.latency[self.pick]

    def _serve(self, index: int) -> None:
        """The first one in its queue goes to its engine."""
        operation = self.case.operation(index)
        need = dict(operation.units)
        self.units.add(index, need if any(need.values()) else {"": 1.0}, ahead=True)

    def _finished(self, index: int, time: float) -> None:
        """An operation needs its units no longer; its result is there after the rest of its
        latency, which of an engine begins when all of it was issued.
        """
        event, operation = self.case.events[index], self.case.operation(index)
        rest = max(operation.latency[self.pick] - _served(operation), 0)
        if not operation.engine.asynchronous:
            self.clock[event.role] = time + rest
            return
        self.needed[self.case.completion[index]] = max(time, self.issued.pop(index)) + rest
        queue = self.queues[_server(operation, event.role), operation.engine]
        queue.remove(index)
        if queue:
            self._serve(queue[0])


class _Gates:
    """Roles with equal loops, which begin each iteration together."""

    def __init__(self, roles: Iterable[RoleProgram], first: Mapping[str, Sequence[int]]) -> None:
        equal: dict[object, list[str]] = defaultdict(list)
        for role in roles:
            if role.name in first:
                equal[_shape(role)].append(role.name)
        self._together: dict[int, list[int]] = {}
        """The first step of an iteration of a role -> those of all roles that go with it."""
        for names in equal.values():
            for steps in zip(*(first[name] for name in names), strict=True):
                self._together |= {step: list(steps) for step in steps}
        self._there: dict[int, float] = {}

    def opens(self, step: int, time: float) -> float:
        """When a role that could take ``step`` at ``time`` does take it."""
        together = self._together.get(step)
        if together is None:
            return time
        self._there[step] = time
        return max(self._there.get(one, inf) for one in together)


def _shape(role: RoleProgram) -> object:
    """What two roles have in common that do the same with other data, and do not hand it to each
    other: their operations but for the indices, whatever else keeps the one or the other from its
    next one.
    """
    return role.warps, tuple(
        (s.action.operation.partition("[")[0], s.shift, s.guard)
        for s in role.loop
        if isinstance(s.action, Run)
    )


def _exclusive(program: Program, machine: Machine) -> set[str]:
    """The units of engines that serve one request at a time."""
    return {
        unit
        for operation in program.operations
        if operation.engine.asynchronous
        for unit, _ in operation.units[:1]
        if machine.exclusive(unit)
    }


def _server(operation: TileOperation, role: str) -> str:
    """Whose operations wait for each other in an engine: those of a CTA on Blackwell."""
    return "" if operation.engine is Engine.TENSOR else role


def _served(operation: TileOperation) -> int:
    """Cycles of its latency for which an operation, alone, has its units."""
    if operation.engine.asynchronous and operation.units:
        return operation.units[0][1]
    return max((cycles for _, cycles in operation.units), default=0)

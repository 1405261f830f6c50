"""Runs a grid: clusters become resident, warps take turns, asynchronous operations execute.

A warp runs until it blocks, has used up its quantum or comes to a place in front of which turns
end. Who goes next is the policy's choice. When
nothing can run, in this order: another cluster is started; lanes that were held back for
reconvergence go on; timed waits expire; and then it is a deadlock, which is explained.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from time import perf_counter, thread_time
from typing import NoReturn

from schedgen.emulator.machine.conditions import EXITED, YIELD, Condition, Meeting
from schedgen.emulator.machine.explain import deadlock, hottest, located
from schedgen.emulator.machine.joined import Joined
from schedgen.emulator.machine.lanes import DeadlockError, EndlessError
from schedgen.emulator.machine.policies import Policy
from schedgen.emulator.machine.program import Stretch
from schedgen.emulator.machine.residency import Grid
from schedgen.emulator.machine.warp import Group, Warp, company

_PATIENCE = 4_000
"""Instructions per ready warp without any synchronization, after which others are revived: those
that run may be waiting for them in global memory."""
_GLANCE = 64
"""Turns between two looks at the clock."""
_EXPIRIES = 3
"""Times that all timed waits may expire in a row before it is called a deadlock."""


@dataclass(frozen=True)
class Bounds:
    """What a launch may take; a kernel that takes more is taken to loop forever.

    Attributes:
        limit: warp instructions.
        stall: seconds of processor time without progress: no arrival, no asynchronous operation,
            no end of a warp. Processor time, because how busy the computer is must not matter.
        seconds: from beginning to end, by the clock; None: any.
    """

    limit: int
    stall: float
    seconds: float | None = None


class Scheduler:
    """Runs a grid; ``policy`` decides who goes next."""

    def __init__(self, grid: Grid, policy: Policy, bounds: Bounds) -> None:
        self._grid = grid
        self._machine = grid.machine
        self._policy = policy
        self._bounds = bounds
        self._expired_at = -1
        self._expiries = 0

    def run(self) -> None:
        """Executes the grid.

        Raises:
            EmulationError: the kernel did something undefined, is deadlocked, or is taken to loop
                forever.
        """
        grid, machine, policy = self._grid, self._machine, self._policy
        ready, pending = grid.ready, machine.operations.pending
        for _ in range(policy.clusters):
            grid.start()
        since, events = 0, 0
        watch = _Watch(grid, self._bounds)
        while True:
            if ready or pending:
                choice = policy.pick(ready, pending)
                if choice < len(ready):
                    warp = ready.pop(choice)
                    warp.queued = False
                    others = company(warp) if policy.together else ()
                    if others:
                        for other in others:
                            ready.remove(other)
                            other.queued = False
                        self._common_turn([warp, *others])
                    else:
                        self._turn(warp)
                else:
                    machine.operations.run(choice - len(ready))
            elif not self._revive():
                break
            watch.look()
            if machine.events != events:
                since, events = machine.executed, machine.events
            elif machine.executed - since > _PATIENCE * (1 + len(ready)):
                since = machine.executed
                self._revive()

    def wake(self, warp: Warp, group: Group) -> None:
        """What a group of lanes has waited for is so now."""
        condition = group.condition
        assert condition is not None
        group.condition = None
        if condition.again:
            group.resumed = condition
        warp.hold = True
        self._grid.queue(warp)

    def _turn(self, warp: Warp) -> None:
        """A warp runs until it blocks or ends, or its turn is over."""
        if not warp.settle():
            return
        machine, program = self._machine, self._grid.program
        stretches = program.stretches
        budget, stops = self._policy.quantum, self._policy.stops
        left = budget
        stretch = stretches[warp.pc]
        step: object = None
        try:
            while True:
                stretch = stretches[warp.pc] or program.decode(warp.pc)
                for step in stretch.parts:
                    step(warp)
                end = warp.pc = stretch.end
                left -= end - stretch.start
                program.count(stretch, 1)
                control = step = stretch.control
                if control is not None:
                    condition = control(warp)
                    warp.resumed = None
                    if condition is not None and not self._stop(warp, condition, end):
                        break
                if left <= 0 or (stops and warp.pc in stops):
                    self._pause(warp)
                    break
                if warp.groups and not warp.rejoin():
                    break
        except Exception as problem:
            raise located(problem, warp, stretch, step) from problem
        finally:
            machine.executed += budget - left

    def _common_turn(self, warps: list[Warp]) -> None:
        """Warps that are in the same place run as in a turn of each, side by side, until they part.

        What a run of elementwise instructions computes is computed for all of them at once.
        """
        machine, program = self._machine, self._grid.program
        for warp in warps:
            warp.settle()
        left = self._policy.quantum
        executed = 0
        stretch: Stretch | None = None
        step: object = None
        warp = warps[0]
        try:
            while warps:
                pc = warps[0].pc
                stretch = program.stretches[pc] or program.decode(pc)
                program.count(stretch, len(warps))
                for step, several in zip(stretch.parts, stretch.sides, strict=True):
                    if several is not None and several(warps):
                        continue
                    if isinstance(step, Joined):
                        for warp in warps:
                            step.settle(warp)
                        step.together(warps)
                    else:
                        for warp in warps:
                            step(warp)
                end = stretch.end
                size = end - stretch.start
                left -= size
                executed += size * len(warps)
                for warp in warps:
                    warp.pc = end
                step = stretch.control
                if step is not None and not (stretch.several and stretch.several(warps)):
                    going: list[Warp] = []
                    for warp in warps:
                        condition = step(warp)
                        warp.resumed = None
                        if condition is None or self._stop(warp, condition, end):
                            going.append(warp)
                    warps = going
                warps = self._part(warps, left)
        except Exception as problem:
            raise located(problem, warp, stretch, step) from problem
        finally:
            machine.executed += executed

    def _part(self, warps: list[Warp], left: int) -> list[Warp]:
        """Those that are still in one place with all of their lanes, the most that there are; the
        others have turns of their own, as all have that have used up their quantum."""
        pc = warps[0].pc if warps and left > 0 else -1
        for warp in warps:
            if warp.pc != pc or not warp.full or warp.groups:
                break
        else:
            return warps
        places = Counter(warp.pc for warp in warps if warp.full and not warp.groups)
        pc, count = places.most_common(1)[0] if places else (-1, 0)
        stay: list[Warp] = []
        for warp in warps:
            if left > 0 and count > 1 and warp.pc == pc and warp.full and not warp.groups:
                stay.append(warp)
            else:
                self._pause(warp)
        return stay

    def _stop(self, warp: Warp, condition: Condition, end: int) -> bool:
        """Takes lanes that cannot go on aside. Returns whether other lanes can."""
        if condition is YIELD:
            self._pause(warp)
            return False
        if condition is EXITED:
            self._machine.events += 1
            if not warp.groups:
                self._finish(warp)
                return False
            return warp.settle()
        if not isinstance(condition, Meeting):
            self._machine.blocked.add(self._grid.program.kernel.body[end - 1].line)
        group = warp.block_on(condition, end - 1 if condition.again else end)
        condition.wake = partial(self.wake, warp, group)
        condition.resource.waiting.append(condition)
        return warp.settle()

    def _pause(self, warp: Warp) -> None:
        warp.groups.append(Group(warp.pc, warp.active, None))
        warp.late = False
        self._grid.queue(warp)

    def _finish(self, warp: Warp) -> None:
        warp.finished = True
        block = warp.block
        block.registers.ended(warp)
        for barrier in block.barriers:
            barrier.settle()
        cluster = block.cluster
        cluster.barrier.settle()
        if block.finished:
            block.ended()
        if cluster.finished:
            grid = self._grid
            del grid.resident[cluster]
            if len(grid.resident) < self._policy.clusters:
                grid.start()

    def _revive(self) -> bool:
        """Lets something run that could not so far; False if the grid is done.

        Raises:
            DeadlockError: nothing can.
        """
        grid = self._grid
        if grid.start():
            return True
        waiting = [warp for warps in grid.resident.values() for warp in warps if not warp.finished]
        if not waiting:
            return False
        held = [w for w in waiting if sum(g.condition is None for g in w.groups) > w.queued]
        for warp in held:
            warp.hold = False
            warp.late = warp.queued  # lanes that come first in the control flow may spin for ever
            grid.queue(warp)
        if not held and not self._expire(waiting) and not grid.ready:
            raise DeadlockError(deadlock(grid, waiting))
        return True

    def _expire(self, waiting: list[Warp]) -> bool:
        """Lets timed waits return without success, unless that has led to nothing before."""
        if self._machine.events != self._expired_at:
            self._expired_at, self._expiries = self._machine.events, 0
        self._expiries += 1
        timed = [
            (warp, group)
            for warp in waiting
            for group in warp.groups
            if group.condition is not None and group.condition.timed
        ]
        if not timed or self._expiries > _EXPIRIES:
            return False
        for warp, group in timed:
            condition = group.condition
            assert condition is not None
            condition.expired = True
            condition.resource.waiting.remove(condition)
            self.wake(warp, group)
        return True


class _Watch:
    """Ends launches that go beyond their bounds."""

    def __init__(self, grid: Grid, bounds: Bounds) -> None:
        self._grid = grid
        self._machine = grid.machine
        self._bounds = bounds
        self._begin = perf_counter()
        self._turns = 0
        self._events = -1
        self._since = 0.0

    def look(self) -> None:
        """Called after every turn. Raises EndlessError."""
        machine, bounds = self._machine, self._bounds
        if machine.executed > bounds.limit:
            self._end(f"has executed more than {bounds.limit} warp instructions", "limit")
        self._turns += 1
        if self._turns % _GLANCE:
            return
        if machine.events != self._events:
            self._events, self._since = machine.events, thread_time()
        elif thread_time() - self._since > bounds.stall:
            self._end(
                f"has executed for {bounds.stall:g} s without an arrival, an asynchronous "
                "operation or the end of a warp",
                "stall",
            )
        if bounds.seconds is not None and perf_counter() - self._begin > bounds.seconds:
            self._end(f"has not come to its end in {bounds.seconds:g} s", "seconds")

    def _end(self, what: str, bound: str) -> NoReturn:
        raise EndlessError(hottest(self._grid, what, bound))

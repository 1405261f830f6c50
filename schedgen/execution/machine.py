"""Executes a program with barriers as the hardware has them.

A barrier slot is a phase, the arrivals it still takes, and the bytes expected but not copied; the
phase is complete when both are zero. A wait sees nothing but the parity of the phase: it passes if
that differs from the parity of the phase it wants. So a wait may pass too early or never, and an
arrival may count for another phase than it was meant for.

`Machine.fire` makes one event happen and notes what goes wrong with it. It then goes on as the
program meant it: a wait that passes too early stays blocked, an early arrival is kept for its
phase, a surplus one is dropped. Up to the first problem the execution is the hardware's; later
problems of the same execution are not mere consequences of the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from schedgen.execution.events import Case, Signal
from schedgen.program.model import NUMBERED


class Trouble(Enum):
    """What can be wrong with an event, at the time it happens."""

    RACE = "begins before a conflicting access has ended"
    EARLY = "a wait passes before its phase is complete"
    LAPPED = "a wait comes after the phase following its own was completed"
    AHEAD = "an arrival counts for a phase before its own"
    SURPLUS = "an arrival comes when its phase is complete"
    UNSEEN = "an arrival comes before the preceding phase was waited for"


class Problem(NamedTuple):
    """``other`` is the access that has not ended (for races), or the phase of the slot."""

    trouble: Trouble
    event: int
    other: int


class Setup:
    """What all executions of a case have in common.

    ``orders`` are not kept but looked at: an event before which another one has to have happened
    and has not is a `Trouble.RACE`.
    """

    def __init__(self, case: Case, orders: Mapping[int, Iterable[int]] | None = None) -> None:
        self.case = case
        self.arrivals: list[int] = []
        """Per slot of all barriers: what a phase takes."""
        self.phases: list[int] = []
        """Per slot: its phase after the barriers are initialized."""
        for barrier in case.program.barriers:
            for slot in range(barrier.slots):
                self.arrivals.append(max(barrier.arrivals, 1))  # fewer is a finding of its own
                self.phases.append(sum(n % barrier.slots == slot for n in barrier.skipped))
        events = self.case.events
        self.signals = [None if event.waits else event.signal for event in events]
        self.waits = [event.signal if event.waits else None for event in events]
        self.queue = [event.queue for event in events]
        self.queued = [self._queued(index) for index in range(len(events))]
        known = orders or {}
        self.ends = [sum(1 << end for end in known.get(i, ())) for i in range(len(events))]
        self.seen = [self._seen(index) for index in range(len(events))]

    def _queued(self, index: int) -> tuple[int, ...]:
        """What a step puts into an in-order queue."""
        found = (self.case.begin.get(index), self.case.completion.get(index))
        return tuple(event for event in found if event is not None and self.queue[event] >= 0)

    def _seen(self, index: int) -> tuple[int, bool] | None:
        """Which waits must have returned before an arrival, and whether all of them."""
        signal = self.signals[index]
        if signal is None or signal.count == 0:
            return None
        barrier = self.case.program.barrier[signal.barrier]
        before = signal.number - barrier.slots
        if before < 0 or (before in barrier.skipped and barrier.kind != "pace"):
            return None  # whoever makes an mbarrier has the phases seen that nobody provides
        waits = sum(1 << wait for wait in self.case.waits.get((signal.barrier, before), ()))
        return waits, barrier.kind in NUMBERED


class Machine:
    """The state of one execution.

    ``ready`` holds the events that may happen next, ``front`` per slot the waits that their roles
    have come to, ``kept`` the early arrivals.
    """

    __slots__ = (
        "done",
        "expect_tx",
        "front",
        "kept",
        "log",
        "needs",
        "pending",
        "phases",
        "problems",
        "queues",
        "ready",
        "setup",
    )

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.done = 0
        self.log: list[int] = []
        self.problems: list[Problem] = []
        self.ready: list[int] = []
        self.needs = list(setup.case.needs)
        self.queues: list[list[int]] = [[] for _ in setup.case.queues]
        self.phases = list(setup.phases)
        self.pending = list(setup.arrivals)
        self.expect_tx = [0] * len(self.phases)
        self.front: dict[int, list[int]] = {}
        self.kept: dict[tuple[int, int], list[Signal]] = {}
        for steps in setup.case.roles.values():
            if steps and self.needs[steps[0]] == 0:
                self._reach(steps[0])

    def copy(self) -> Machine:
        """The same state, with an empty log."""
        other = Machine.__new__(Machine)
        other.setup = self.setup
        other.done = self.done
        other.log, other.problems = [], []
        other.ready = self.ready[:]
        other.needs = self.needs[:]
        other.queues = [queue[:] for queue in self.queues]
        other.phases = self.phases[:]
        other.pending = self.pending[:]
        other.expect_tx = self.expect_tx[:]
        other.front = {cell: waits[:] for cell, waits in self.front.items()}
        other.kept = {place: signals[:] for place, signals in self.kept.items()}
        return other

    def key(self) -> tuple[object, ...]:
        """Equal for states with the same future."""
        queues = tuple(map(tuple, self.queues))
        return self.done, queues, (*self.phases, *self.pending, *self.expect_tx)

    @property
    def finished(self) -> bool:
        return self.done + 1 == 1 << len(self.needs)

    def fire(self, event: int) -> None:
        """Makes a ready event happen; the caller has taken it from ``ready``."""
        setup = self.setup
        self.log.append(event)
        self.done |= 1 << event
        missing = setup.ends[event] & ~self.done
        while missing:
            end = missing.bit_length() - 1
            missing ^= 1 << end
            self.problems.append(Problem(Trouble.RACE, event, end))
        wait, signal = setup.waits[event], setup.signals[event]
        if wait is not None:
            self.front[wait.cell].remove(event)
        elif signal is not None:
            self._signal(event, signal)
        if setup.queue[event] >= 0:
            self._dequeue(setup.queue[event])
        for later in setup.queued[event]:
            self.queues[setup.queue[later]].append(later)
        for later in setup.case.then[event]:
            self.needs[later] -= 1
            if self.needs[later] == 0:
                self._reach(later)

    def _reach(self, event: int) -> None:
        """All that ``event`` needs has happened: it is ready, unless a barrier or queue objects."""
        wait = self.setup.waits[event]
        queue = self.setup.queue[event]
        if wait is not None:
            self.front.setdefault(wait.cell, []).append(event)
            self._test(event, wait)
        elif queue < 0 or self.queues[queue][0] == event:
            self.ready.append(event)

    def _dequeue(self, queue: int) -> None:
        del self.queues[queue][0]
        # One that still needs something is not reached.
        self.ready.extend(event for event in self.queues[queue][:1] if not self.needs[event])

    def _test(self, event: int, wait: Signal) -> None:
        """What the hardware tells a wait when its role comes to it, or when the phase changes."""
        phase = self.phases[wait.cell]
        if phase == wait.phase + 1:
            self.ready.append(event)
        elif phase > wait.phase + 1:
            self.problems.append(Problem(Trouble.LAPPED, event, phase))
            self.ready.append(event)
        elif (phase & 1) != (wait.phase & 1):
            self.problems.append(Problem(Trouble.EARLY, event, phase))

    def _check_seen(self, event: int, phase: int) -> None:
        """For every phase a wait must have returned before anything arrives for the next one."""
        seen = self.setup.seen[event]
        if seen is None:
            return
        waits, every = seen
        returned = waits & self.done
        if returned == 0 or (every and returned != waits):
            self.problems.append(Problem(Trouble.UNSEEN, event, phase))

    def _signal(self, event: int, signal: Signal) -> None:
        """Arrivals and bytes come to a slot, for whatever phase it is in."""
        cell = signal.cell
        phase = self.phases[cell]
        if signal.phase > phase:
            self.problems.append(Problem(Trouble.AHEAD, event, phase))
            self.kept.setdefault((cell, signal.phase), []).append(signal)
            return
        self._check_seen(event, phase)
        if signal.phase < phase or signal.count > self.pending[cell]:
            self.problems.append(Problem(Trouble.SURPLUS, event, phase))
            if signal.phase < phase:
                return
        self._count(cell, signal)
        while self.pending[cell] == 0 and self.expect_tx[cell] == 0:
            self._complete(cell)

    def _count(self, cell: int, signal: Signal) -> None:
        self.pending[cell] = max(self.pending[cell] - signal.count, 0)
        self.expect_tx[cell] += signal.expect_tx - signal.delivered

    def _complete(self, cell: int) -> None:
        phase = self.phases[cell] = self.phases[cell] + 1
        self.pending[cell] = self.setup.arrivals[cell]
        self.expect_tx[cell] = 0
        for event in self.front.get(cell, ()):
            wait = self.setup.waits[event]
            assert wait is not None
            if phase > wait.phase + 1:  # it could have passed before
                self.problems.append(Problem(Trouble.LAPPED, event, phase))
            else:
                self._test(event, wait)
        for signal in self.kept.pop((cell, phase), ()):
            self._count(cell, signal)

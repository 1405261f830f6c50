"""The asynchronous operations in flight."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.operations import InOrder, Operation
from schedgen.emulator.order.tracker import Tracker


class Chance(Protocol):
    """What a launch asks of its policy, which is a `policies.Policy`."""

    def admit(self, operation: Operation) -> None:
        """An operation may execute from now on."""
        ...

    def spurious(self) -> bool:
        """Whether a timed wait returns without success although nothing forces it to."""
        ...


class Launch(Protocol):
    """As much of a launch as its operations need; a `machine.Machine`."""

    events: int
    policy: Chance
    tracker: Tracker


class Operations:
    """All operations in flight. ``pending`` are those that may execute now, oldest first."""

    def __init__(self, machine: Launch) -> None:
        self._machine = machine
        self.pending: list[Operation] = []
        self.waiting = 0
        """Operations that come after others which have not executed."""
        self.executed = 0

    def issue(
        self, operation: Operation, queue: InOrder | None = None, after: Iterable[Operation] = ()
    ) -> None:
        """Lets an operation execute from now on, after ``after`` and the last one of ``queue``."""
        earlier = [*after]
        if queue is not None:
            if queue.last is not None:
                earlier.append(queue.last)
            queue.last = operation
        for one in earlier:
            if not one.done:
                one.followers.append(operation)
                operation.missing += 1
        self._machine.events += 1
        if operation.missing:
            self.waiting += 1
        else:
            self._admit(operation)

    def run(self, index: int) -> None:
        """Executes ``pending[index]`` and lets follow what came after it.

        Raises:
            EmulationError: it did something undefined.
        """
        operation = self.pending.pop(index)
        try:
            operation.execute()
        except EmulationError as problem:
            raise EmulationError(f"{problem}\n  when it executed: {operation.explain()}") from None
        except Exception as problem:
            raise EmulationError(
                f"PTX line {operation.line}: {operation.name}: the emulator failed: "
                f"{type(problem).__name__}: {problem}\n  when it executed: {operation.explain()}"
            ) from problem
        if operation.handle >= 0:
            self._machine.tracker.finish(operation.handle)
        operation.done = True
        self.executed += 1
        self._machine.events += 1
        for follower in operation.followers:
            follower.missing -= 1
            if not follower.missing:
                self.waiting -= 1
                self._admit(follower)
        operation.followers = []
        if operation.groups is not None:
            operation.groups.finished()

    def _admit(self, operation: Operation) -> None:
        self._machine.policy.admit(operation)
        self.pending.append(operation)

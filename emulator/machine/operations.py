"""Asynchronous operations: bulk copies, tensor-core work, cp.async, commits.

An instruction makes an `Operation` and hands it to `Operations.issue`, as
``warp.machine.operations``. When it executes is the scheduler's choice, within these limits: not
before the operations it comes ``after``, and not before the previous one of its `InOrder` queue.
All of its data effects, the accesses reported to the race checker, and what it signals
(complete-tx, arrive-on) happen in `Operation.execute`.

A warp waits for operations through an mbarrier or through `Groups` (bulk async-groups, cp.async
groups, wgmma groups).

To add a kind: derive from `steps.WarpOperation`, implement `execute`, and issue it::

    class _Store(WarpOperation):
        def execute(self) -> None:
            …copy; machine.tracker.access(self.handle, …) if machine.tracking…

    operation = _Store(warp, "cp.async.bulk store", line, Queue.BULK_STORE)
    warp.machine.operations.issue(operation)
    warp.bulk.add(operation)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from schedgen.emulator.machine.conditions import Condition, Resource
from schedgen.emulator.order.tracker import Queue, Tracker


class Tracking(Protocol):
    """As much of a launch as an operation needs; a `machine.Machine`."""

    tracking: bool
    tracker: Tracker


class Issuer(Protocol):
    """Who issues an operation; a `warp.Warp`. ``number`` is unique in the launch, ``title`` is how
    messages name it."""

    number: int
    title: str

    @property
    def warpgroup(self) -> tuple[int, int]:
        """The number of the CTA, and of the warpgroup in it."""
        ...

    @property
    def machine(self) -> Tracking:
        """The launch."""
        ...


class Operation:
    """One asynchronous operation of a warp, not executed yet.

    Args:
        issuer: the issuing warp.
        name: for messages.
        line: PTX line of the instruction.
        queue: the race checker's kind of the operation; None for what it need not know (the
            arrive of a commit). ``handle`` is the race checker's number of it, or -1.
    """

    __slots__ = (
        "done",
        "due",
        "followers",
        "groups",
        "handle",
        "issuer",
        "line",
        "missing",
        "name",
    )

    def __init__(self, issuer: Issuer, name: str, line: int, queue: Queue | None) -> None:
        self.issuer = issuer
        self.name = name
        self.line = line
        self.done = False
        self.due = 0
        """For the policy: when it wants to execute it."""
        self.groups: Groups | None = None
        self.missing = 0
        """Operations that have to execute before it."""
        self.followers: list[Operation] = []
        """Operations that wait for it."""
        self.handle = -1
        machine = issuer.machine
        if machine.tracking and queue is not None:
            self.handle = machine.tracker.issue(issuer.number, queue, line)

    def execute(self) -> None:
        """Does everything that the operation does."""
        raise NotImplementedError

    def explain(self) -> str:
        """What it is, for the explanation of a deadlock."""
        return f"{self.name} of PTX line {self.line}, issued by {self.issuer.title}"


class InOrder:
    """A queue whose operations execute in the order of issue: the tensor core of a CTA."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: Operation | None = None


class Groups(Resource):
    """Groups of operations that a warp commits and waits for.

    The ISA has them per thread (bulk, cp.async) or per warpgroup (wgmma). Here they are per warp:
    the threads of a warp that issue and those that wait are the same in all code that is known.
    """

    __slots__ = ("_committed", "_name", "_open")

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._open: list[Operation] = []
        self._committed: list[list[Operation]] = []

    def add(self, operation: Operation) -> None:
        """Puts an issued operation into the group that will be committed next."""
        operation.groups = self
        self._open.append(operation)

    def commit(self) -> None:
        """Closes the open group, which may be empty."""
        self._committed.append(self._open)
        self._open = []

    @property
    def pending(self) -> int:
        """Committed groups from the oldest unfinished one on; groups complete in order."""
        committed = self._committed
        while committed:
            for operation in committed[0]:
                if not operation.done:
                    return len(committed)
            committed.pop(0)
        return 0

    def finished(self) -> None:
        """An operation of a group has executed."""
        self.changed()

    def wait(self, left: int) -> Condition | None:
        """What to wait for until at most ``left`` groups are pending; None if that is so now."""
        if self.pending <= left:
            return None
        return Condition(self, lambda: self.pending <= left, self._explain(left))

    def everything(self) -> list[Operation]:
        """Operations of all groups, the open one included, that have not executed."""
        groups = (*self._committed, self._open)
        return [operation for group in groups for operation in group if not operation.done]

    def _explain(self, left: int) -> Callable[[], str]:
        def explain() -> str:
            unfinished = [one.explain() for one in self.everything()[:3]]
            return (
                f"at most {left} of its {self.pending} {self._name} groups unfinished; unfinished: "
                f"{'; '.join(unfinished)}"
            )

        return explain

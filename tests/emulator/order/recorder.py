"""A small machine that records what a tracker would be told.

Roles are generators that yield until when they wait; asynchronous operations execute at some later
time. Every recorded run is a legal execution of a correct kernel.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from schedgen.emulator.order.tracker import Cells, Queue, Space
from tests.emulator.order.kernel import shared

Role = Generator[Callable[[], bool], None, None]
TILE = 256
SYNCHRONIZATION = frozenset((
    "arrive", "wait", "commit", "signal", "leave", "proxy_fence", "tcgen05_fence", "tmem_wait",
    "bulk_wait", "bulk_commit", "group_wait",
))  # fmt: skip
"""Not wgmma.commit_group: it is one instruction of four warps."""


@dataclass(frozen=True)
class Event:
    """A call of a tracker's method."""

    method: str
    warp: int
    arguments: dict[str, Any]


@dataclass
class _Barrier:
    count: int
    pending: int
    copies: int = 0
    phase: int = 0

    def check(self) -> None:
        if self.pending == 0 and self.copies == 0:
            self.pending = self.count
            self.phase += 1


@dataclass
class Machine:
    """Executes roles in a random order."""

    random: random.Random
    trace: list[Event] = field(default_factory=list[Event])
    barriers: dict[int, _Barrier] = field(default_factory=dict[int, _Barrier])
    queues: dict[tuple[int, Queue, int], list[Callable[[], None]]] = field(
        default_factory=dict[tuple[int, Queue, int], list[Callable[[], None]]]
    )
    signals: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    handles: int = 0

    def run(self, *roles: Role) -> None:
        """Until all roles have ended."""
        waiting = [(role, next(role)) for role in roles]
        while waiting or any(self.queues.values()):
            ready = [i for i, (_, until) in enumerate(waiting) if until()]
            busy = [queue for queue in self.queues.values() if queue]
            if busy and (not ready or self.random.random() < 0.4):
                self.random.choice(busy).pop(0)()
                continue
            assert ready, "deadlock"
            i = self.random.choice(ready)
            role, _ = waiting[i]
            until = next(role, None)
            if until is None:
                del waiting[i]
            else:
                waiting[i] = role, until

    def tell(self, method: str, warp: int, **arguments: Any) -> None:
        self.trace.append(Event(method, warp, arguments))

    # -- instructions ---------------------------------------------------------------------------

    def barrier(self, offset: int, count: int = 1) -> int:
        self.barriers[offset] = _Barrier(count, count)
        return offset

    def arrive(self, warp: int, offset: int, copies: int = 0) -> None:
        barrier = self.barriers[offset]
        self.tell("arrive", warp, barrier=(0, offset), phase=barrier.phase)
        barrier.copies += copies
        barrier.pending -= 1
        barrier.check()

    def wait(self, warp: int, offset: int, phase: int) -> Role:
        yield lambda: self.barriers[offset].phase > phase
        self.tell("wait", warp, barrier=(0, offset), phase=phase)

    def sync(self, warp: int, warps: tuple[int, ...], number: int, generation: int) -> Role:
        key = number, generation
        self.tell("signal", warp, barrier=(0, number), generation=generation)
        self.signals[key] = self.signals.get(key, 0) + 1
        yield lambda: self.signals[key] == len(warps)
        self.tell("leave", warp, barrier=(0, number), generation=generation)

    def touch(self, warp: int, start: int, *, write: bool) -> None:
        self.tell("generic", warp, cells=shared((start, TILE)), write=write)

    def issue(self, warp: int, queue: Queue, accesses: list[tuple[Cells, bool]], **how: Any) -> int:
        """An operation that executes later, after those of its warp and queue."""
        self.handles += 1
        handle = self.handles
        self.tell("issue", warp, queue=queue, **how)

        def execute() -> None:
            for cells, write in accesses:
                self.tell("access", warp, operation=handle, cells=cells, write=write)
            self.tell("finish", warp, operation=handle)

        alone = handle if queue is Queue.BULK_LOAD else 0
        self.queues.setdefault((warp, queue, alone), []).append(execute)
        return handle

    def load(self, warp: int, start: int, offset: int) -> None:
        """Bulk copies are unordered."""
        self.handles += 1
        handle, barrier = self.handles, self.barriers[offset]
        self.tell("issue", warp, queue=Queue.BULK_LOAD)

        def execute() -> None:
            self.tell(
                "access", warp, operation=handle, cells=shared((start, TILE)), write=True
            )  # fmt: skip
            self.tell(
                "track", warp, operation=handle, barrier=(0, offset), phase=barrier.phase
            )  # fmt: skip
            self.tell("finish", warp, operation=handle)
            barrier.copies -= 1
            barrier.check()

        self.queues[warp, Queue.BULK_LOAD, handle] = [execute]

    def commit(self, warp: int, offset: int) -> None:
        handle = self.issue(warp, Queue.MMA, [])
        barrier = self.barriers[offset]

        def arrive() -> None:
            self.tell(
                "commit", warp, barrier=(0, offset), phase=barrier.phase, operation=handle
            )  # fmt: skip
            self.tell("finish", warp, operation=handle)
            barrier.pending -= 1
            barrier.check()

        self.queues[warp, Queue.MMA, 0][-1] = arrive

    def tensor_wait(self, warp: int, queue: Queue) -> Role:
        yield lambda: not self.queues.get((warp, queue, 0))
        self.tell("tmem_wait", warp, queue=queue)

    def store(self, warp: int, start: int, to: int) -> None:
        self.issue(warp, Queue.BULK_STORE, [
            (shared((start, TILE)), False),
            (Cells(Space.GLOBAL, -1, slice(to, to + TILE)), True),
        ])  # fmt: skip
        self.tell("bulk_commit", warp)

    def store_wait(self, warp: int, pending: int) -> Role:
        queue = self.queues.setdefault((warp, Queue.BULK_STORE, 0), [])
        yield lambda: len(queue) <= pending
        self.tell("bulk_wait", warp, pending=pending, read=self.random.random() < 0.5)

    def wgmma(self, warps: tuple[int, ...], start: int) -> None:
        self.issue(warps[0], Queue.WGMMA, [(shared((start, TILE)), False)], together=warps)

    def wgmma_wait(self, warp: int, first: int, pending: int) -> Role:
        queue = self.queues.setdefault((first, Queue.WGMMA, 0), [])
        yield lambda: len(queue) <= pending
        self.tell("group_wait", warp, queue=Queue.WGMMA, pending=pending)

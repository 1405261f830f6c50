"""Races of a recorded run by reachability in a graph of its events: slow, and nothing shared with
the checker. Nodes are the events; an operation is done at its `finish`."""

from __future__ import annotations

from dataclasses import dataclass

from schedgen.emulator.order.places import place
from schedgen.emulator.order.tracker import Cells, Queue, Space
from tests.emulator.order.recorder import Event

_THREADS = frozenset((
    "generic", "issue", "arrive", "wait", "signal", "leave", "proxy_fence", "tcgen05_fence",
    "tmem_wait", "bulk_wait", "bulk_commit", "group_commit", "group_wait",
))  # fmt: skip


@dataclass(frozen=True)
class _Access:
    """``begins``: what has to come after others (one node per warp); ``ends``: when it is done."""

    at: int
    begins: tuple[int, ...]
    ends: int
    warp: int
    queue: Queue | None
    operation: int
    cells: Cells
    write: bool


class Reference:
    """One run."""

    def __init__(self, trace: list[Event], *, fences: bool) -> None:
        self._trace = trace
        self._fences = fences
        self._after: list[list[int]] = [[] for _ in trace]
        self._threads: dict[int, list[int]] = {}
        self._finish: dict[int, int] = {}
        self._issue: dict[int, tuple[int, ...]] = {}
        self._queue: dict[int, tuple[int, Queue, int]] = {}
        """By handle: warp, queue, and for groups the number of the group."""
        self._build()
        self._reach = self._closure()

    def races(self) -> set[tuple[Space, int]]:
        """Memories and first cells of places in which something is not ordered."""
        places: dict[tuple[Space, int], list[_Access]] = {}
        for access in self._accesses():
            size = 1 << 40 if access.cells.space is Space.GLOBAL else 65536
            cells = place(access.cells.index, access.cells.width, size).cells()
            for cell in cells[::32].tolist():  # all places in `pipelines` are multiples of this
                places.setdefault((access.cells.space, cell), []).append(access)
        return {where for where, accesses in places.items() if self._racy(accesses)}

    def _racy(self, accesses: list[_Access]) -> bool:
        """Whether some conflict is not ordered, not even over a write in between."""
        ordered: set[tuple[int, int]] = set()
        for j, late in enumerate(accesses):
            for i in range(j - 1, -1, -1):
                early = accesses[i]
                over = any(
                    accesses[k].write and (i, k) in ordered and (k, j) in ordered
                    for k in range(i + 1, j)
                )
                if over or early.operation == late.operation != 0 or self._ordered(early, late):
                    ordered.add((i, j))
                elif early.write or late.write:
                    return True
        return False

    # -- what orders two accesses ---------------------------------------------------------------

    def _ordered(self, early: _Access, late: _Access) -> bool:
        return all(self._before(early, late, begin) for begin in late.begins)

    def _before(self, early: _Access, late: _Access, begin: int) -> bool:
        if early.cells.space is Space.TENSOR:
            return self._tensor(early, late, begin)
        if early.queue is None and late.queue is not None:  # X6, accessor side
            own = self._threads[early.warp]
            fences = (i for i in own if i > early.at and self._trace[i].method == "proxy_fence")
            return any(self._reaches(fence, begin) for fence in fences)
        return self._reaches(early.ends, begin)

    def _tensor(self, early: _Access, late: _Access, begin: int) -> bool:
        products = early.queue is Queue.MMA and late.queue is Queue.MMA
        if products and early.warp == late.warp:
            return True
        if not self._fences:
            if products and any(self._reaches(i, begin) for i in early.begins):
                return True
            return self._reaches(early.ends, begin)
        if early.warp == late.warp and early.queue is not Queue.MMA:
            return self._reaches(early.ends, begin)
        return any(
            self._reaches(before, after)
            for before in self._published(early)
            for after in self._fenced(late.warp, begin)
        )

    def _published(self, early: _Access) -> list[int]:
        """Events from which on whoever is ordered after them may rely on the access."""
        if early.queue is Queue.MMA:
            return [
                i for i, event in enumerate(self._trace)
                if event.method == "commit" and self._reaches(early.ends, i)
            ]  # fmt: skip
        own = self._threads[early.warp]
        waits = [i for i in own if self._reaches(early.ends, i)]
        return [
            i for i in own
            if self._trace[i].method == "tcgen05_fence" and self._trace[i].arguments["before"]
            and waits and i > waits[0]
        ]  # fmt: skip

    def _fenced(self, warp: int, begin: int) -> list[int]:
        return [
            i for i in self._threads[warp]
            if i < begin and self._trace[i].method == "tcgen05_fence"
            and not self._trace[i].arguments["before"]
        ]  # fmt: skip

    # -- the graph ------------------------------------------------------------------------------

    def _reaches(self, a: int, b: int) -> bool:
        return a == b or (b >= 0 and bool(self._reach[a] >> b & 1))

    def _closure(self) -> list[int]:
        reach = [0] * len(self._trace)
        for node in range(len(self._trace) - 1, -1, -1):
            for after in self._after[node]:
                reach[node] |= 1 << after | reach[after]
        return reach

    def _build(self) -> None:
        handles = 0
        for i, event in enumerate(self._trace):
            arguments = event.arguments
            if event.method == "issue":
                handles += 1
                warps = arguments.get("together", (event.warp,))
                # The node of the issue belongs to the issuing warp, of others it is their last one,
                # or none: then nothing is ordered before what they do.
                last = tuple(self._threads.get(w, [-1])[-1] for w in warps if w != event.warp)
                self._issue[handles] = (i, *last)
                group = self._groups(event.warp, arguments["queue"], i)
                self._queue[handles] = event.warp, arguments["queue"], group
            if event.method == "finish":
                self._finish[arguments["operation"]] = i
            for before in self._comes_after(i, event):
                self._after[before].append(i)
            if event.method in _THREADS:
                own = self._threads.setdefault(event.warp, [])
                if own:
                    self._after[own[-1]].append(i)
                own.append(i)

    def _groups(self, warp: int, queue: Queue, end: int) -> int:
        """How many groups a warp has committed before an event."""
        method = {Queue.BULK_STORE: "bulk_commit", Queue.WGMMA: "group_commit"}.get(queue)
        return sum(e.method == method and e.warp == warp for e in self._trace[:end])

    def _comes_after(self, i: int, event: Event) -> list[int]:
        """Events other than those of the same warp that come before this one."""
        arguments, earlier = event.arguments, self._trace[:i]
        match event.method:
            case "wait":
                return [
                    self._finish_of(e) if e.method == "track" else j
                    for j, e in enumerate(earlier)
                    if e.method in ("arrive", "commit", "track")
                    and e.arguments["barrier"] == arguments["barrier"]
                    and e.arguments["phase"] <= arguments["phase"]
                ]
            case "leave":
                return [
                    j for j, e in enumerate(earlier)
                    if e.method == "signal" and e.arguments == arguments
                ]  # fmt: skip
            case "commit":
                ticket = arguments["operation"]
                return [self._issue[ticket][0]] + [
                    self._finish[handle] for handle, (warp, queue, _) in self._queue.items()
                    if (warp, queue) == (event.warp, Queue.MMA) and handle < ticket
                ]  # fmt: skip
            case "tmem_wait":
                return [
                    self._finish[handle] for handle, (warp, queue, _) in self._queue.items()
                    if (warp, queue) == (event.warp, arguments["queue"])
                ]  # fmt: skip
            case "bulk_wait" | "group_wait":
                return self._groups_done(i, event)
            case _:
                return []

    def _groups_done(self, i: int, event: Event) -> list[int]:
        queue = event.arguments.get("queue", Queue.BULK_STORE)
        complete = self._groups(event.warp, queue, i) - event.arguments["pending"]
        same = {event.warp}
        if queue is Queue.WGMMA:
            same = set(range(event.warp // 4 * 4, event.warp // 4 * 4 + 4))
        return [
            self._finish[handle] for handle, (warp, of, group) in self._queue.items()
            if of is queue and warp in same and group < complete
        ]  # fmt: skip

    def _finish_of(self, track: Event) -> int:
        handle = track.arguments["operation"]
        return next(
            i for i, e in enumerate(self._trace)
            if e.method == "finish" and e.arguments["operation"] == handle
        )  # fmt: skip

    def _accesses(self) -> list[_Access]:
        found: list[_Access] = []
        for i, event in enumerate(self._trace):
            arguments = event.arguments
            if event.method == "generic":
                found.append(_Access(
                    i, (i,), i, event.warp, None, 0, arguments["cells"], arguments["write"],
                ))  # fmt: skip
            if event.method == "access":
                handle = arguments["operation"]
                warp, queue, _ = self._queue[handle]
                found.append(_Access(
                    i, self._issue[handle], self._finish[handle], warp, queue, handle,
                    arguments["cells"], arguments["write"],
                ))  # fmt: skip
        return found

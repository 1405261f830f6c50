"""Asynchronous operations: what they rely on, and in which stream they complete."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import reduce
from operator import is_
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.machine.switches import (
    AsyncScope,
    BulkClause,
    ProductOrder,
    UnwaitedLoad,
)
from schedgen.emulator.order.accesses import NEVER, Accesses, Who
from schedgen.emulator.order.agents import Agent, Cluster, Kind
from schedgen.emulator.order.knowledge import (
    CAUSAL,
    FENCED,
    FENCED_GLOBAL,
    TENSOR,
    Message,
    Rows,
    empty,
    met,
)
from schedgen.emulator.order.mbarriers import Barrier
from schedgen.emulator.order.memory import Part
from schedgen.emulator.order.records import Origin
from schedgen.emulator.order.state import State
from schedgen.emulator.order.tracker import Cells, Queue, Space
from schedgen.emulator.order.warps import Warp

# Python 3.11 takes as long to find a member in its enumeration as for several calls.
_WGMMA, _MMA, _TMEM_LOAD, _TMEM_STORE = Queue.WGMMA, Queue.MMA, Queue.TMEM_LOAD, Queue.TMEM_STORE
_BULK_LOAD, _BULK_STORE = Queue.BULK_LOAD, Queue.BULK_STORE
_CP_ASYNC, _STORE_ASYNC = Queue.CP_ASYNC, Queue.STORE_ASYNC
_SHARED, _TENSOR = Space.SHARED, Space.TENSOR

_TRACKED = frozenset((Queue.BULK_LOAD, Queue.STORE_ASYNC))
_FINISHED = frozenset((Queue.CP_ASYNC, Queue.TMEM_LOAD))
_PER_THREAD = frozenset((Queue.BULK_LOAD, Queue.BULK_STORE))
"""Copies that each lane issues for itself: those of one instruction are one access, as the lanes of
a warp count as ordered. CuTe DSL compiles bulk stores that all lanes of a warp issue. Of tensor
copies such stores are one operation (`instructions.tma`); sums and other copies are 32, which are
looked at once as long as nothing else comes in between (`_Entered`)."""

Held = tuple[Cells, bool, bool]
"""An access whose stream is not known yet: cells, write, atomic."""


class _Entered(NamedTuple):
    """An access that was entered and met nothing: another one of the same instruction to the same
    cells changes nothing, while the ``parts`` that it touched have had so many ``changes``.

    ``cells`` are kept because the identity of their index stands for them.
    """

    cells: Cells
    parts: Sequence[Part]
    changes: list[int]

    def stands(self) -> bool:
        """Whether nothing came after it."""
        return [part.shadow.changes for part in self.parts] == self.changes


class Operation:
    """One operation under way.

    Attributes:
        view: what its warp knew when it was issued.
        clock: its number in the stream of its warp, where that has one.
        held: accesses of a copy whose mbarrier has not been told yet.
        ends: the mbarriers on which it completes, and in which phases.
        entered: what copies of one instruction have accessed; None: not one of several.
    """

    __slots__ = (
        "agents", "born", "chain", "clock", "ends", "entered", "held", "origin", "queue",
        "vectors", "view", "warp", "who",
    )  # fmt: skip

    def __init__(
        self, warp: Warp, queue: Queue, origin: Origin, view: Message, born: int, chain: Hashable
    ) -> None:
        self.warp = warp
        self.queue = queue
        self.origin = origin
        self.view = view
        self.born = born
        self.chain = chain
        self.clock = 0
        self.agents: tuple[Agent, ...] = ()
        """The agent, or two: that of its reads and that of its writes."""
        self.held: list[Held] = []
        self.ends: list[tuple[Barrier, int]] = []
        self.vectors: dict[Space, NDArray[np.int32]] = {}
        self.entered: dict[Hashable, _Entered] | None = None
        self.who: Who | None = None
        """Who has made its last access."""

    def again(self) -> Operation:
        """The same, issued by another lane of the warp in the same instruction."""
        other = Operation(self.warp, self.queue, self.origin, self.view, self.born, self.chain)
        other.agents, other.clock = self.agents, self.clock
        other.vectors = self.vectors
        if self.entered is None:
            self.entered = {}
        other.entered = self.entered
        return other


class Operations:
    """All asynchronous operations of a launch."""

    def __init__(self, state: State, accesses: Accesses) -> None:
        self._state = state
        self._accesses = accesses
        self._open: dict[int, Operation] = {}
        self._finished: dict[int, tuple[Warp, int, Origin]] = {}
        """cp.async, which an mbarrier may track later, and tcgen05.ld, whose registers are read
        later."""
        self._copies: dict[int, Operation] = {}
        """By warp, the last of its copies."""
        self._next = 1
        self._last_met: tuple[Sequence[Rows], Rows] = (), empty(0)
        self._literal = state.switches.bulk_clause is BulkClause.LITERAL
        self._strict = state.switches.async_scope is AsyncScope.STRICT
        copies = {Queue.CP_ASYNC: Kind.COPY, Queue.STORE_ASYNC: Kind.STORE_ASYNC}
        self._generic = {queue for queue, kind in copies.items() if kind in state.fenced}
        """Operations in the generic proxy."""
        self._accepts = state.switches.unwaited_load is UnwaitedLoad.ACCEPT
        self._by_chain = state.switches.product_order is ProductOrder.ACCUMULATOR

    def __getitem__(self, handle: int) -> Operation:
        return self._open[handle]

    def copy(self, handle: int) -> tuple[Warp, int] | None:
        """The warp and the number of a cp.async; None for any other operation."""
        operation = self._open.get(handle)
        if operation is None:
            return self._finished[handle][:2]
        copies = operation.queue is _CP_ASYNC
        return (operation.warp, operation.clock) if copies else None

    def issue(
        self, number: int, queue: Queue, line: int, together: tuple[int, ...], chain: Hashable
    ) -> int:
        """A warp issues an operation; returns its handle."""
        state = self._state
        handle = self._next
        self._next += 1
        if queue in _PER_THREAD and state.is_last(number, line):
            operation = self._open[handle] = self._copies[number].again()
            if queue is _BULK_LOAD:
                _, operation.clock = self._stream(operation.warp, queue, chain)
            return handle
        warp = state.warp(number)
        warp.touch()
        origin = state.origin(warp, line, queue)
        agents, clock = self._stream(warp, queue, chain)
        view = warp.message()
        if together:
            every = state.each([other for other in together if other != number])
            others = [other.message().rows for other in every]
            rows = met(view.rows, self._met(others)) if others else view.rows
            view = Message(view.cluster, rows, view.foreign)
        operation = Operation(warp, queue, origin, view, len(state.records), chain)
        operation.agents, operation.clock = agents, clock
        if queue in _PER_THREAD:
            self._copies[number] = operation
            state.note(number, line)
        self._open[handle] = operation
        return handle

    def _met(self, every: list[Rows]) -> Rows:
        """What all of some rows know, which nobody changes: mostly the same ones as before."""
        before, known = self._last_met
        if len(before) != len(every) or not all(map(is_, before, every)):
            known = reduce(met, every)
            self._last_met = every, known
        return known

    def access(self, handle: int, cells: Cells, write: bool, atomic: bool) -> None:
        """An operation touches memory."""
        operation = self._open[handle]
        if operation.queue not in _TRACKED:
            agent = operation.agents[-1 if write else 0]
            if operation.entered is None:
                self._put(operation, agent, operation.clock, (cells, write, atomic))
            else:
                self._enter(operation, agent, operation.clock, (cells, write, atomic))
            return
        end = next((end for end in operation.ends if cells.cta in (end[0].cta, -1)), None)
        if end is None:
            operation.held.append((cells, write, atomic))
        else:
            self._complete_on(operation, end, (cells, write, atomic))

    def track(self, operation: Operation, barrier: Barrier, phase: int) -> None:
        """A copy completes in a phase of an mbarrier. It ends the accesses to the CTA of the
        mbarrier; or to the other CTA of the pair (T4), if that is the only one told before."""
        end = barrier, phase
        operation.ends.append(end)
        held, operation.held = operation.held, []
        only = len({cells.cta for cells, _, _ in held if cells.space is _SHARED}) == 1
        for access in held:
            if only or access[0].cta in (barrier.cta, -1):
                self._complete_on(operation, end, access)
            else:
                operation.held.append(access)

    def finish(self, handle: int) -> None:
        """An operation has executed, and its `track` calls were made."""
        operation = self._open.pop(handle)
        for access in operation.held:
            if operation.ends:
                self._complete_on(operation, operation.ends[0], access)
            else:
                never = operation.warp.cluster.agent(Kind.BULK_WRITE, operation.warp.number)
                self._enter(operation, never, NEVER, access)
        if operation.queue in _FINISHED:
            self._finished[handle] = operation.warp, operation.clock, operation.origin

    def consumed(self, handle: int) -> None:
        """All lanes' registers of a tcgen05.ld have been read."""
        warp, clock, origin = self._finished.pop(handle)
        counts = warp.counts
        origin.consumed = True
        counts.unconsumed.discard(clock)
        if self._accepts:
            done = min(counts.unconsumed, default=counts.loads + 1) - 1
            warp.tensor_done(warp.cluster.agent(Kind.TMEM_LOAD, warp.number), done)

    # -- streams --------------------------------------------------------------------------------

    def _stream(self, warp: Warp, queue: Queue, chain: Hashable) -> tuple[tuple[Agent, ...], int]:
        """The agents of an operation, and its number."""
        counts, cluster, owner = warp.counts, warp.cluster, warp.number
        if queue is _WGMMA:
            group = cluster.agent(Kind.WGMMA, (warp.cta, warp.group))
            return (group,), counts.wgmma_groups + 1
        if queue is _MMA:
            counts.queued += 1
            queued, issued = cluster.queue(owner, chain if self._by_chain else None)
            warp.tensor_done(issued, counts.queued)
            return (queued,), counts.queued
        if queue is _TMEM_LOAD:
            counts.loads += 1
            counts.unconsumed.add(counts.loads)
            return (cluster.agent(Kind.TMEM_LOAD, owner),), counts.loads
        if queue is _TMEM_STORE:
            counts.stores += 1
            return (cluster.agent(Kind.TMEM_STORE, owner),), counts.stores
        if queue is _BULK_STORE:
            agents = cluster.agent(Kind.BULK_READ, owner), cluster.agent(Kind.BULK_WRITE, owner)
            return agents, counts.bulk_groups + 1
        if queue is _CP_ASYNC:
            counts.copies += 1
            return (cluster.copies(owner)[0],), counts.copies
        counts.requested += 1
        return (), counts.requested

    def _complete_on(self, operation: Operation, end: tuple[Barrier, int], access: Held) -> None:
        barrier, phase = end
        agent, clock = barrier.complete, phase + 1
        if operation.queue is _STORE_ASYNC:
            agent = barrier.stores()
        elif self._literal:
            owner = operation.warp.number, barrier.owner
            agent, clock = barrier.cluster.agent(Kind.REQUESTED, owner), operation.clock
        elif self._strict and operation.warp.cta != barrier.cta:
            agent = barrier.complete_remote()
        self._enter(operation, agent, clock, access)

    def _enter(self, operation: Operation, agent: Agent, clock: int, access: Held) -> None:
        """Enters an access, unless another lane's copy has just made the same one."""
        entered = operation.entered
        if entered is None:
            self._put(operation, agent, clock, access)
            return
        cells, write, atomic = access
        index = cells.index
        place = (index.start, index.stop) if isinstance(index, slice) else id(index)
        key = agent, clock, cells.space, cells.cta, place, cells.width, write, atomic
        known = entered.get(key)
        if known is not None and known.stands():
            return
        met = self._state.findings.met
        parts = self._put(operation, agent, clock, access)
        if self._state.findings.met == met:
            entered[key] = _Entered(cells, parts, [part.shadow.changes for part in parts])

    def _put(self, operation: Operation, agent: Agent, clock: int, access: Held) -> Sequence[Part]:
        cells, write, atomic = access
        vector = operation.vectors.get(cells.space)
        if vector is None:
            vector = operation.vectors[cells.space] = self._vector(operation, cells.space)
        who = operation.who
        if who is None or who[0] is not agent or who[1] != clock or who[3] is not vector:
            who = operation.who = Who(
                agent, clock, operation.origin, vector, operation.view,
                agent.kind not in self._state.fenced, operation.born,
            )  # fmt: skip
        return self._accesses.access(who, cells, write=write, atomic=atomic)

    # -- what an operation is ordered after -----------------------------------------------------

    def _vector(self, operation: Operation, space: Space) -> NDArray[np.int32]:
        rows, cluster = operation.view.rows, operation.warp.cluster
        if space is _TENSOR:
            return self._after_tensor(operation, cluster)
        if operation.queue in self._generic:
            return rows[CAUSAL]
        fenced = rows[FENCED if space is _SHARED else FENCED_GLOBAL]
        after = rows[CAUSAL].copy()
        np.copyto(after, fenced, where=cluster.fenced[: rows.shape[1]])
        return after

    def _after_tensor(self, operation: Operation, cluster: Cluster) -> NDArray[np.int32]:
        """mma, cp and shift are also ordered after those that were merely issued (C2, C7b): all in
        one queue, or with `ProductOrder.ACCUMULATOR` those of the same chain, and copies."""
        done = operation.view.rows[TENSOR]
        if operation.queue is not _MMA:
            return done
        after = done.copy()
        for queue, issued, chain, _ in cluster.queues:
            if issued < after.size and chain in (None, operation.chain):
                after[queue] = max(after[queue], after[issued])
        return after

"""What mbarriers hand on: arrives and commits release, waits acquire, copies complete."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from schedgen.emulator.machine.switches import (
    AsyncScope,
    BulkClause,
    CommitOrder,
    InitFence,
    RemoteScope,
    Verdict,
    label,
)
from schedgen.emulator.order.agents import Kind
from schedgen.emulator.order.findings import Access, Defect, Flaw, Severity
from schedgen.emulator.order.knowledge import CAUSAL, PUBLISHED, TENSOR, Message, empty, widen
from schedgen.emulator.order.mbarriers import Barrier, Init, Key
from schedgen.emulator.order.operations import Operations
from schedgen.emulator.order.state import State
from schedgen.emulator.order.tracker import Proxy, Space
from schedgen.emulator.order.warps import CLUSTER_SCOPE, CTA_SCOPE, Commit, Warp

_BYTES = 8  # of an mbarrier object (B1)


class Mbarriers:
    """All mbarrier objects of a launch."""

    def __init__(self, state: State, operations: Operations) -> None:
        self._state = state
        self._operations = operations
        self._barriers: dict[Key, Barrier] = {}
        switches = state.switches
        self._literal = switches.bulk_clause is BulkClause.LITERAL
        self._strict = switches.async_scope is AsyncScope.STRICT
        self._written = switches.remote_scope is RemoteScope.AS_WRITTEN
        self._commit_releases = switches.commit_order is CommitOrder.RELEASE
        self._consumption = switches.consumption
        self._consumed_first = switches.consumption is not Verdict.OFF
        self._fence_always = switches.init_fence is InitFence.ALWAYS

    # -- life -----------------------------------------------------------------------------------

    def initialize(self, warp: Warp, key: Key, line: int) -> None:
        """mbarrier.init. Inits of one object have to be ordered like any writes."""
        before = self._barriers.get(key)
        warp.touch()
        if before is not None:
            self._after_uses(warp, before, line)
        warp.counts.initialized += 1
        published = warp.cluster.agent(Kind.INITIALIZED, warp.number)
        init = Init(warp.number, warp.agent, warp.clock, published, warp.counts.initialized, line)
        generation = 0 if before is None else before.generation + 1
        self._barriers[key] = Barrier(key, generation, self._state.cluster(key[0]), init)

    def invalidate(self, warp: Warp, key: Key, line: int) -> None:
        """mbarrier.inval: after all uses by others."""
        barrier = self._barrier(key)
        warp.touch()
        self._after_uses(warp, barrier, line)
        barrier.uses = {warp.number: (warp.clock, line)}

    def all(self) -> Iterable[Barrier]:
        """All objects that there have been, as they were last."""
        return self._barriers.values()

    # -- arrivals and waits ---------------------------------------------------------------------

    def arrive(
        self, warp: Warp, key: Key, phase: int, line: int, cluster: bool, relaxed: bool
    ) -> None:
        """An arrive by a thread."""
        barrier = self._barrier(key)
        warp.touch()
        barrier.uses[warp.number] = warp.clock, line
        message = warp.message()
        if (warp.number, False) not in barrier.verified:
            self._initialized(barrier, message, warp, line, asynchronous=False)
        self._consumed(barrier, message, warp, phase, line)
        warp.tells(key, line)
        if relaxed:
            message = warp.relaxed(CLUSTER_SCOPE if cluster else CTA_SCOPE)
        elif self._literal:
            message = self._with_requests(warp, barrier, message)
        if warp.cta == barrier.cta or not self._written:
            barrier.bring(phase, message)
        elif cluster:
            barrier.bring(phase, message, far=True)
        # else: a scope that does not include the waiting thread orders nothing (B13)

    def commit(self, warp: Warp, key: Key, phase: int, line: int, handle: int | None) -> None:
        """The arrive of a tcgen05.commit: of cluster scope, with fence::before implied (C5)."""
        barrier = self._barrier(key)
        if handle is None:
            warp.touch()
            view, queued = warp.message(), warp.counts.queued
        else:
            operation = self._operations[handle]
            view, queued = operation.view, operation.clock
        self._initialized(barrier, view, warp, line, asynchronous=True)
        self._consumed(barrier, view, warp, phase, line)
        warp.committed(Commit(queued, key, phase, line))
        if warp.cta != barrier.cta:
            barrier.remote = max(barrier.remote, (phase + 1, warp.number, line))
        rows = widen(view.rows, warp.cluster.capacity).copy()
        np.maximum(rows[PUBLISHED], rows[TENSOR], out=rows[PUBLISHED])
        commits = barrier.phase(phase).commits
        for column, _, _, number in warp.cluster.queues:
            if number == warp.number:
                rows[CAUSAL, column] = rows[PUBLISHED, column] = queued
                commits[column] = queued
        far = self._strict and warp.cta != barrier.cta
        barrier.bring(phase, Message(view.cluster, rows, view.foreign), far=far)

    def track(self, handle: int, key: Key, phase: int) -> None:
        """A copy completes. It brings nothing but itself (X2), except that whoever observes it may
        arrive on barriers of which its issuer had observed a phase (B7): it began after that."""
        barrier = self._barrier(key)
        copy = self._operations.copy(handle)
        if copy is not None:
            warp, clock = copy
            message = _observed(warp, warp.now())
            done, seen = warp.cluster.copies(warp.number)
            message.rows[CAUSAL, [done.column, seen.column]] = clock
            barrier.bring(phase, message)
            return
        operation = self._operations[handle]
        warp, view = operation.warp, operation.view
        self._initialized(barrier, view, warp, operation.origin.line, asynchronous=True)
        self._operations.track(operation, barrier, phase)
        barrier.tracked = max(barrier.tracked, phase + 1)
        barrier.bring(phase, _observed(warp, view))

    def wait(
        self, warp: Warp, key: Key, phase: int, line: int, cluster: bool, relaxed: bool
    ) -> None:
        """A wait that returned True; ``phase`` is -1 for the one that precedes the first."""
        barrier = self._barrier(key)
        warp.touch()
        barrier.uses[warp.number] = warp.clock, line
        message = warp.message()
        if (warp.number, False) not in barrier.verified:
            self._initialized(barrier, message, warp, line, asynchronous=False)
        if phase < 0:
            return
        far = cluster or not self._written
        message = barrier.received(phase, far=far, copies_far=cluster or not self._strict)
        if relaxed:
            warp.acquire_relaxed(message, CLUSTER_SCOPE if cluster else CTA_SCOPE)
            if self._commit_releases:  # S9
                for column, queued in barrier.phase(phase).commits.items():
                    warp.know(CAUSAL, warp.cluster.agents[column], queued)
        else:
            warp.acquire(message)
        warp.know(CAUSAL, barrier.observed, phase + 1)

    # -- findings -------------------------------------------------------------------------------

    def _initialized(
        self, barrier: Barrier, view: Message, warp: Warp, line: int, *, asynchronous: bool
    ) -> None:
        """A use comes after the init: by causality in the CTA of the object, after its fence in
        another one (X10), or everywhere for asynchronous uses (S11)."""
        init = barrier.init
        if init is None or (warp.number, asynchronous) in barrier.verified:
            return
        published, own = init.published, init.agent
        known = view.knows(CAUSAL, published.cluster, published.column, init.count)
        fenced = warp.cta != barrier.cta or (asynchronous and self._fence_always)
        if known or (not fenced and view.knows(CAUSAL, own.cluster, own.column, init.clock)):
            barrier.verified.add((warp.number, asynchronous))
            return
        barriers = "barrier.cluster.arrive and wait" if warp.cta != barrier.cta else "bar.sync"
        fence = f"fence.mbarrier_init.release.cluster in warp {init.warp} after line {init.line}, "
        hand_off = f"then {barriers} between warp {init.warp} and warp {warp.number}"
        self._state.findings.add(self._defect(
            Flaw.UNPUBLISHED, barrier, warp, line, rule="X10" if fenced else "K1",
            needs=(fence if fenced else "") + hand_off,
            switch=label("init_fence") if fenced and warp.cta == barrier.cta else None,
            other=_use(self._state.warps[init.warp], init.line, "initializes"),
        ))  # fmt: skip

    def _consumed(self, barrier: Barrier, view: Message, warp: Warp, phase: int, line: int) -> None:
        """Somebody observed the preceding phase before this arrive (B7)."""
        observed = barrier.observed
        if phase < 1 or not self._consumed_first:
            return
        if view.knows(CAUSAL, observed.cluster, observed.column, phase):
            return
        error = self._consumption is Verdict.ERROR
        self._state.findings.add(self._defect(
            Flaw.UNOBSERVED, barrier, warp, line, rule="B7", switch=label("consumption"),
            needs=f"a wait for phase {phase - 1} that is ordered before this arrive for phase "
            f"{phase}",
            severity=Severity.ERROR if error else Severity.WARNING,
        ))  # fmt: skip

    def _after_uses(self, warp: Warp, barrier: Barrier, line: int) -> None:
        """init and inval change the object: all uses by others have to be over."""
        view = warp.message()
        complete = barrier.complete
        if not view.knows(CAUSAL, complete.cluster, complete.column, barrier.tracked):
            self._state.findings.add(self._defect(
                Flaw.IN_USE, barrier, warp, line, rule="B2",
                needs=f"a wait for phase {barrier.tracked - 1}, in which copies complete",
            ))  # fmt: skip
        for number, (clock, used) in barrier.uses.items():
            user = self._state.warps[number]
            if not view.knows(CAUSAL, user.cluster.number, user.agent.column, clock):
                self._state.findings.add(self._defect(
                    Flaw.IN_USE, barrier, warp, line, rule="B2", other=_use(user, used, "uses"),
                    needs=f"a hand-off from warp {number} (after line {used}) to warp "
                    f"{warp.number} (before line {line})",
                ))  # fmt: skip

    def _defect(
        self,
        flaw: Flaw,
        barrier: Barrier,
        warp: Warp,
        line: int,
        *,
        rule: str,
        needs: str,
        switch: str | None = None,
        severity: Severity = Severity.ERROR,
        other: Access | None = None,
    ) -> Defect:
        cta, offset = barrier.key
        return Defect(
            flaw, Space.SHARED, cta, _use(warp, line, "uses"), offset, offset + _BYTES - 1,
            _BYTES, needs, rule, switch, severity, other,
        )  # fmt: skip

    # -- helpers --------------------------------------------------------------------------------

    def _barrier(self, key: Key) -> Barrier:
        known = self._barriers.get(key)
        if known is None:  # that it has no init is for the machine to report (B2)
            known = self._barriers[key] = Barrier(key, 0, self._state.cluster(key[0]), None)
        return known

    def _with_requests(self, warp: Warp, barrier: Barrier, message: Message) -> Message:
        """S2 literal: the copies that the warp requested before this arrive."""
        agent = warp.cluster.agent(Kind.REQUESTED, (warp.number, barrier.owner))
        rows = widen(message.rows, agent.column + 1).copy()
        rows[CAUSAL, agent.column] = warp.counts.requested
        return Message(message.cluster, rows, message.foreign)


def _observed(warp: Warp, view: Message) -> Message:
    """Of what a view says, only which phases somebody has observed."""
    rows = empty(warp.cluster.capacity)
    columns = view.rows.shape[1]
    observed = warp.cluster.observed[:columns]
    np.copyto(rows[CAUSAL, :columns], view.rows[CAUSAL], where=observed)
    return Message(view.cluster, rows)


def _use(warp: Warp, line: int, action: str) -> Access:
    return Access(warp.number, warp.cta, line, 0, Proxy.GENERIC, None, False, False, action)

"""What the checker keeps about one warp: what it knows, and how far its streams have come."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from schedgen.emulator.machine.switches import FencePosition, Switches, TensorFences
from schedgen.emulator.order.agents import Agent, Cluster, Kind
from schedgen.emulator.order.knowledge import (
    ANYWHERE,
    CAUSAL,
    FENCED,
    FENCED_GLOBAL,
    PUBLISHED,
    TENSOR,
    Message,
    Rows,
    empty,
    joined,
    learn,
    merge,
    widen,
)
from schedgen.emulator.order.tracker import Space

# Python 3.11 takes as long to find a member in its enumeration as for several calls.
_SHARED, _GLOBAL = Space.SHARED, Space.GLOBAL

CTA_SCOPE, CLUSTER_SCOPE, GPU_SCOPE = range(3)
_REMEMBERED = 64  # completions that the explanation of a race can look back to


class Commit(NamedTuple):
    """A tcgen05.commit and what it arrived on. ``queued``: what its warp had issued by then."""

    queued: int
    barrier: tuple[int, int]
    phase: int
    line: int


@dataclass(slots=True)
class Counts:
    """Asynchronous operations of a warp, as their clocks count them."""

    bulk_groups: int = 0
    requested: int = 0
    copies: int = 0
    copy_groups: list[int] = field(default_factory=list[int])
    """Copies issued at each commit_group."""
    wgmma_groups: int = 0
    queued: int = 0
    loads: int = 0
    stores: int = 0
    initialized: int = 0
    unconsumed: set[int] = field(default_factory=set[int])
    """Loads from tensor memory of which some register was not read yet."""


class Warp:
    """One warp's knowledge and streams.

    Attributes:
        group: its warpgroup, numbered in the CTA.
        clock: stamp of its ordinary accesses. It changes whenever somebody may have learned the
            current one, at the next access: until then there is nothing to tell apart.
        rows: see `knowledge`; only to be changed after `touch`.
        released: what fences of each scope let go for later relaxed writes (K4).
        pending: what relaxed reads brought that a fence of each scope will make known (K4).
    """

    def __init__(
        self,
        number: int,
        cta: int,
        group: int,
        cluster: Cluster,
        switches: Switches,
    ) -> None:
        self.number = number
        self.cta = cta
        self.group = group
        self.cluster = cluster
        self.counts = Counts()
        self.agent: Agent = cluster.agent(Kind.GENERIC, number)
        self.clock = 1
        self.rows: Rows = empty(cluster.capacity)
        self.rows[CAUSAL, self.agent.column] = 1
        self.released: list[Message | None] = [None, None, None]
        self.pending: list[Message | None] = [None, None, None]
        self._foreign: dict[int, Rows] = {}
        self._said = Message(cluster.number, self.rows, self._foreign)
        """What it said last."""
        self._lent = False
        self._implied = switches.tensor_fences is TensorFences.IMPLIED
        self._anywhere = switches.fence_position is FencePosition.ANYWHERE
        self._completed: dict[int, deque[tuple[int, int]]] = {}
        self._told: deque[tuple[int, tuple[int, int] | None, int]] = deque(maxlen=_REMEMBERED)
        self._commits: deque[Commit] = deque(maxlen=_REMEMBERED)

    # -- knowledge ------------------------------------------------------------------------------

    def touch(self) -> Rows:
        """The rows, to be changed, with a clock that nobody else has seen yet."""
        if self._lent:
            self._lent = False
            self.clock += 1
            self.rows = self.rows.copy()
            self.rows[CAUSAL, self.agent.column] = self.clock
        return self.rows

    def message(self) -> Message:
        """Everything the warp knows and did so far."""
        self._lent = True
        return self.now()

    def now(self) -> Message:
        """The same, to be looked at before the warp goes on."""
        said = self._said
        if said.rows is not self.rows or said.foreign is not self._foreign:
            said = self._said = Message(self.cluster.number, self.rows, self._foreign)
        return said

    def relaxed(self, scope: int) -> Message:
        """What travels with a relaxed arrive or write: what a fence let go before it (K4), tcgen05
        accesses (C6) and published inits (X10)."""
        self._lent = True
        rows = empty(self.rows.shape[1])
        rows[PUBLISHED] = self.rows[PUBLISHED]
        inits = self.cluster.initialized[: rows.shape[1]]
        rows[CAUSAL, inits] = self.rows[CAUSAL, inits]
        bare = Message(self.cluster.number, rows)
        return merge(bare, self.released[scope]) or bare

    def acquire(self, message: Message | None) -> None:
        """Makes known what a message says."""
        if message is None:
            return
        rows = self.touch()
        here = self.cluster.number
        told = message.of(here)
        if told is not None:
            message_here = message if message.cluster == here else Message(here, told)
            self.rows = learn(rows, message_here, implied=self._implied)
        if message.cluster != here or message.foreign:
            self._learn_foreign(message)

    def acquire_relaxed(self, message: Message | None, scope: int) -> None:
        """A relaxed wait or read: tcgen05 accesses and inits are known at once (C6), the rest after
        a fence of a scope at least as large (K4)."""
        if message is None:
            return
        self.pending[scope] = merge(self.pending[scope], message)
        if message.cluster != self.cluster.number:
            return
        columns = message.rows.shape[1]
        rows = self.rows = widen(self.touch(), columns)
        inits = self.cluster.initialized[:columns]
        mine, told = rows[:, :columns], message.rows
        np.maximum(mine[PUBLISHED], told[PUBLISHED], out=mine[PUBLISHED])
        mine[CAUSAL, inits] = np.maximum(mine[CAUSAL, inits], told[CAUSAL, inits])
        if self._implied:
            np.maximum(mine[TENSOR], told[PUBLISHED], out=mine[TENSOR])

    def fence(self, scope: int) -> None:
        """fence.acq_rel, fence.sc and membar."""
        for level in range(scope + 1):
            self.acquire(self.pending[level])
            self.pending[level] = None
        message = self.message()
        for level in range(scope + 1):
            self.released[level] = message

    def know(self, row: int, agent: Agent, clock: int) -> None:
        """Sets one entry, unless more is known already."""
        rows, column = self.touch(), agent.column
        if rows.shape[1] <= column:
            rows = self.rows = widen(rows, column + 1)
        if rows.item(row, column) < clock:
            rows[row, column] = clock

    # -- fences and completions of its own ------------------------------------------------------

    def proxy_fence(self, space: Space | None) -> None:
        """fence.proxy.async: what the warp did itself (S5 'anywhere': all it knows of) may be
        followed by asynchronous accesses. cp.async that it observed through an mbarrier, and
        st.async, count too: no thread performs them, so there is no other place for their fence."""
        self.rows = widen(self.touch(), self.cluster.capacity)
        if space is not _GLOBAL:
            self._fence_row(FENCED)
            np.maximum(self.rows[ANYWHERE], self.rows[CAUSAL], out=self.rows[ANYWHERE])
        if space is not _SHARED:
            self._fence_row(FENCED_GLOBAL)
        self._lent = True  # later accesses are not fenced: they need another clock

    def publish_inits(self) -> None:
        """fence.mbarrier_init: own inits so far (X10)."""
        agent = self.cluster.agent(Kind.INITIALIZED, self.number)
        self.know(CAUSAL, agent, self.counts.initialized)

    def tensor_fence(self, *, before: bool) -> None:
        """tcgen05.fence."""
        to, of = (PUBLISHED, TENSOR) if before else (TENSOR, PUBLISHED)
        rows = self.touch()
        np.maximum(rows[to], rows[of], out=rows[to])

    def tensor_done(self, agent: Agent, clock: int) -> None:
        """Own tcgen05 accesses up to a clock are ordered before what the warp does next."""
        self.know(TENSOR, agent, clock)
        if self._implied:
            self.know(PUBLISHED, agent, clock)

    # -- what explanations look back to ----------------------------------------------------------

    def completed(self, agent: Agent, clock: int) -> None:
        """The warp waited for its operations up to ``clock``."""
        known = self._completed.setdefault(agent.column, deque(maxlen=_REMEMBERED))
        known.append((clock, self.clock))

    def waited_at(self, agent: Agent, clock: int) -> int | None:
        """The warp's clock when it first waited for operation ``clock`` of its own, if it did."""
        known = self._completed.get(agent.column, ())
        return next((at for reached, at in known if reached >= clock), None)

    def tells(self, barrier: tuple[int, int] | None, line: int) -> None:
        """The warp hands on what it knows, by an arrive on an mbarrier or at a barrier (None)."""
        self._told.append((self.clock, barrier, line))

    def told_after(self, clock: int) -> str | None:
        """How the warp first handed on what it did at ``clock``, in words."""
        for at, barrier, line in self._told:
            if at >= clock and barrier is not None:
                return f"arrive on the mbarrier at {barrier[1]} of CTA {barrier[0]} (line {line})"
            if at >= clock:
                return f"barrier in line {line}"
        return None

    def committed(self, commit: Commit) -> None:
        self._commits.append(commit)

    def commit_of(self, queued: int) -> Commit | None:
        """The first commit that tracks the operation with this number."""
        return next((commit for commit in self._commits if commit.queued >= queued), None)

    def _fence_row(self, row: int) -> None:
        rows, own = self.rows, self.agent.column
        if self._anywhere:
            np.maximum(rows[row], rows[CAUSAL], out=rows[row])
            return
        rows[row, own] = self.clock
        for column, seen in self.cluster.performed:
            mine = self.cluster.agents[column].owner == self.number
            covered = rows[CAUSAL, column if mine else seen]
            rows[row, column] = max(rows[row, column], covered)

    def _learn_foreign(self, message: Message) -> None:
        told = {message.cluster: message.rows, **message.foreign}
        told.pop(self.cluster.number, None)
        both = dict(self._foreign)  # a new one: messages share the old one
        for cluster, rows in told.items():
            mine = both.get(cluster)
            both[cluster] = rows if mine is None else joined(mine, rows)
        self._foreign = both

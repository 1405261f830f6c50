"""Who accesses memory, and the columns that stand for them in vector clocks.

An agent is a stream of accesses that complete in order: whoever knows that access number n of it is
done knows the same of all before. Asynchronous operations are unordered among each other, so they
are put into streams by what ends them: an mbarrier completes its phases in order, a warp its bulk
groups, a tcgen05 queue its commits.

Knowledge never leaves a cluster except through global memory, so agents are numbered within theirs.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import IntEnum, auto

import numpy as np
from numpy.typing import NDArray

_LEAST = 64


class Kind(IntEnum):
    """The stream, and what its clock counts."""

    GENERIC = auto()
    """Ordinary accesses of a warp: what others can tell apart, see `Warp.clock`."""
    COPY = auto()
    """cp.async of a warp: operations issued."""
    COMPLETE_TX = auto()
    """What completes by complete-tx on an mbarrier: phases."""
    COMPLETE_TX_REMOTE = auto()
    """The same for operations that another CTA issued, where S1 is strict."""
    REQUESTED = auto()
    """Bulk copies of a warp that end on one mbarrier, where S2 is literal: operations issued."""
    STORE_ASYNC = auto()
    """st.async and red.async that complete on an mbarrier: phases."""
    BULK_READ = auto()
    """Sources of bulk stores of a warp: bulk groups."""
    BULK_WRITE = auto()
    """Destinations of bulk stores of a warp: bulk groups."""
    QUEUE = auto()
    """tcgen05.mma, cp and shift of a warp (and chain): operations issued."""
    TMEM_LOAD = auto()
    TMEM_STORE = auto()
    """tcgen05.ld and st of a warp: operations issued."""
    WGMMA = auto()
    """wgmma of a warpgroup: groups."""

    # Facts that travel like clocks but that no access is stamped with.
    COPY_SEEN = auto()
    """cp.async of a warp that somebody observed through an mbarrier."""
    ISSUED = auto()
    """tcgen05 operations of a warp (and chain) that were issued, not completed (C2, C7b)."""
    CONSUMED = auto()
    """tcgen05.ld of a warp whose registers have been read (S10)."""
    INITIALIZED = auto()
    """mbarrier.init of a warp that fence.mbarrier_init published: count of inits."""
    OBSERVED = auto()
    """Phases of an mbarrier that some wait observed (B7)."""


FENCED = frozenset((Kind.GENERIC, Kind.COPY, Kind.STORE_ASYNC))
"""Accesses of the generic proxy: an asynchronous one after them needs a proxy fence."""


@dataclass(frozen=True, slots=True)
class Agent:
    """``owner``: the warp, (warp, chain), the warpgroup, or (cta, offset, generation) of an
    mbarrier."""

    kind: Kind
    cluster: int
    column: int
    owner: Hashable


class Cluster:
    """The agents of one cluster.

    Args:
        number: of the cluster in the launch.
        fenced: kinds of agents that belong to the generic proxy.
    """

    def __init__(self, number: int, fenced: frozenset[Kind] = FENCED) -> None:
        self.number = number
        self.agents: list[Agent] = []
        self.capacity = _LEAST
        """Columns of new vector clocks; those of old ones may be fewer."""
        self._kinds = fenced
        self._agents: dict[tuple[Kind, Hashable], Agent] = {}
        self.fenced: NDArray[np.bool_] = np.zeros(_LEAST, np.bool_)
        self.observed: NDArray[np.bool_] = np.zeros(_LEAST, np.bool_)
        self.initialized: NDArray[np.bool_] = np.zeros(_LEAST, np.bool_)
        self.queues: list[tuple[int, int, Hashable, int]] = []
        """Column of a tcgen05 queue, that of what it issued, its chain, its warp."""
        self.performed: list[tuple[int, int]] = []
        """Accesses of the generic proxy that no thread performs: their column, and the one that
        says how far anybody's proxy fence covers them."""

    def agent(self, kind: Kind, owner: Hashable) -> Agent:
        """The agent with these names; made when first asked for."""
        known = self._agents.get((kind, owner))
        if known is not None:
            return known
        column = len(self.agents)
        if column == self.capacity:
            self._grow()
        made = Agent(kind, self.number, column, owner)
        self.agents.append(made)
        self._agents[kind, owner] = made
        self.fenced[column] = kind in self._kinds
        self.observed[column] = kind is Kind.OBSERVED
        self.initialized[column] = kind is Kind.INITIALIZED
        if kind is Kind.STORE_ASYNC:
            self.performed.append((column, column))
        return made

    def copies(self, warp: int) -> tuple[Agent, Agent]:
        """The agents of a warp's cp.async, and of those observed through an mbarrier."""
        new = (Kind.COPY, warp) not in self._agents
        copy, seen = self.agent(Kind.COPY, warp), self.agent(Kind.COPY_SEEN, warp)
        if new:
            self.performed.append((copy.column, seen.column))
        return copy, seen

    def queue(self, warp: int, chain: Hashable) -> tuple[Agent, Agent]:
        """The agents of tcgen05 operations that are completed, and issued."""
        owner = (warp, chain)
        new = (Kind.QUEUE, owner) not in self._agents
        queue, issued = self.agent(Kind.QUEUE, owner), self.agent(Kind.ISSUED, owner)
        if new:
            self.queues.append((queue.column, issued.column, chain, warp))
        return queue, issued

    def _grow(self) -> None:
        self.capacity *= 2
        for name in ("fenced", "observed", "initialized"):
            mask = np.zeros(self.capacity, np.bool_)
            mask[: self.capacity // 2] = getattr(self, name)
            setattr(self, name, mask)

"""Groups of asynchronous operations that the issuing warp waits for itself."""

from __future__ import annotations

from schedgen.emulator.order.agents import Agent, Kind
from schedgen.emulator.order.knowledge import CAUSAL
from schedgen.emulator.order.state import State
from schedgen.emulator.order.tracker import Queue
from schedgen.emulator.order.warps import Warp

# Python 3.11 takes as long to find a member in its enumeration as for several calls.
_WGMMA = Queue.WGMMA


class Streams:
    """Commits and waits of groups; a wait concerns only operations of the warp itself (T8, C9), or
    of its warpgroup (W4)."""

    def __init__(self, state: State) -> None:
        self._state = state

    def bulk_commit(self, warp: Warp) -> None:
        """cp.async.bulk.commit_group."""
        warp.counts.bulk_groups += 1

    def bulk_wait(self, warp: Warp, pending: int, read: bool) -> None:
        """cp.async.bulk.wait_group; ``read``: only the sources are done with (T7)."""
        done = warp.counts.bulk_groups - pending
        self._complete(warp, warp.cluster.agent(Kind.BULK_READ, warp.number), done)
        if not read:
            self._complete(warp, warp.cluster.agent(Kind.BULK_WRITE, warp.number), done)

    def group_commit(self, warp: Warp, queue: Queue) -> None:
        """wgmma.commit_group and cp.async.commit_group."""
        if queue is _WGMMA:
            warp.counts.wgmma_groups += 1
        else:
            warp.counts.copy_groups.append(warp.counts.copies)

    def group_wait(self, warp: Warp, queue: Queue, pending: int) -> None:
        """wgmma.wait_group and cp.async.wait_group."""
        counts = warp.counts
        if queue is _WGMMA:
            agent = warp.cluster.agent(Kind.WGMMA, (warp.cta, warp.group))
            self._complete(warp, agent, counts.wgmma_groups - pending)
            return
        groups = len(counts.copy_groups) - pending
        if groups > 0:
            agent, _ = warp.cluster.copies(warp.number)
            self._complete(warp, agent, counts.copy_groups[groups - 1])

    def tmem_wait(self, warp: Warp, queue: Queue) -> None:
        """tcgen05.wait::ld and ::st."""
        load = queue is Queue.TMEM_LOAD
        agent = warp.cluster.agent(Kind.TMEM_LOAD if load else Kind.TMEM_STORE, warp.number)
        done = warp.counts.loads if load else warp.counts.stores
        if load:
            warp.counts.unconsumed.clear()
        warp.tensor_done(agent, done)
        warp.completed(agent, done)

    def _complete(self, warp: Warp, agent: Agent, clock: int) -> None:
        warp.know(CAUSAL, agent, clock)
        warp.completed(agent, clock)

"""Kernels that begin before the kernel in front of them has ended (programmatic dependent launch).

What that kernel wrote is there after ``griddepcontrol.wait``, and what it still reads may be
overwritten only then: until a warp has waited, or knows of one that has, it may not touch that.
A kernel may follow the tiles of the one in front instead, which counts them in words of global
memory (`schedgen.following`): who has read such a word with ``.acquire`` has waited as well. Such
are words that the kernel in front wrote with ``.release``, and those that a driver names. A warp
that reads a count for the first time finds one less than in the end: if that is enough for it, it
waits for too few, and has not waited.
Where it is not known what the kernel in front did, it may not touch global memory at all.
"""

from __future__ import annotations

from typing import Literal

from schedgen.emulator.machine.switches import label
from schedgen.emulator.order.agents import Agent
from schedgen.emulator.order.findings import Access, Defect, Flaw
from schedgen.emulator.order.footprint import Footprint, Ranges
from schedgen.emulator.order.knowledge import CAUSAL, Message
from schedgen.emulator.order.state import State
from schedgen.emulator.order.tracker import Cells


class Predecessor:
    """Who knows that the kernel before this one has ended; only made if it may not have.

    Args:
        state: shared with the rest of the checker.
        before: what kernels that may still run did to global memory; None: anything.
        followed: addresses of words in which these count their tiles.
    """

    def __init__(
        self, state: State, before: Footprint | None = None, followed: Ranges | None = None
    ) -> None:
        self._state = state
        self._before, self._followed = before, followed
        self._waits: dict[int, tuple[Agent, int]] = {}
        self._known: dict[int, tuple[Agent, int]] = {}
        """A wait that each warp heard of."""
        self._asked: set[tuple[int, int]] = set()
        """Which warps have read which words that count."""

    def waited(self, number: int) -> None:
        """A warp has executed ``griddepcontrol.wait``."""
        warp = self._state.warp(number)
        warp.touch()
        self._waits.setdefault(number, (warp.agent, warp.clock))

    def acquire(self, warp: int, cells: Cells) -> bool:
        """A warp reads a word with ``.acquire``; whether it finds there what the kernels in front
        leave, else one less.
        """
        if not self._follows(cells, "released"):
            return True
        if self._follows(cells, "counted"):
            asks = (warp, _first(cells))
            if asks not in self._asked:
                self._asked.add(asks)
                return False
        self.waited(warp)
        return True

    def concerns(self, cells: Cells, *, write: bool) -> bool:
        """Whether an access to global memory has to come after the kernels in front. A read of what
        these let others go on behind has not.
        """
        if not write and self._follows(cells, "released"):
            return False
        return self._before is None or self._before.concerns(cells, write=write)

    def _follows(self, cells: Cells, words: Literal["released", "counted"]) -> bool:
        """Whether an access is to such words of kernels in front, or to those of a driver."""
        known = None if self._before is None else getattr(self._before, words)
        return any(one is not None and one.meet(cells) for one in (self._followed, known))

    def ended(self, warp: int, view: Message) -> bool:
        """Whether a warp that accesses global memory, or issues that, heard of a wait.

        ``view`` is what the warp knew then: it may have heard of one since.
        """
        mine = self._known.get(warp) or self._waits.get(warp)
        if mine is not None and self._knows(view, *mine):
            return True
        found = next((mark for mark in self._waits.values() if self._knows(view, *mark)), None)
        if found is not None:
            self._known[warp] = found
        return found is not None

    def early(self, access: Access, cells: Cells) -> None:
        """Reports an access of one that did not."""
        start = _first(cells)
        needs = "griddepcontrol.wait before, by this warp or by one that it hears of"
        if any(warp == access.warp for warp, _ in self._asked):
            needs += "; it counts tiles of the kernel in front, and goes on before all are there"
        self._state.findings.add(Defect(
            Flaw.EARLY, cells.space, cells.cta, access, start, start, 1,
            needs=needs, rule="L1", switch=label("early_start"),
        ))  # fmt: skip

    def _knows(self, view: Message, agent: Agent, clock: int) -> bool:
        return view.knows(CAUSAL, agent.cluster, agent.column, clock)


def _first(cells: Cells) -> int:
    """The first address of an access."""
    return cells.index.start if isinstance(cells.index, slice) else int(cells.index.flat[0])

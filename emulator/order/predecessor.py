"""Kernels that begin before the kernel in front of them has ended (programmatic dependent launch).

What that kernel wrote is there after ``griddepcontrol.wait``, and what it still reads may be
overwritten only then: until a warp has waited, or knows of one that has, it may not touch that.
A kernel may follow the tiles of the one in front instead, which counts them in words of global
memory (`schedgen.following`): who has read such a word with ``.acquire`` has waited as well. Such
are words that the kernel in front wrote with ``.release``, and those that a driver names.
Where it is not known what the kernel in front did, it may not touch global memory at all.
"""

from __future__ import annotations

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
        self._known: set[int] = set()

    def waited(self, number: int) -> None:
        """A warp has executed ``griddepcontrol.wait``."""
        warp = self._state.warp(number)
        warp.touch()
        self._waits.setdefault(number, (warp.agent, warp.clock))

    def follows(self, cells: Cells) -> bool:
        """Whether an access is to a word in which the kernels in front count their tiles."""
        known = [] if self._followed is None else [self._followed]
        known += [] if self._before is None else [self._before.released]
        return any(words.meet(cells) for words in known)

    def concerns(self, cells: Cells, *, write: bool) -> bool:
        """Whether an access to global memory has to come after the kernels in front."""
        return self._before is None or self._before.concerns(cells, write=write)

    def ended(self, warp: int, view: Message) -> bool:
        """Whether a warp that accesses global memory, or issues that, heard of a wait.

        ``view`` is what the warp knew; what it once knew it does not forget.
        """
        if warp not in self._known:
            mine = [self._waits[warp]] if warp in self._waits else []
            if not any(self._knows(view, *mark) for mark in (*mine, *self._waits.values())):
                return False
            self._known.add(warp)
        return True

    def early(self, access: Access, cells: Cells) -> None:
        """Reports an access of one that did not."""
        start = cells.index.start if isinstance(cells.index, slice) else int(cells.index.flat[0])
        self._state.findings.add(Defect(
            Flaw.EARLY, cells.space, cells.cta, access, start, start, 1,
            needs="griddepcontrol.wait before, by this warp or by one that it hears of",
            rule="L1", switch=label("early_start"),
        ))  # fmt: skip

    def _knows(self, view: Message, agent: Agent, clock: int) -> bool:
        return view.knows(CAUSAL, agent.cluster, agent.column, clock)

"""Tensor maps that a kernel writes, and copies that read them through a proxy of their own (X11).

Copies read tensor maps through the tensormap proxy (PTX ISA 9.7.9.27.1.2). Whoever wrote a map, or
knows of that, has to let it go with ``fence.proxy.tensormap::generic.release`` or with
``tensormap.cp_fenceproxy``, which is a write and that fence (9.7.13.16); the warp that issues the
copy has to learn of it by an ordinary hand-off, and then to execute ``fence.proxy.tensormap::
generic.acquire`` for the address of the map (9.7.13.4). Within one warp the hand-off is program
order, and both fences are needed all the same. What launches before this one wrote is there.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from schedgen.emulator.order.accesses import Accesses
from schedgen.emulator.order.agents import Agent
from schedgen.emulator.order.findings import Missing, Race
from schedgen.emulator.order.knowledge import CAUSAL, Message
from schedgen.emulator.order.records import Record
from schedgen.emulator.order.state import State
from schedgen.emulator.order.tracker import Cells

_REMEMBERED = 256
"""Release fences and acquire fences of a map that are kept: the last ones."""


class _Release(NamedTuple):
    """A release fence: by whom, when, and what it covers."""

    agent: Agent
    clock: int
    covered: Message


class Maps:
    """Fences for tensor maps, and the use of maps."""

    def __init__(self, state: State, accesses: Accesses) -> None:
        self._state = state
        self._accesses = accesses
        self._releases: deque[_Release] = deque(maxlen=_REMEMBERED)
        self._acquired: dict[tuple[int, int], tuple[_Release, ...]] = {}
        """By warp and address of the map: the releases that it knew of."""

    def release(self, number: int) -> None:
        """fence.proxy.tensormap::generic.release: covers what the warp did and knows."""
        warp = self._state.warp(number)
        warp.touch()
        self._releases.append(_Release(warp.agent, warp.clock, warp.message()))

    def acquire(self, number: int, address: int) -> None:
        """fence.proxy.tensormap::generic.acquire, for one map."""
        view = self._state.warp(number).now()
        known = tuple(one for one in self._releases if _knows(view, one.agent, one.clock))
        self._acquired[number, address] = known

    def use(self, number: int, cells: Cells, line: int) -> None:
        """A copy is issued that reads a map; ``cells`` are the bytes of the map."""
        state = self._state
        assert isinstance(cells.index, slice)
        acquired = self._acquired.get((number, cells.index.start), ())
        for part in state.memory.parts(cells):
            for earlier in part.shadow.last_writes(part.place):
                if not earlier:
                    continue
                write = state.records.get(earlier)
                if any(_knows(one.covered, write.agent, write.clock) for one in acquired):
                    continue
                bytes_ = part.overlap(part.shadow.written, earlier)
                found = int(bytes_.min()), int(bytes_.max()), bytes_.size
                self._report(number, write, cells, line, found)

    def _report(
        self, number: int, write: Record, cells: Cells, line: int, found: tuple[int, int, int]
    ) -> None:
        state = self._state
        warp = state.warp(number)
        warp.touch()
        origin = state.origin(warp, line)
        read = Record(write.number, warp.agent, warp.clock, origin, 0)
        missing, needs = self._needs(number, write, line)
        state.findings.add(Race(
            cells.space, cells.cta, self._accesses.side(write, cells),
            self._accesses.side(read, cells), *found, missing, needs, "X11",
        ))  # fmt: skip

    def _needs(self, number: int, write: Record, line: int) -> tuple[Missing, str]:
        writer, behind = f"warp {write.origin.warp}", f"after line {write.origin.line}"
        acquire = f"fence.proxy.tensormap::generic.acquire of the map in warp {number} before line "
        acquire += str(line)
        covering = [r for r in self._releases if _knows(r.covered, write.agent, write.clock)]
        view = self._state.warp(number).now()
        if not covering:
            return Missing.MAP_FENCE, (
                f"fence.proxy.tensormap::generic.release in {writer} {behind} (or "
                f"tensormap.cp_fenceproxy in its place), a hand-off, and {acquire}"
            )
        if not any(_knows(view, one.agent, one.clock) for one in covering):
            return Missing.HAND_OFF, (
                f"a hand-off from {writer}, after its release fence for tensor maps, to warp "
                f"{number}, and then {acquire}"
            )
        return Missing.MAP_FENCE, f"{acquire}, after the hand-off from {writer}"


def _knows(view: Message, agent: Agent, clock: int) -> bool:
    return view.knows(CAUSAL, agent.cluster, agent.column, clock)

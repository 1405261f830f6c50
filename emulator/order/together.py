"""Accesses of several warps by one instruction, which are looked at once.

Warps of a warpgroup that execute the same load or store side by side mostly know the same: what was
in the places of all of them is ordered before all of them. Then they are entered without looking at
each; otherwise `accesses.Accesses` looks at one after the other, and says what is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.order.knowledge import CAUSAL
from schedgen.emulator.order.records import SAME, WRITE
from schedgen.emulator.order.shadow import ATOMIC_WRITES, EVERY, Manner, Touches
from schedgen.emulator.order.state import State
from schedgen.emulator.order.tracker import Cells

_TRIED = 4


class Together:
    """Ordinary accesses to shared memory by several warps of a CTA."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._apart: Counter[int] = Counter()
        """Lines whose warps did not know the same: it is not tried for ever."""
        self._before: Touches = ()

    def possible(
        self,
        warps: Sequence[int],
        cells: Sequence[Cells],
        whole: Cells,
        line: int,
        write: bool,
    ) -> bool:
        """Whether all that was in the place of each warp is ordered before it."""
        if self._apart[line] >= _TRIED:
            return False
        knowing = [self._state.warp(number) for number in warps]
        rows = [warp.touch()[CAUSAL] for warp in knowing]
        cluster = knowing[0].cluster.number
        if write:  # mostly all know the same; looking at each takes longer
            self._before, numbers = self._found(whole)
            if self._known(cluster, _least(rows), numbers, write):
                return True
        known = all(
            self._known(cluster, row, self._found(mine)[1] if write else self._read(mine), write)
            for mine, row in zip(cells, rows, strict=True)
        )
        if not known:
            self._apart[line] += 1
        return known

    def enter(
        self,
        warps: Sequence[int],
        cells: Sequence[Cells],
        whole: Cells,
        line: int,
        write: bool,
        same: Sequence[bool],
    ) -> None:
        """Enters the accesses, which were found `possible` just now."""
        state = self._state
        before = self._before
        for number, mine, left in zip(warps, cells, same, strict=True):
            warp = state.warp(number)
            warp.touch()
            flags = (WRITE if write else 0) | (SAME if left else 0)
            entry = warp.agent, warp.clock, state.origin(warp, line), flags
            access = state.records.add(entry)
            (part,) = state.memory.parts(mine)
            if not write:
                key = warp.agent.cluster, warp.agent.column, Manner.READ
                part.shadow.touch(key, part.place, part.pages, access)
                continue
            if before:
                (all_,) = state.memory.parts(whole)
                part.shadow.write(all_.place, all_.pages, access, before)
                before = ()
            else:
                part.shadow.write(part.place, part.pages, access, ())

    def _found(self, cells: Cells) -> tuple[Touches, set[int]]:
        """What a write may conflict with: other accesses than plain writes, and the numbers of
        all."""
        (part,) = self._state.memory.parts(cells)
        touches = part.shadow.touches(part.place, part.pages, EVERY)
        numbers = {number for _, number in touches}
        return touches, numbers.union(part.shadow.last_writes(part.place))

    def _read(self, cells: Cells) -> list[int]:
        """The numbers of what a read may conflict with."""
        (part,) = self._state.memory.parts(cells)
        shadow, place = part.shadow, part.place
        touches = shadow.touches(place, part.pages, ATOMIC_WRITES)
        return [*shadow.last_writes(place), *(number for _, number in touches)]

    def _known(
        self, cluster: int, row: NDArray[np.int32], numbers: Iterable[int], write: bool
    ) -> bool:
        """Whether one who knows what a row says comes after some accesses."""
        entries = self._state.records.entries
        for number in numbers:
            agent, clock, _, _ = entries[number]
            if number == 0:
                if not write:
                    return False  # nobody wrote it
            elif (
                agent.cluster != cluster
                or agent.column >= row.size
                or row.item(agent.column) < clock
            ):
                return False
        return True


def _least(rows: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    """What each of some warps knows."""
    size = min(row.size for row in rows)
    return reduce(np.minimum, [row[:size] for row in rows])

"""Accesses of several warps by one instruction, which are looked at once.

Warps of a warpgroup that execute the same load or store side by side mostly know the same: what was
in the places of all of them is ordered before all of them. Then they are entered without looking at
each; otherwise `accesses.Accesses` looks at one after the other, and says what is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.order.knowledge import CAUSAL
from schedgen.emulator.order.records import SAME, WRITE
from schedgen.emulator.order.shadow import ATOMIC_WRITES, EVERY, Manner, Touches
from schedgen.emulator.order.state import State
from schedgen.emulator.order.tracker import Cells

_TRIED = 4
"""Times that it is tried to look at a line's accesses at once."""
_ALIKE = 16
"""Writes after which it is tried again whether all warps know the same."""
_NOBODY = -1
"""In place of the number of an access: none came before a read."""


class Together:
    """Ordinary accesses to shared memory by several warps of a CTA."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._apart: Counter[int] = Counter()
        """Lines whose warps did not know the same: it is not tried for ever."""
        self._before: list[tuple[Cells, Touches]] = []
        """What writes take the place of, in which cells."""
        self._alike = 0
        """Writes since it was last tried whether all warps know the same, if they did not."""

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
        if not write:
            reads = (self._read(mine) for mine in cells)
            known = all(map(self._known, repeat(cluster), rows, reads))
        elif self._alike % _ALIKE == 0 and self._all_know(cluster, rows, whole):
            return True
        else:
            self._alike += 1
            found = [self._found(mine) for mine in cells]
            self._before = [
                (mine, touches) for mine, (touches, _) in zip(cells, found, strict=True) if touches
            ]
            known = all(map(self._known, repeat(cluster), rows, (numbers for _, numbers in found)))
        if not known:
            self._apart[line] += 1
        return known

    def _all_know(self, cluster: int, rows: Sequence[NDArray[np.int32]], whole: Cells) -> bool:
        """Whether what was in the places of all is ordered before each, as it mostly is where one
        warp was told something for all."""
        touches, numbers = self._found(whole)
        self._before = [(whole, touches)] if touches else []
        size = min(row.size for row in rows)
        least = reduce(np.minimum, [row[:size] for row in rows])
        self._alike = 0
        return self._known(cluster, least, numbers)

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
        if write:
            for place, touches in self._before:
                (part,) = state.memory.parts(place)
                part.shadow.write(part.place, part.pages, 0, touches)
        for number, mine, left in zip(warps, cells, same, strict=True):
            warp = state.warp(number)
            warp.touch()
            flags = (WRITE if write else 0) | (SAME if left else 0)
            access = state.records.add((warp.agent, warp.clock, state.origin(warp, line), flags))
            (part,) = state.memory.parts(mine)
            if write:
                part.shadow.write(part.place, part.pages, access, ())
            else:
                key = warp.agent.cluster, warp.agent.column, Manner.READ
                part.shadow.touch(key, part.place, part.pages, access)

    def _found(self, cells: Cells) -> tuple[Touches, set[int]]:
        """What a write may conflict with: other accesses than plain writes, and the numbers of
        all."""
        (part,) = self._state.memory.parts(cells)
        touches = part.shadow.touches(part.place, part.pages, EVERY)
        numbers = {number for _, number in touches}
        return touches, numbers.union(part.shadow.last_writes(part.place))

    def _read(self, cells: Cells) -> list[int]:
        """The numbers of what a read may conflict with; what nobody wrote has number -1."""
        (part,) = self._state.memory.parts(cells)
        shadow, place = part.shadow, part.place
        touches = shadow.touches(place, part.pages, ATOMIC_WRITES)
        written = [number or _NOBODY for number in shadow.last_writes(place)]
        return [*written, *(number for _, number in touches)]

    def _known(self, cluster: int, row: NDArray[np.int32], numbers: Iterable[int]) -> bool:
        """Whether one who knows what a row says comes after some accesses."""
        entries = self._state.records.entries
        for number in numbers:
            if number == 0:
                continue
            if number == _NOBODY:
                return False
            agent, clock, _, _ = entries[number]
            if agent.cluster != cluster:
                return False
            if agent.column >= row.size or row.item(agent.column) < clock:
                return False
        return True

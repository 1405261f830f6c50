"""Accesses of several warps by one instruction, which are looked at once.

Warps of a warpgroup that execute the same load or store side by side mostly know the same: what was
in the places of all of them is ordered before all of them. Then they are entered without looking at
each; otherwise `accesses.Accesses` looks at one after the other, and says what is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.order.knowledge import CAUSAL
from schedgen.emulator.order.memory import Part
from schedgen.emulator.order.records import SAME, WRITE
from schedgen.emulator.order.shadow import ATOMIC_WRITES, EVERY, DenseShadow, Manner, Touches
from schedgen.emulator.order.state import State
from schedgen.emulator.order.tracker import Cells
from schedgen.emulator.order.warps import Warp

# Python 3.11 takes as long to find a member in its enumeration as for several calls.
_READ = Manner.READ

_TRIED = 4
"""Times that it is tried to look at a line's accesses at once."""
_ALIKE = 16
"""Writes after which it is tried again whether all warps know the same."""
_FEW = 8
"""Accesses that are looked up faster for one warp after the other."""
_NOBODY = -1
"""In place of the number of an access: none came before a read."""
_KEPT = 4096
"""Places of which it is remembered where in the shadows they are."""


class _Place(NamedTuple):
    """Where accesses of warps are: of each, and of all. ``cells`` keep the identity of an array."""

    parts: Sequence[Part]
    whole: Part
    cells: Cells


class Together:
    """Ordinary accesses to shared memory by several warps of a CTA."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._apart: Counter[int] = Counter()
        """Lines whose warps did not know the same: it is not tried for ever."""
        self._alike = 0
        """Writes since it was last tried whether all warps know the same, if they did not."""
        self._places: dict[tuple[int, int, int], _Place] = {}
        self._place: _Place
        self._warps: Sequence[Warp] = ()
        self._before: Sequence[tuple[Part, Touches]] = ()
        """Of the accesses that were found possible: where they are, who makes them, and what they
        take the place of there."""

    def possible(
        self,
        warps: Sequence[int],
        cells: Sequence[Cells],
        whole: Cells,
        line: int,
        write: bool,
    ) -> bool:
        """Whether all that was in the place of each warp is ordered before it."""
        if self._apart.get(line, 0) >= _TRIED:
            return False
        knowing = self._warps = self._state.each(warps)
        place = self._place = self._where(cells, whole)
        rows = [warp.touch()[CAUSAL] for warp in knowing]
        cluster = knowing[0].cluster.number
        self._before = ()
        if not write:
            known = self._all(cluster, rows, {*_read(place.whole)}) or all(
                map(self._known, repeat(cluster), rows, map(_read, place.parts))
            )
        elif self._alike % _ALIKE == 0 and self._all_know(cluster, rows, place.whole):
            return True
        else:
            self._alike += 1
            before = [part.shadow.touches(part.place, part.pages, EVERY) for part in place.parts]
            self._before = [*zip(place.parts, before, strict=True)]
            numbers = map(_numbers, place.parts, before)
            known = all(map(self._known, repeat(cluster), rows, numbers))
        if not known:
            self._apart[line] += 1
        return known

    def _all_know(self, cluster: int, rows: Sequence[NDArray[np.int32]], whole: Part) -> bool:
        """Whether what was in the places of all is ordered before each, as it mostly is where one
        warp was told something for all."""
        touches = whole.shadow.touches(whole.place, whole.pages, EVERY)
        self._before = [(whole, touches)]
        self._alike = 0
        return self._all(cluster, rows, _numbers(whole, touches))

    def _all(
        self, cluster: int, rows: Sequence[NDArray[np.int32]], numbers: Collection[int]
    ) -> bool:
        """Whether all who know what rows say come after some accesses."""
        if len(numbers) <= _FEW:
            entries = self._state.records.entries
            for number in numbers:
                if number == 0:
                    continue
                if number == _NOBODY:
                    return False
                agent, clock, _, _ = entries[number]
                column = agent.column
                if agent.cluster != cluster:
                    return False
                for row in rows:
                    if column >= row.size or row.item(column) < clock:
                        return False
            return True
        size = min(row.size for row in rows)
        return self._known(cluster, reduce(np.minimum, [row[:size] for row in rows]), numbers)

    def enter(self, line: int, write: bool, same: Sequence[bool]) -> None:
        """Enters the accesses, which were found `possible` just now."""
        state = self._state
        for part, touches in self._before:
            if touches:
                part.shadow.write(part.place, part.pages, 0, touches)
        entries = state.records.entries
        for warp, part, left in zip(self._warps, self._place.parts, same, strict=True):
            agent, access = warp.agent, len(entries)
            shadow, place, pages, _, _ = part
            if write:
                flags = WRITE | SAME if left else WRITE
                if type(shadow) is not DenseShadow or not shadow.written_over(place, access):
                    shadow.write(place, pages, access, ())
            else:
                flags = SAME if left else 0
                shadow.touch((agent.cluster, agent.column, _READ), place, pages, access)
            entries.append((agent, warp.clock, state.origin(warp, line), flags))

    def _where(self, cells: Sequence[Cells], whole: Cells) -> _Place:
        """Where warps access, which is remembered with the array that has all of it."""
        key = whole.cta, id(whole.index), whole.width
        found = self._places.get(key)
        if found is None:
            if len(self._places) >= _KEPT:
                self._places.clear()
            parts = self._state.memory.parts
            (all_,) = parts(whole)
            found = _Place([part for mine in cells for part in parts(mine)], all_, whole)
            self._places[key] = found
        return found

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


def _numbers(part: Part, touches: Touches) -> set[int]:
    """The numbers of all that a write may conflict with."""
    return {number for _, number in touches}.union(part.shadow.last_writes(part.place))


def _read(part: Part) -> list[int]:
    """The numbers of what a read may conflict with."""
    shadow, place = part.shadow, part.place
    touches = shadow.touches(place, part.pages, ATOMIC_WRITES)
    return [*(n or _NOBODY for n in shadow.last_writes(place)), *(n for _, n in touches)]

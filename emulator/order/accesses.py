"""Compares an access with those before it to the same cells, and enters it in the shadow."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.machine.switches import FencePosition, ReadRead, UnwaitedLoad, Verdict, label
from schedgen.emulator.order.agents import Agent, Kind
from schedgen.emulator.order.beside import divided, leave_the_same
from schedgen.emulator.order.findings import Access, Defect, Flaw, Missing, Race, Severity
from schedgen.emulator.order.knowledge import ANYWHERE, CAUSAL, FENCED_GLOBAL, Message
from schedgen.emulator.order.memory import Part
from schedgen.emulator.order.needs import Explainer, Need
from schedgen.emulator.order.predecessor import Predecessor
from schedgen.emulator.order.records import ATOMIC, FREED, SAME, WRITE, Origin, Record
from schedgen.emulator.order.shadow import (
    ATOMIC_WRITES,
    EVERY,
    DenseShadow,
    Layer,
    Manner,
    Order,
    Touches,
    pages_of,
)
from schedgen.emulator.order.state import State
from schedgen.emulator.order.tracker import Cells, Changed, Proxy, Space

# Python 3.11 takes as long to find a member in its enumeration as for several calls.
_GLOBAL = Space.GLOBAL
_ATOMIC_WRITE, _ATOMIC_READ, _READ = Manner.ATOMIC_WRITE, Manner.ATOMIC_READ, Manner.READ
_OFF = Verdict.OFF

_BESIDE, _RACE = 1, 2
"""Conflicts: of writes that leave the same bytes where both write, and others; 0: none."""
_ENOUGH = 16  # conflicts of the same two lines that are looked at closely
_ASYNC_WRITERS = frozenset((Kind.COMPLETE_TX, Kind.COMPLETE_TX_REMOTE, Kind.REQUESTED))
NEVER = 2**31 - 1
"""A clock that nobody ever knows."""


class Who(NamedTuple):
    """Who accesses, and what it is ordered after.

    Attributes:
        agent, clock: the stamp of the access.
        vector: per column of its cluster, the clock up to which it is ordered after that agent.
        view: all that its warp knew (at the issue of an asynchronous operation).
        born: number of the first access after that issue.
        changed: of a write that found some of what it wrote: the other cells.
    """

    agent: Agent
    clock: int
    origin: Origin
    vector: NDArray[np.int32]
    view: Message
    asynchronous: bool
    born: int
    changed: Changed | None = None


class Accesses:
    """All accesses of a launch.

    Args:
        state: shared with the rest of the checker.
        uninitialized: what reading a cell that nobody wrote is (K9: an unknown but constant value).
    """

    def __init__(self, state: State, uninitialized: Verdict) -> None:
        self._state = state
        self._entries = state.records.entries
        self.explain = Explainer(state.warps, state.fenced)
        self._uninitialized = uninitialized
        self._reads_anywhere = state.switches.fence_position is FencePosition.WRITER_SIDE
        self._read_read = state.switches.read_read is ReadRead.FENCE_REQUIRED
        self._other_cta = state.switches.async_other_cta
        self._same_value = state.switches.same_value
        self.predecessor: Predecessor | None = None
        self._met: dict[Hashable, list[Hashable]] = {}
        self._given_back: dict[Hashable, dict[int, tuple[int, int, int]]] = {}
        """Tensor memory that one CTA of a pair has given back and the other one not: what was
        accessed there last."""

    def access(
        self, who: Who, cells: Cells, *, write: bool, atomic: bool = False, same: bool = False
    ) -> Sequence[Part]:
        """Checks one access and enters it; ``same``: a write of what was there already, all of it.

        Returns where it is in which shadow.
        """
        flags = (WRITE if write else 0) | (ATOMIC if atomic else 0) | (SAME if same else 0)
        agent = who.agent
        number = self._state.records.add((agent, who.clock, who.origin, flags))
        if self.predecessor is not None and cells.space is _GLOBAL:
            self._early(self.predecessor, who, number, cells, write)
        plain = not write and (atomic or not (self._read_read and who.asynchronous))
        manners = ATOMIC_WRITES if plain else EVERY  # that this one may conflict with
        parts = self._state.memory.parts(cells)
        for part in parts:
            shadow, place, pages, _, _ = part
            if type(shadow) is DenseShadow and not flags & ~WRITE:
                key = None if write else (agent.cluster, agent.column, _READ)
                cta = who.origin.cta if agent.kind in _ASYNC_WRITERS else -1
                touched = manners is EVERY or shadow.atomics
                order = Order(agent.cluster, who.vector, self._entries, cta)
                if shadow.entered(place, pages, number, key, order, touched):
                    continue
            before = shadow.touches(place, pages, manners)
            conflict = before and self._after_touches(who, number, cells, part, before)
            if not conflict and not self._plainly_after(who, shadow.last_writes(place)):
                conflict = self._after_writes(who, number, cells, part)
            if write and not (atomic or (same and conflict)):
                if conflict == _BESIDE and who.changed is not None:
                    self._write_beside(who.agent, number, part, before, who.changed)
                else:
                    shadow.write(place, pages, number, before)
                continue
            # Beside a write of the same bytes: what follows has to be ordered after both.
            manner = _ATOMIC_WRITE if write else _ATOMIC_READ if atomic else _READ
            shadow.touch((agent.cluster, agent.column, manner), place, pages, number)
        return parts

    def _write_beside(
        self, agent: Agent, number: int, part: Part, before: Touches, changed: Changed
    ) -> None:
        """Enters a write beside others that left the same bytes where it wrote, too. It takes the
        place of what was there where it changed something; elsewhere what follows has to be ordered
        after all of them."""
        new, left = divided(part, changed)
        if new is not None:
            part.shadow.write(new, pages_of(new), number, before)
        if left is not None:
            key = agent.cluster, agent.column, _ATOMIC_WRITE
            part.shadow.touch(key, left, pages_of(left), number)

    def _early(self, before: Predecessor, who: Who, number: int, cells: Cells, write: bool) -> None:
        """Whether the kernel in front has ended (L1)."""
        if not before.ended(who.origin.warp, who.view) and before.concerns(cells, write=write):
            before.early(self.side(self._state.records.get(number), cells), cells)

    def allocate(self, cells: Cells) -> None:
        """Tensor memory is given out: as new."""
        for part in self._state.memory.parts(cells):
            everything = part.shadow.touches(part.place, part.pages, EVERY)
            part.shadow.write(part.place, part.pages, 0, everything)

    def deallocate(self, who: Who, cells: Cells, peer: Cells | None) -> None:
        """Tensor memory is given back: that is as good as a write after which nothing may come.

        ``peer`` are the cells of the other CTA of a pair, which its own warp gives back: accesses
        there have to be over, too, before either warp does so (9.7.16.7.1).
        """
        freed = self._state.records.add((who.agent, NEVER, who.origin, WRITE | FREED))
        if peer is not None:
            self._over(who, freed, peer, self._given_back.pop(_key(peer), None))
            self._given_back[_key(cells)] = self._last(cells)
        for part in self._state.memory.parts(cells):
            before = part.shadow.touches(part.place, part.pages, EVERY)
            if not self._after_touches(who, freed, cells, part, before):
                self._after_writes(who, freed, cells, part)
            part.shadow.write(part.place, part.pages, freed, before)

    def _last(self, cells: Cells) -> dict[int, tuple[int, int, int]]:
        """The last accesses to some cells: number -> first and last cell, and their count."""
        found: dict[int, tuple[int, int, int]] = {}
        for part in self._state.memory.parts(cells):
            written = [(part.shadow.written, one) for one in part.shadow.last_writes(part.place)]
            touched = part.shadow.touches(part.place, part.pages, EVERY)
            for layer, number in (*written, *touched):
                if number:
                    found[number] = _overlap(part, layer, number)
        return found

    def _over(
        self, who: Who, now: int, cells: Cells, before: dict[int, tuple[int, int, int]] | None
    ) -> None:
        """Accesses to the peer's tensor memory have to be over; ``before`` are the last ones if the
        peer has given it back."""
        for number, overlap in (self._last(cells) if before is None else before).items():
            earlier, later = self._state.records.get(number), self._state.records.get(now)
            if not earlier.flags & FREED and not self._ordered(who, number, cells.space):
                need = self.explain.need(earlier, later, who.view, cells.space, who.born)
                self._state.findings.add(Race(
                    cells.space, cells.cta, self.side(earlier, cells), self.side(later, cells),
                    *overlap, need.missing, need.text, "C14", need.switch, self._severity(earlier),
                ))  # fmt: skip

    # -- order ----------------------------------------------------------------------------------

    def _plainly_after(self, who: Who, numbers: Sequence[int]) -> bool:
        """Whether nothing more is to be said of writes: all are ordered before, by agents of the
        same cluster, and it does not matter whose they are."""
        agent, vector = who.agent, who.vector
        cluster, size, entries = agent.cluster, vector.size, self._entries
        if agent.kind in _ASYNC_WRITERS:
            return False
        for number in numbers:
            earlier, clock, _, _ = entries[number]
            if earlier.cluster != cluster or earlier.column >= size:
                return False  # nobody's, which is number 0, among them
            if vector.item(earlier.column) < clock:
                return False
        return True

    def _after_writes(self, who: Who, number: int, cells: Cells, part: Part) -> int:
        """What conflicts there were."""
        conflict, shadow = 0, part.shadow
        asynchronous = self._other_cta is not _OFF and who.agent.kind in _ASYNC_WRITERS
        for earlier in shadow.last_writes(part.place):
            if earlier == 0:
                self._unwritten(who, number, cells, part)
            elif not self._ordered(who, earlier, cells.space):
                conflict |= self._conflict(who, earlier, number, cells, part, shadow.written)
            elif asynchronous:
                self._other_block(who, earlier, number, cells, part)
        return conflict

    def _after_touches(
        self, who: Who, number: int, cells: Cells, part: Part, touches: Touches
    ) -> int:
        """What conflicts there were. If any, one with the write before that follows from it."""
        conflict = 0
        for layer, earlier in touches:
            if not self._ordered(who, earlier, cells.space):
                conflict |= self._conflict(who, earlier, number, cells, part, layer)
        return conflict

    def _ordered(self, who: Who, earlier: int, space: Space) -> bool:
        agent, clock, _, flags = self._entries[earlier]
        column = agent.column
        if agent.cluster == who.agent.cluster:
            if column < who.vector.size and who.vector.item(column) >= clock:
                return True
            fenced = who.asynchronous and agent.kind in self._state.fenced
        else:
            fenced = who.asynchronous and agent.kind in self._state.fenced
            row = FENCED_GLOBAL if fenced else CAUSAL
            return who.view.knows(row, agent.cluster, column, clock)
        # Behind a read the fence may be anybody's on the way (S5).
        read = fenced and self._reads_anywhere and not flags & WRITE
        shared = space is not _GLOBAL
        return read and shared and who.view.knows(ANYWHERE, agent.cluster, agent.column, clock)

    # -- findings -------------------------------------------------------------------------------

    def _conflict(
        self,
        who: Who,
        earlier: int,
        number: int,
        cells: Cells,
        part: Part,
        layer: Layer,
    ) -> int:
        """Two accesses that nothing orders, unless they are of one operation, or both atomic and
        of one proxy (K2): then 0."""
        before, now = self._state.records.get(earlier), self._state.records.get(number)
        if before.flags & FREED:
            self._freed(before, now, cells, part, layer)
            return _RACE
        fenced = self._state.fenced
        same_proxy = (before.agent.kind in fenced) == (now.agent.kind in fenced)
        if before.origin is now.origin or (before.flags & now.flags & ATOMIC and same_proxy):
            return 0
        if not (before.writes or now.writes) and before.agent.kind not in fenced:
            return 0  # two reads, and S17 is about those of the generic proxy
        about = (
            before.origin.line, now.origin.line, before.agent.kind, now.agent.kind,
            before.flags, now.flags, before.origin.consumed,
        )  # fmt: skip
        # Comparing cells takes time: beside enough errors it does not matter any more.
        if self._enough((about, False)):
            return _RACE
        same = leave_the_same(before, now, part, layer, who.changed)
        if same and self._enough((about, True)):
            return _BESIDE
        need = self.explain.need(before, now, who.view, cells.space, who.born)
        severity = self._severity(before)
        if same:
            if self._same_value is _OFF:
                return _BESIDE
            if self._same_value is Verdict.WARNING:
                severity = Severity.WARNING
            text = f"{need.text}; here both leave the same bytes"
            need = replace(need, text=text, switch=label("same_value"))
        race = self._race(before, now, need, cells, part, layer, severity)
        self._met.setdefault((about, same), []).append(race.key)
        self._state.findings.add(race)
        return _BESIDE if same else _RACE

    def _enough(self, about: Hashable) -> bool:
        """Counts a conflict of which enough like it were looked at; else False."""
        keys = self._met.get(about)
        if keys is None or len(keys) < _ENOUGH:
            return False
        self._state.findings.again(keys[0])
        return True

    def _severity(self, earlier: Record) -> Severity:
        review = self._state.switches.unwaited_load is UnwaitedLoad.REVIEW
        if review and earlier.agent.kind is Kind.TMEM_LOAD and earlier.origin.consumed:
            return Severity.REVIEW
        return Severity.ERROR

    def _other_block(self, who: Who, earlier: int, number: int, cells: Cells, part: Part) -> None:
        """S3: same proxy is not enough where another thread block issued the other write."""
        if cells.space is not Space.SHARED or self._entries[earlier][2].cta == who.origin.cta:
            return
        before, now = self._state.records.get(earlier), self._state.records.get(number)
        if not now.writes or not {before.agent.kind, now.agent.kind} <= _ASYNC_WRITERS:
            return
        text = "copies into one part of shared memory by one and the same CTA"
        need = Need(Missing.THREAD_BLOCK, text, "K7", label("async_other_cta"))
        error = self._other_cta is Verdict.ERROR
        severity = Severity.ERROR if error else Severity.WARNING
        self._state.findings.add(
            self._race(before, now, need, cells, part, part.shadow.written, severity)
        )

    def _unwritten(self, who: Who, number: int, cells: Cells, part: Part) -> None:
        if cells.space is _GLOBAL or self._uninitialized is _OFF:
            return
        now = self._state.records.get(number)
        if now.writes:
            return
        about = "unwritten", now.origin.line, cells.space
        if keys := self._met.setdefault(about, []):
            self._state.findings.again(keys[0])
            return
        error = self._uninitialized is Verdict.ERROR
        low, high, count = _overlap(part, part.shadow.written, 0)
        defect = Defect(
            Flaw.UNINITIALIZED, cells.space, cells.cta, self.side(now, cells), low, high, count,
            needs="a write before", rule="K9", switch=label("uninitialized"),
            severity=Severity.ERROR if error else Severity.WARNING,
        )  # fmt: skip
        keys.append(defect.key)
        self._state.findings.add(defect)

    def _freed(self, before: Record, now: Record, cells: Cells, part: Part, layer: Layer) -> None:
        low, high, count = _overlap(part, layer, before.number)
        self._state.findings.add(Defect(
            Flaw.FREED, cells.space, cells.cta, self.side(now, cells), low, high, count,
            needs=f"tcgen05.dealloc (line {before.origin.line}) after the last access",
            rule="C14", other=self.side(before, cells),
        ))  # fmt: skip

    def _race(
        self,
        before: Record,
        now: Record,
        need: Need,
        cells: Cells,
        part: Part,
        layer: Layer,
        severity: Severity,
    ) -> Race:
        low, high, count = _overlap(part, layer, before.number)
        return Race(
            cells.space, cells.cta, self.side(before, cells), self.side(now, cells), low, high,
            count, need.missing, need.text, need.rule, need.switch, severity,
        )  # fmt: skip

    def side(self, record: Record, cells: Cells) -> Access:
        """One side of a finding."""
        origin = record.origin
        proxy = Proxy.GENERIC if record.agent.kind in self._state.fenced else Proxy.ASYNC
        proxy = Proxy.TENSOR if cells.space is Space.TENSOR else proxy
        action = "writes" if record.writes else "reads"
        if record.flags & FREED:
            action = "deallocates"
        return Access(
            origin.warp, origin.cta, origin.line, origin.iteration, proxy, origin.queue,
            record.writes, bool(record.flags & ATOMIC), action,
        )  # fmt: skip


def _key(cells: Cells) -> Hashable:
    """Equal for the same columns of one CTA."""
    assert not isinstance(cells.index, slice)
    return cells.cta, int(cells.index[0]), cells.width


def _overlap(part: Part, layer: Layer, earlier: int) -> tuple[int, int, int]:
    """First and last cell, and their count, of those that an earlier access left its number in."""
    cells = part.overlap(layer, earlier)
    return int(cells.min()), int(cells.max()), int(np.unique(cells).size)

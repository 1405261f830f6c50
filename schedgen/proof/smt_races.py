"""Races as questions: can the later of two conflicting accesses begin before the earlier is done?

It is enough to ask about accesses that are next to each other in the intended order. In a role the
same step never begins earlier in a later iteration, so what is ordered before one instance of it is
ordered before all that follow; and one of two conflicting accesses is a write, which is ordered
before its own next instance by the same questions. Where a guard or an initial value leaves
instances out, the next but one are asked about, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from schedgen.findings import Claim
from schedgen.kernel import Space
from schedgen.program.model import EVERY, Fence, FenceKind, RoleProgram
from schedgen.program.operations import Engine
from schedgen.proof.smt_accesses import Touch, conflicts, same_slot, slots_of
from schedgen.proof.smt_pairs import Pair, fence_before, fences_after, needs_wait
from schedgen.proof.smt_question import Question
from schedgen.proof.smt_window import Condition, Event, Instant, Term, Window, both, condition

Instance = tuple[Touch, Touch, Event, Event, Condition]
"""Two accesses, an event of each, and when both happen."""


class Races:
    """The questions about races in one window."""

    def __init__(self, window: Window, pairs: Sequence[Pair]) -> None:
        self.window, self.program, self.pairs = window, window.program, pairs
        self.defined: list[Term] = []
        self._bounds: dict[tuple[Event, str], Term] = {}

    def questions(self) -> Iterator[Question]:
        for one, other, first, second, when in self._tiles() if self.window.jump else self._loop():
            if when is not None and first != second:
                yield self._question(one, other, first, second, when)

    # -- which instances -----------------------------------------------------------------------

    def _event(self, touch: Touch, instant: Instant) -> Event:
        return Event("at", touch.role.name, touch.number, instant)

    def _in_cell(self, touch: Touch, cell: int) -> Condition:
        runs = self.window.runs(touch.step, cell)
        return both(runs, self.window.index(cell, touch.access.initial))

    def _loop(self) -> Iterator[Instance]:
        for one, other in conflicts(self.program):
            a, b = one.access.version, other.access.version
            comparable = (a.per_tile, a.scale) == (b.per_tile, b.scale)
            if comparable and one.section == other.section == 1:
                for first, second, when in self._cells(one, other):
                    yield one, other, first, second, when

    def _cells(self, one: Touch, other: Touch) -> Iterator[tuple[Event, Event, Condition]]:
        window, per_tile = self.window, one.access.version.per_tile
        most = 1 + max(one.reach, other.reach)
        for distance in range(0 if per_tile else -window.margin, window.span + 1):
            here = window.anchor + max(-distance, 0)
            there = here + distance
            if per_tile:
                fits = distance <= most and self._tile_order(one, other, distance)
                order = window.uncut(here, there) if fits else None
            else:
                order = self._ring_order(one, other, here, distance)
            if order is not None:
                when = both(order, self._in_cell(one, here), self._in_cell(other, there))
                first = self._event(one, Instant("cell", here))
                yield first, self._event(other, Instant("cell", there)), when

    def _tile_order(self, one: Touch, other: Touch, distance: int) -> bool:
        same = same_slot(one, other, 0, slots_of(self.program, one))
        return same and (distance, *other.access.order) > (0, *one.access.order)

    def _ring_order(self, one: Touch, other: Touch, here: int, distance: int) -> Condition:
        """When ``one`` comes first by intention, with ``other`` so many iterations later."""
        slots = slots_of(self.program, one)
        a, b = one.access.version, other.access.version
        apart = b.scale * distance + b.offset - a.offset
        furthest = slots if one.plain and other.plain else 2 * slots
        if apart % slots or abs(apart) > furthest:
            return None
        clear = self.window.uncut(here, here + distance)
        if (apart, *other.access.order) > (0, *one.access.order):
            return () if distance >= 0 else clear
        if distance <= 0 or clear is None:
            return None
        return condition(self.window.no(self.window.all(clear)))

    def _tiles(self) -> Iterator[Instance]:
        """One access in tile 0, the other in the last one; and both in one tile, which events of
        that tile alone can order, so that one window is enough to ask.
        """
        jump = self.window.jump
        for pair in self.pairs:
            one, other = pair.one, pair.other
            tiles = [(0, jump)] if jump in pair.apart else []
            if jump == 1 and 0 in pair.apart:
                tiles.append((jump, jump) if other.looped else (0, 0))
            for here, there in tiles:
                for (first, when), (second, also) in product(
                    self._last(one, here), self._first(other, there)
                ):
                    yield one, other, first, second, both(when, also)

    def _last(self, touch: Touch, tile: int) -> Iterator[tuple[Event, Condition]]:
        """The accesses of a tile of which one may be the last to be done."""
        if tile == 0 and touch.looped and touch.plain and touch.engine is not Engine.COPY_IN:
            return self._in_cells(touch, tile, [self.window.split - 1])
        return self._in_tile(touch, tile)

    def _first(self, touch: Touch, tile: int) -> Iterator[tuple[Event, Condition]]:
        """The accesses of a tile of which one may be the first to begin."""
        if tile == self.window.jump and touch.looped and touch.plain:
            return self._in_cells(touch, tile, [self.window.split])
        return self._in_tile(touch, tile)

    def _in_cells(
        self, touch: Touch, tile: int, cells: Iterable[int]
    ) -> Iterator[tuple[Event, Condition]]:
        for cell in cells:
            inside = self.window.inside(tile, cell)
            if inside is not None:
                yield (
                    self._event(touch, Instant("cell", cell)),
                    both(inside, self._in_cell(touch, cell)),
                )

    def _in_tile(self, touch: Touch, tile: int) -> Iterator[tuple[Event, Condition]]:
        window = self.window
        if touch.looped:
            yield from self._in_cells(touch, tile, range(window.cells))
        else:
            kind = touch.step.guard.kind if touch.section == 1 else "tile"
            instant = Instant(kind, tile)
            runs = window.runs_in_tile(touch.step, instant)
            full = condition(window.no(window.empty[tile])) if touch.access.initial else ()
            yield self._event(touch, instant), both(runs, full)

    # -- begin and end of an access ------------------------------------------------------------

    def _question(
        self, one: Touch, other: Touch, first: Event, second: Event, when: tuple[Term, ...]
    ) -> Question:
        window = self.window
        kinds = {True: "writes", False: "reads"}
        late = kinds[other.access.write], kinds[one.access.write]
        text = (
            f"{other.operation} {late[0]} '{other.access.buffer}' in '{one.access.allocation}' "
            f"although {one.operation} still {late[1]} it"
        )
        begin, end, fences = self._span(one, other, first, second)
        formula = window.all([*when, begin < end])
        subject = (one.operation, other.operation, one.access.allocation)
        names = ", ".join(fence.value for fence in fences)
        text += f"; it needs {names} on the way" if names else ""
        detail = (other.access.buffer, other.access.write, one.access.write, fences)
        return Question(Claim.RACE, text, subject, formula, (first, second), detail)

    def _span(
        self, one: Touch, other: Touch, first: Event, second: Event
    ) -> tuple[Term, Term, tuple[FenceKind, ...]]:
        """When the later access begins at the earliest, the earlier one is done, and what orders
        them beyond barriers.
        """
        window = self.window
        same_role = one.role.name == other.role.name
        begin, end = window.time(second), window.time(first) + 1
        same_agent = same_role and one.engine is other.engine
        space = self.program.allocation[one.access.allocation].space
        if same_agent and one.engine is Engine.THREADS and space is Space.TMEM:
            (done,) = fences_after(self.program, one, other)
            end = self._bound(one.role, first, (done,), after=True)
            return begin, end, (done,)
        queued = one.engine in (Engine.THREADS, Engine.TENSOR, Engine.WGMMA)
        if same_agent and queued and not needs_wait(self.program, one, other):
            return begin, end, ()
        if one.engine.asynchronous:
            end = window.time(first._replace(kind="done"))
        fences = fences_after(self.program, one, other)
        if fences:
            end = self._bound(one.role, first, fences, after=True)
        behind = fence_before(self.program, one, other)
        if behind is not None:
            begin = self._bound(other.role, second, (behind,), after=False)
            fences = (*fences, behind)
        return begin, end, fences

    def _bound(
        self, role: RoleProgram, event: Event, kinds: tuple[FenceKind, ...], *, after: bool
    ) -> Term:
        """A time at or before the first such fences after ``event``, one after the other, or at or
        after the last one before it: free where there is none.
        """
        key = (event, " ".join(kinds))
        if key in self._bounds:
            return self._bounds[key]
        bound = self.window.z3.Int(f"bound {len(self._bounds)}", self.window.context)
        self._bounds[key] = bound
        mine = self.window.time(event)
        for line in product(*([*self._fences(role, event, kind)] for kind in kinds)):
            times = [self.window.time(fence) for fence, _ in line]
            ahead = [a < b for a, b in zip([mine, *times], times, strict=False)]
            holds = bound <= times[-1] if after else bound >= times[-1]
            order = ahead if after else [times[-1] < mine]
            runs = [term for _, when in line for term in when]
            self.defined.append(self.window.implied((*runs, *order), holds))
        return bound

    def _fences(
        self, role: RoleProgram, event: Event, kind: FenceKind
    ) -> Iterator[tuple[Event, tuple[Term, ...]]]:
        window = self.window
        near = range(window.cells)
        if event.instant.kind == "cell":
            cell, reach = event.instant.number, role.shifts + 1
            near = range(cell - reach, cell + reach + 1)
        for number, step in enumerate(role.steps):
            if step.action != Fence(kind):
                continue
            for instant in window.instants(role, number):
                if instant.kind != "cell":
                    runs = window.runs_in_tile(step, instant, surely=True)
                elif instant.number in near and step.guard.kind == EVERY.kind:
                    runs = window.runs(step, instant.number, surely=True)
                else:
                    runs = None
                if runs is not None:
                    yield Event("at", role.name, number, instant), runs

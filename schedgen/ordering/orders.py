"""Whether one event happens before another in every execution: races and phases come down to this.

What threads did becomes visible elsewhere only through fences: an access by threads to shared
memory before an asynchronous one needs the proxy fence, tensor-memory accesses need their own wait
and a fence on each side. So a way has to start at the last of the fences that follow the first
access in its role, and to end at a fence that precedes the second.

Products of a warpgroup are done one after the other, which is enough for memory. Registers that
one has as its left operand, or for its results, are its own until it is complete: another product
that needs them for something else may not even be issued before the first one was waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from schedgen.kernel import Space
from schedgen.ordering.arcs import Event
from schedgen.ordering.conflicts import Conflict, Kind
from schedgen.ordering.graph import event_graph
from schedgen.ordering.reach import Point, Reach, Span
from schedgen.program.model import Fence, FenceKind, Program, Step
from schedgen.program.operations import Engine, taken


@dataclass(frozen=True, slots=True)
class Way:
    """A proof of an order: the search and where it arrived."""

    reach: Reach
    point: Point

    def explain(self) -> tuple[str, ...]:
        return self.reach.explain(self.point)

    def events(self) -> set[int]:
        """Everything that this way goes through."""
        return {arc.dst for _, arc in self.reach.way(self.point)}


class Orders:
    """Answers questions about the order of events of one program; remembers its searches."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.graph = event_graph(program)
        self._reach: dict[tuple[int, Span], Reach] = {}
        # Far enough for any reuse of a slot, and for the next wait after that.
        slots = 1 + max(
            (ring.slots for ring in (*program.allocations, *program.barriers)), default=1
        )
        self.near = Span(0, 1, together=False)
        self.far = Span(0, slots, together=False, tiles=slots)

    def reach(self, event: int, span: Span) -> Reach:
        known = self._reach.get((event, span))
        if known is None:
            known = self._reach[event, span] = Reach(self.graph, event, span)
        return known

    def leave_out(self, events: set[int]) -> None:
        """Ignores ``events`` (waits, wait_groups or fences) from now on, and no others."""
        self.graph.without = events
        self._reach.clear()

    # -- conflicts -----------------------------------------------------------------------------

    def ordered(self, conflict: Conflict) -> list[Way] | None:
        """A way for each pair of steps that run the two operations, None if one has none."""
        ways: list[Way] = []
        for begin in self.graph.begin_of.get(conflict.before, []):
            for other in self.graph.begin_of.get(conflict.after, []):
                way = self._ordered(conflict, begin, other)
                if way is None:
                    return None
                ways.append(way)
        return ways

    def _ordered(self, conflict: Conflict, first: int, second: int) -> Way | None:
        source = self.published(conflict, first)
        if source is None:
            return None
        kind, distance = self.fence_between(conflict), conflict.distance
        ends = [(second, 0)] if kind is None else list(self._fences_before(second, kind))
        if self.awaited(conflict):
            ends = [(self.graph.issue_event(second), 0)]
        for reach in self._searches(conflict, source):
            for end, before in ends:
                point = self.find(reach, conflict.kind, distance - before, end)
                if point is not None and (kind is None or self._executed(reach, point, second)):
                    return Way(reach, point)
        return None

    def _executed(self, reach: Reach, point: Point, second: int) -> bool:
        """Whether a fence certainly is executed where it is needed, if the second access is."""
        fence = self.graph.events[point[0]]
        if fence.per_tile and not self.graph.events[second].per_tile:
            return _guard(fence)[1] <= 1 or reach.certain(point)  # the tile has an iteration
        return reach.certain(point)

    def _searches(self, conflict: Conflict, source: int) -> Iterator[Reach]:
        """What holds in whatever tiles comes first: most questions end there."""
        yield self.reach(source, self.far)
        if conflict.kind is Kind.SAME:
            distance = conflict.distance
            yield self.reach(source, Span(min(0, distance), max(0, distance)))

    def find(self, reach: Reach, kind: Kind, distance: int, event: int) -> Point | None:
        """Where the search shows ``event`` to come later, as far away as the claim says."""
        per_tile = self.graph.events[event].per_tile
        if kind is Kind.SAME:
            return reach.tile(event, 0) if per_tile else reach.near(event, distance)
        if kind is Kind.OUTER:
            return reach.tile(event, 0) if per_tile else reach.all(event, 0)
        if per_tile:
            return reach.tile(event, 1 if kind is Kind.LATER else distance)
        tiles = 1 if kind is Kind.LATER else distance
        near = None
        if not self.graph.events[reach.source].per_tile:
            near = reach.near(event, distance if kind is Kind.LATER else 1)
        return near or reach.all(event, tiles)

    # -- fences --------------------------------------------------------------------------------

    def published(self, conflict: Conflict, begin: int) -> int | None:
        """The event from which on others can rely on the first access being complete."""
        end = self.graph.end_of[begin]
        event = self.graph.events[end]
        for kinds in self.fences_after(conflict):
            found = self._following(end, event, kinds)
            if found is None:
                return None
            end, event = found, self.graph.events[found]
        return end

    def fences_after(self, conflict: Conflict) -> Iterator[tuple[FenceKind, ...]]:
        """Fences that the role of the first access has to execute after it, one after another."""
        first, second = self._engines(conflict)
        space = self.program.allocation[conflict.first.allocation].space
        if first is not Engine.THREADS or self._within_one(conflict):
            return
        if space is Space.SMEM and second.asynchronous:
            yield (FenceKind.ASYNC_PROXY,)
        if space is Space.TMEM:
            # Loads and stores are asynchronous even for the thread that issues them.
            stored = conflict.first.write
            yield (FenceKind.TMEM_STORED if stored else FenceKind.TMEM_LOADED,)
            if not self._same_threads(conflict):
                yield (FenceKind.TMEM_BEFORE,)

    def fence_between(self, conflict: Conflict) -> FenceKind | None:
        """A fence that the role of the second access needs between the two, if any."""
        first, second = self._engines(conflict)
        space = self.program.allocation[conflict.first.allocation].space
        if space is Space.REGISTERS and (first, second) == (Engine.THREADS, Engine.WGMMA):
            return FenceKind.REGISTERS
        queue = first is second is Engine.TENSOR
        if space is Space.TMEM and not queue and not self._same_threads(conflict):
            return FenceKind.TMEM_AFTER
        return None

    def awaited(self, conflict: Conflict) -> bool:
        """Whether two products share registers that both do not have as the same accumulators, so
        that the second one may be issued only when the first one is known to be complete.

        In between the compiler, which moves registers around, would have to wait itself: it then
        lets each product of the loop wait for the one before ("serialized"). PTX ISA: registers of
        a product, accumulators of another shape among them, are touched after its wait_group only.
        """
        space = self.program.allocation[conflict.first.allocation].space
        if space is not Space.REGISTERS or self._engines(conflict) != (Engine.WGMMA, Engine.WGMMA):
            return False
        one, other = (self.program.operation[n] for n in (conflict.before, conflict.after))
        return taken(one, conflict.first, other, conflict.second)

    def _engines(self, conflict: Conflict) -> tuple[Engine, Engine]:
        operation = self.program.operation
        return operation[conflict.before].engine, operation[conflict.after].engine

    def _within_one(self, conflict: Conflict) -> bool:
        """Whether one instance of an operation does both, and sees to their order itself."""
        same = conflict.before == conflict.after and conflict.kind in (Kind.SAME, Kind.OUTER)
        return same and conflict.distance == 0

    def _same_threads(self, conflict: Conflict) -> bool:
        """Whether one role's own threads do both."""
        roles = {
            self.graph.events[begin].role
            for name in (conflict.before, conflict.after)
            for begin in self.graph.begin_of.get(name, [])
        }
        return self._engines(conflict) == (Engine.THREADS, Engine.THREADS) and len(roles) == 1

    def _following(self, number: int, event: Event, kinds: tuple[FenceKind, ...]) -> int | None:
        """The next such fence after an event of its role, in the same iteration: in the same turn
        of the loop, or in a later one.
        """
        found = [
            (_shift(other), other.position, candidate)
            for candidate in self.graph.of_role[event.role]
            for other in (self.graph.events[candidate],)
            if candidate not in self.graph.without
            and other.section == event.section
            and (_shift(other), other.position) > (_shift(event), event.position)
            and _is_fence(other.step, kinds)
            and _guard(other) == _guard(event)
        ]
        return min(found)[2] if found else None

    def _fences_before(self, second: int, kind: FenceKind) -> Iterator[tuple[int, int]]:
        """Fences after which the event ``second`` comes, and by how many iterations."""
        event = self.graph.events[second]
        for candidate in self.graph.of_role[event.role]:
            other = self.graph.events[candidate]
            if candidate in self.graph.without or not _is_fence(other.step, (kind,)):
                continue
            if event.per_tile and not other.per_tile:
                continue  # a tile without iterations has no such fence
            reach = self.reach(candidate, self.near)
            if other.per_tile:
                if reach.tile(second, 0) or reach.all(second, 0):
                    yield candidate, 0
            else:
                for distance in (0, 1):
                    if reach.near(second, distance):
                        yield candidate, distance
                        break


def _is_fence(step: Step | None, kinds: tuple[FenceKind, ...]) -> bool:
    return step is not None and isinstance(step.action, Fence) and step.action.kind in kinds


def _shift(event: Event) -> int:
    return 0 if event.step is None else event.step.shift


def _guard(event: Event) -> tuple[str, int, int]:
    assert event.step is not None
    guard = event.step.guard
    return guard.kind, guard.low, guard.high

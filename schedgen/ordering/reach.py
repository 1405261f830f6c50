"""What must have happened before what: paths through the event graph, with shifts.

Points are relative to the source, which is in iteration c of tile t:

    NEAR  the loop event at iteration c + shift, in whatever tile that is
    ALL   the loop event at all iterations of tile t + shift
    TILE  the tile event at tile t + shift

Two iterations are known to be in one tile only between the two ends of a claim that says that these
are. Nothing else is assumed about trip counts, so what is found holds for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import islice

from schedgen.ordering.arcs import Arc, Form
from schedgen.ordering.events import EventGraph


class Where(IntEnum):
    NEAR = 0
    ALL = 1
    TILE = 2


Point = tuple[int, Where, int]
"""Event, where, shift."""

_AT_ONCE = 24
"""Points to look at before the question is asked again."""

_NEVER = 1 << 60
"""More than any shift."""


@dataclass(frozen=True, slots=True)
class Span:
    """Iterations c + low to c + high and tiles t to t + tiles are looked at.

    ``together``: all of these iterations exist and are in tile t.
    """

    low: int = 0
    high: int = 0
    together: bool = True
    tiles: int = 0

    @property
    def furthest(self) -> int:
        """The largest shift, of iterations or tiles."""
        return max(self.high, self.tiles, 0)


class Reach:
    """All that happens after one event, as far as a span goes; remembers on which way.

    Unless a span holds iterations together, no arc leads back to a smaller shift, so the search
    goes no further than it is asked about.
    """

    def __init__(self, graph: EventGraph, source: int, span: Span) -> None:
        self.graph = graph
        self.source = source
        self.span = span
        per_tile = graph.events[source].per_tile
        self._every = span.together
        """Whether an earlier instance does not stand for later ones: within one tile they lead to
        points that it does not show. One that may not happen never stands for others, either."""
        self._loop_source = not per_tile
        self._came: dict[Point, tuple[Point, Arc] | None] = {}
        self._least: tuple[dict[int, int], ...] = ({}, {}, {})
        """For each `Where` the least shift at which an event is known to be."""
        self._points: dict[int, list[Point]] = {}
        self._ends: dict[Point, tuple[Point, Arc]] = {}
        """Where ways ended that do not go on."""
        self._learned: dict[tuple[str, str], tuple[int, int]] = {}
        """Role and section -> the earliest turn and point at which it has learned of the source."""
        self._lowest = min(span.low, 0)
        self._waiting: list[list[Point]] = [[] for _ in range(self._lowest, span.furthest + 1)]
        """Shift -> points that are to be looked at, from the lowest shift on."""
        self._next = 0
        self._done = 0
        """The first of these lists that was not looked at yet, and how far it was."""
        start: Point = (source, Where.TILE if per_tile else Where.NEAR, 0)
        self._arrive(start, None)
        self._waiting[-self._lowest].append(start)

    def _search(self, event: int, where: Where, shift: int) -> Point | None:
        """The point that shows ``event`` to be that late. Goes on from where it stopped before."""
        found, at_once = self._shown(event, where, shift), _AT_ONCE
        furthest = self.span.furthest if self.span.together else min(shift, self.span.furthest)
        while found is None and self._next + self._lowest <= furthest:
            points = self._waiting[self._next]
            for point in islice(points, self._done, self._done + at_once):
                self._leave(point)
            self._done += at_once
            at_once *= 2  # asking again takes longer the more there is
            if self._done >= len(points):
                self._next, self._done = self._next + 1, 0
            found = self._shown(event, where, shift)
        return found

    def _leave(self, point: Point) -> None:
        """Goes on along all arcs; of an event with its instances in order the nearest will do."""
        event, where, shift = point
        graph = self.graph
        arcs = graph.arcs[event]
        if graph.without:  # what is left out learns nothing, but its role still passes by
            arcs = [arc for arc in arcs if arc.dst not in graph.without]
        if event == self.source or (graph.learns[event] and self._is_news(point)):
            arcs = arcs + graph.in_role[event]
        elif graph.learns[event]:
            arcs = arcs + graph.in_role_at_times[event]
        known, each, conditional = self._least[where], self._every, graph.conditional
        for arc in arcs:
            dst = arc.dst
            if not each and known.get(dst, _NEVER) <= shift and not conditional[dst]:
                continue
            for reached in self._along(where, shift, arc):
                if not self._arrive(reached, (point, arc)):
                    continue
                if not conditional[dst] or self.certain(reached):
                    # What is nearer than all that is looked at now turns up late; its turn is now.
                    turn = reached[2] - self._lowest
                    self._waiting[turn if turn > self._next else self._next].append(reached)

    def _is_news(self, point: Point) -> bool:
        """Whether a role learns anything there that it did not know at an earlier step.

        If it does not, only steps that do not happen in each iteration can be news.
        """
        event, where, shift = point
        role, section, step = self.graph.where[event]
        if section in {"before", "after"} or where is Where.ALL:
            return True
        # Nearest points come first, so the tiles of two first steps need no comparison.
        turn = (shift + step[0], step[1]) if where is Where.NEAR else step
        known = self._learned.get((role, section))
        if known is not None and known <= turn:
            return False
        self._learned[role, section] = turn
        return True

    def _arrive(self, point: Point, came: tuple[Point, Arc] | None) -> bool:
        """Notes a point, unless it is known or follows from one that is."""
        event, where, shift = point
        known = self._least[where]
        if known.get(event, _NEVER) <= shift:
            conditional = self.graph.conditional[event]
            if not (self._every or conditional) or point in self._came:
                return False
            if not conditional and where is not Where.NEAR:
                return False
        else:
            known[event] = shift
        self._came[point] = came
        points = self._points.get(event)
        if points is None:
            self._points[event] = [point]
        else:
            points.append(point)
        return True

    def certain(self, point: Point) -> bool:
        """Whether the event certainly happens there, so that a way can lead through it."""
        event, where, shift = point
        low, high = self.graph.margins[event]
        if not (low or high):
            return True
        inside = self.span.low <= shift - low and shift + high <= self.span.high
        return where is Where.NEAR and self.span.together and inside

    def _along(self, where: Where, shift: int, arc: Arc) -> list[Point]:
        span, then = self.span, shift + arc.shift
        if where is Where.TILE:
            if arc.form is Form.TILES:
                return [(arc.dst, Where.TILE, then)] if then <= span.tiles else []
            if arc.form is not Form.IN:
                return []
            points: list[Point] = [(arc.dst, Where.ALL, shift)]
            if shift == 0 and self._loop_source:
                ends = (span.low, span.high) if span.together else (0, 0)
                points += [(arc.dst, Where.NEAR, at) for at in range(ends[0], ends[1] + 1)]
            return points
        if where is Where.ALL:
            # A tile may have no iteration at all, so nothing beyond the same iteration follows.
            return [(arc.dst, Where.ALL, shift)] if arc.form is Form.ANY and arc.shift == 0 else []
        if arc.form is Form.ANY:
            return [(arc.dst, where, then)] if then <= span.high else []
        inside = shift == 0 or (span.together and span.low <= shift <= span.high)
        if arc.form is Form.SAME:
            if arc.in_role:
                then = max(then, span.low)  # a later instance comes later still
            near = inside and span.together and span.low <= then <= span.high
            return [(arc.dst, Where.NEAR, then)] if near else []
        if arc.form is Form.OUT and inside:
            return [(arc.dst, Where.TILE, 0)]
        return []

    def near(self, event: int, shift: int) -> Point | None:
        """The point that shows ``event`` at iteration c + shift to come later, None if none does.

        Instances of an event are in order, so an earlier one will do if it happens.
        """
        return self._search(event, Where.NEAR, shift)

    def all(self, event: int, tiles: int) -> Point | None:
        """The same for all iterations of ``event`` in tile t + tiles and the tiles after it."""
        return self._search(event, Where.ALL, tiles)

    def tile(self, event: int, tiles: int) -> Point | None:
        """The same for the tile event ``event`` of tile t + tiles."""
        return self._search(event, Where.TILE, tiles)

    def _shown(self, event: int, where: Where, shift: int) -> Point | None:
        """The same among the points that were found so far, and those where a way can only end."""
        for point in self._points.get(event, ()):
            if self._shows(point, where, shift):
                return point
        for src, arc in self.graph.last[event]:
            if src != self.source and not self.graph.learns[src]:
                continue
            for point in self._points.get(src, ()):
                if src == self.source or self.certain(point):
                    for reached in self._along(point[1], point[2], arc):
                        if self._shows(reached, where, shift):
                            self._ends.setdefault(reached, (point, arc))
                            return reached
        return None

    def _shows(self, point: Point, where: Where, shift: int) -> bool:
        """Whether a point stands for all from ``shift`` on: it is there, or earlier for certain."""
        if point[1] is not where or point[2] > shift:
            return False
        return point[2] == shift or self.certain(point)

    def way(self, point: Point) -> list[tuple[Point, Arc]]:
        """The arcs from the source to ``point``, each with the point that it starts from."""
        steps: list[tuple[Point, Arc]] = []
        came = self._came[point] if point in self._came else self._ends[point]
        while came is not None:
            steps.append(came)
            came = self._came[came[0]]
        return steps[::-1]

    def explain(self, point: Point) -> tuple[str, ...]:
        """The way to ``point`` in words, an event a line, with what orders it after the one before.

        Several steps of one role in a row are one.
        """
        lines: list[str] = []
        way = self.way(point)
        for number, (_, arc) in enumerate(way):
            following = way[number + 1][1].why if number + 1 < len(way) else None
            if not (arc.in_role and arc.why == following):
                lines.append(f"{self.graph.events[arc.dst].name} ({arc.why.text})")
        return tuple(lines)

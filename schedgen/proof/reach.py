"""What must have happened before what: paths through the event graph, with shifts.

Places are relative to the source, which is in iteration c of tile t:

    NEAR  the loop event at iteration c + shift, in whatever tile that is
    ALL   the loop event at all iterations of tile t + shift
    TILE  the tile event at tile t + shift

Two iterations are known to be in one tile only between the two ends of a claim that says that these
are. Nothing else is assumed about trip counts, so what is found holds for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from schedgen.proof.arcs import Arc, Form
from schedgen.proof.events import EventGraph


class Where(IntEnum):
    NEAR = 0
    ALL = 1
    TILE = 2


Place = tuple[int, Where, int]
"""Event, where, shift."""


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
    """All that happens after one event, as far as a span goes; remembers on which way."""

    def __init__(self, graph: EventGraph, source: int, span: Span) -> None:
        self.graph = graph
        self.source = source
        self.span = span
        per_tile = graph.events[source].per_tile
        self._loop_source = not per_tile
        self._came: dict[Place, tuple[Place, Arc] | None] = {}
        self._least: dict[tuple[int, Where], Place] = {}
        self._places: dict[int, list[Place]] = {}
        self._complete: set[int] = set()
        self._learned: dict[tuple[str, str], tuple[int, int]] = {}
        """Role and section -> the earliest turn and place at which it has learned of the source."""
        self._search((source, Where.TILE if per_tile else Where.NEAR, 0))

    def _search(self, start: Place) -> None:
        """Nearest places first; of an event whose instances are in order the nearest is enough."""
        self._arrive(start, None)
        graph, lowest = self.graph, min(self.span.low, 0)
        waiting: list[list[Place]] = [[] for _ in range(lowest, self.span.furthest + 1)]
        waiting[-lowest].append(start)
        least, without = self._least, graph.without
        for places in waiting:
            for place in places:
                event, where, shift = place
                arcs = graph.arcs[event]
                if without:  # what is left out learns nothing, but its role still passes by
                    arcs = [arc for arc in arcs if arc.dst not in without]
                if event == self.source or (graph.learns[event] and self._is_news(place)):
                    arcs = arcs + graph.in_role[event]
                elif graph.learns[event]:
                    arcs = arcs + graph.in_role_at_times[event]
                for arc in arcs:
                    known = least.get((arc.dst, where))
                    if known is not None and known[2] <= shift and not self._each(arc.dst):
                        continue
                    for reached in self._along(where, shift, arc):
                        if self._arrive(reached, (place, arc)) and self.certain(reached):
                            # A place before this one may turn up late; its turn is now.
                            waiting[max(reached[2], shift) - lowest].append(reached)

    def _is_news(self, place: Place) -> bool:
        """Whether a role learns anything there that it did not know at an earlier step.

        If it does not, only steps that do not happen in each iteration can be news.
        """
        event, where, shift = place
        role, section, step = self.graph.place_of(event)
        if section in {"before", "after"} or where is Where.ALL:
            return True
        # Nearest places come first, so the tiles of two first steps need no comparison.
        turn = (shift + step[0], step[1]) if where is Where.NEAR else step
        known = self._learned.get((role, section))
        if known is not None and known <= turn:
            return False
        self._learned[role, section] = turn
        return True

    def _arrive(self, place: Place, came: tuple[Place, Arc] | None) -> bool:
        """Notes a place, unless it is known or follows from one that is."""
        event, where, shift = place
        known = self._least.get((event, where))
        if known is not None and known[2] <= shift:
            if not self._each(event) or place in self._came:
                return False
            if not self._conditional(event) and where is not Where.NEAR:
                return False
        else:
            self._least[event, where] = place
        self._came[place] = came
        self._places.setdefault(event, []).append(place)
        return True

    def _each(self, event: int) -> bool:
        """Whether an earlier instance of an event does not stand for the later ones.

        Within one tile later instances lead on to places that earlier ones do not show, and an
        instance that does not happen shows nothing of later ones.
        """
        return self.span.together or self._conditional(event)

    def _conditional(self, event: int) -> bool:
        return self.graph.margins[event] != (0, 0)

    def _finish(self, event: int) -> None:
        """Adds the arcs by which a way can end at ``event``."""
        if event in self._complete:
            return
        self._complete.add(event)
        for src, arc in self.graph.last[event]:
            if src != self.source and not self.graph.learns[src]:
                continue
            for place in tuple(self._places.get(src, ())):
                if place[0] == self.source or self.certain(place):
                    for reached in self._along(place[1], place[2], arc):
                        self._arrive(reached, (place, arc))

    def certain(self, place: Place) -> bool:
        """Whether the event certainly happens there, so that a way can lead through it."""
        event, where, shift = place
        low, high = self.graph.margins[event]
        if (low, high) == (0, 0):
            return True
        inside = self.span.low <= shift - low and shift + high <= self.span.high
        return where is Where.NEAR and self.span.together and inside

    def _along(self, where: Where, shift: int, arc: Arc) -> list[Place]:
        span, then = self.span, shift + arc.shift
        if where is Where.TILE:
            if arc.form is Form.TILES:
                return [(arc.dst, Where.TILE, then)] if then <= span.tiles else []
            if arc.form is not Form.IN:
                return []
            places: list[Place] = [(arc.dst, Where.ALL, shift)]
            if shift == 0 and self._loop_source:
                ends = (span.low, span.high) if span.together else (0, 0)
                places += [(arc.dst, Where.NEAR, at) for at in range(ends[0], ends[1] + 1)]
            return places
        if where is Where.ALL:
            # A tile may have no iteration at all, so nothing beyond the same iteration follows.
            return [(arc.dst, Where.ALL, shift)] if arc.form is Form.ANY and arc.shift == 0 else []
        inside = shift == 0 or (span.together and span.low <= shift <= span.high)
        if arc.form is Form.ANY:
            return [(arc.dst, Where.NEAR, then)] if then <= span.high else []
        if arc.form is Form.SAME:
            if arc.in_role:
                then = max(then, span.low)  # a later instance comes later still
            near = inside and span.together and span.low <= then <= span.high
            return [(arc.dst, Where.NEAR, then)] if near else []
        if arc.form is Form.OUT and inside:
            return [(arc.dst, Where.TILE, 0)]
        return []

    def near(self, event: int, shift: int) -> Place | None:
        """The place that shows ``event`` at iteration c + shift to come later, None if none does.

        Instances of an event are in order, so an earlier one will do if it happens.
        """
        return self._by(event, Where.NEAR, shift)

    def all(self, event: int, tiles: int) -> Place | None:
        """The same for all iterations of ``event`` in tile t + tiles and the tiles after it."""
        return self._by(event, Where.ALL, tiles)

    def tile(self, event: int, tiles: int) -> Place | None:
        """The same for the tile event ``event`` of tile t + tiles."""
        return self._by(event, Where.TILE, tiles)

    def _by(self, event: int, where: Where, shift: int) -> Place | None:
        self._finish(event)
        if self._conditional(event):
            exactly = (event, where, shift)
            if exactly in self._came:
                return exactly
            places = (p for p in self._places.get(event, ()) if p[1] is where and p[2] < shift)
            return next(filter(self.certain, places), None)
        place = self._least.get((event, where))
        return None if place is None or place[2] > shift else place

    def way(self, place: Place) -> list[tuple[Place, Arc]]:
        """The arcs from the source to ``place``, each with the place that it starts from."""
        steps: list[tuple[Place, Arc]] = []
        came = self._came[place]
        while came is not None:
            steps.append(came)
            came = self._came[came[0]]
        return steps[::-1]

    def explain(self, place: Place) -> tuple[str, ...]:
        """The way to ``place`` in words, an event a line, with what orders it after the one before.

        Several steps of one role in a row are one.
        """
        lines: list[str] = []
        way = self.way(place)
        for number, (_, arc) in enumerate(way):
            following = way[number + 1][1].why if number + 1 < len(way) else ""
            if not (arc.why.startswith("order of") and arc.why == following):
                lines.append(f"{self.graph.events[arc.dst].name} ({arc.why})")
        return tuple(lines)

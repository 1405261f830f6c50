"""A tile's loop that is several loops, one behind the other: which turns each of them has.

Where one loop ends and the next one begins depends on the output tile. It is enough that these
numbers are in order, from the first turn of the loop to the trip count (`in_order`): then each turn
is in one loop. Which one that is nobody knows, so a case of trip counts is looked at for all places
where one may end: `stops` are indices into the steady turns of the case.

Numbers are linear forms over such that are 0 or more. A turn that stands for any one between the
first and the last ones is any number of turns behind a loop's beginning that is such a turn, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, pairwise

from schedgen.conform.cases import END, MIDDLE, Case, Turn
from schedgen.conform.evaluate import Linear
from schedgen.conform.minima import no_more
from schedgen.conform.terms import Term, Terms
from schedgen.conform.values import Value, exact

Stops = tuple[int, ...]
"""For each loop but the last: how many of the steady turns come before its end."""


def in_order(terms: Terms, ends: Sequence[Term], shifts: int) -> bool:
    """Whether loops that end there have each turn from ``shifts`` to the last end once."""
    *inner, last = ends
    least = terms.extreme("min", last, terms.const(shifts))
    return all(no_more(a, b) for a, b in pairwise((least, *inner, last)))


def stops(case: Case, loops: int) -> Iterator[Stops]:
    """All ways to divide the steady turns of a case among loops."""
    return combinations_with_replacement(range(len(case.steady()) + 1), loops - 1)


@dataclass(frozen=True, slots=True)
class View:
    """Numbers as they are in the turn with the index ``at`` of the steady ones; None: in none.

    ``behind``: in that turn the loop before it asks once more whether it ends.
    """

    case: Case
    stops: Stops
    at: int | None
    behind: bool = False

    @property
    def turn(self) -> Turn | None:
        """The turn in view; without any a loop that asks first is before its first one."""
        if self.at is None:
            return None
        steady = self.case.steady()
        if not steady:
            return Turn(self.case.shifts)
        return self._bound(self.at) if self.behind else steady[self.at]

    def begin(self, loop: int) -> Turn:
        """The first turn of a loop, if it has any."""
        if not self.case.steady():
            return Turn(self.case.shifts)
        return self._bound(self.stops[loop - 1] if loop else 0)

    def end(self, loop: int) -> Turn:
        """The turn before which a loop ends."""
        return self._bound(self.stops[loop]) if loop < len(self.stops) else Turn(0, END)

    def _bound(self, index: int) -> Turn:
        """The turn before which a loop ends that has those before an index: right behind the first
        ones, or right before the last ones, it is no turn between them.
        """
        steady, trips = self.case.steady(), self.case.trips
        if index == len(steady):
            return Turn(0, END) if trips is None else Turn(trips)
        turn = steady[index]
        if turn.base == MIDDLE and steady[index - 1].base != MIDDLE:
            return steady[index - 1].earlier(-1)
        return turn

    def known(self, turn: Turn) -> Value | None:
        """The number of another turn than the one in view; None if that is any number."""
        between = self.turn is not None and self.turn.base == MIDDLE
        if turn.base == MIDDLE or (turn.base == END and between):
            return None
        return self.case.number(turn)[0]

    def apart(self, later: Turn, earlier: Turn) -> Value | None:
        """By how much the turn in view, or one before it, is behind another one; None if that is
        any number.
        """
        if later.base == earlier.base and later.base != MIDDLE:
            return exact(later.offset - earlier.offset)
        if earlier.base:
            return None
        moved = Turn(later.offset - earlier.offset, later.base)
        return self.case.number(moved)[0] if later == self.turn else self.known(moved)

    # -- linear forms --------------------------------------------------------------------------

    def forms(self) -> tuple[Linear, Linear | None, list[Linear]]:
        """The trip count, the turn, and where loops end that are not the last one."""
        case = self.case
        bounds = [self._bound(index) for index in self.stops]
        if case.trips is not None:
            number = None if self.turn is None else Linear(self.turn.offset)
            return Linear(case.trips), number, [Linear(turn.offset) for turn in bounds]
        between = self._between()
        count = case.count()[1]
        if between:
            last = max(between)
            count = between[last].plus(self._rest(last))

        def form(turn: Turn, place: tuple[int, int]) -> Linear:
            if turn.base == MIDDLE:
                return between[place]
            return Linear(turn.offset) if not turn.base else count.plus(Linear(turn.offset))

        places = ((index, 0) for index in self.stops)
        ends = [form(turn, place) for turn, place in zip(bounds, places, strict=True)]
        if self.at is None or self.turn is None:
            return count, None, ends
        return count, form(self.turn, (self.at, 1)), ends

    def _between(self) -> dict[tuple[int, int], Linear]:
        """Those of `forms` that are a turn between the first and the last ones, in order: (its
        index, whether it is the one in view).
        """
        places = {(index, 0) for index in self.stops if self._bound(index).base == MIDDLE}
        if self.at is not None and self.turn is not None and self.turn.base == MIDDLE:
            places.add((self.at, 1))
        found: dict[tuple[int, int], Linear] = {}
        before: tuple[int, int] | None = None
        form = Linear(self.case.shifts + self.case.ends)
        for place in sorted(places):
            form = found[place] = form.plus(self._further(before, place, len(found)))
            before = place
        return found

    def _further(
        self, before: tuple[int, int] | None, place: tuple[int, int], number: int
    ) -> Linear:
        """By how much a turn is behind the one before it, or behind the first ones."""
        any_more = ((f"u {number}", 1),)
        if place[1]:  # at the beginning of its loop, or behind it
            at_it = self.behind and before is not None and before[0] == place[0]
            return Linear(0, () if at_it else any_more)
        if before is not None and before[1]:  # the loop ends behind the turn in view
            return Linear(1) if place[0] == before[0] + 1 else Linear(2, any_more)
        return Linear(1, any_more)

    def _rest(self, last: tuple[int, int]) -> Linear:
        """By how much the trip count is more than the last turn between."""
        fewest, any_more = self.case.ends + 1, (("v", 1),)
        end = next((i for i in self.stops if self._bound(i) == Turn(-self.case.ends, END)), None)
        if end is None or not last[1]:
            return Linear(fewest, any_more)
        return Linear(fewest) if end == last[0] + 1 else Linear(fewest + 1, any_more)

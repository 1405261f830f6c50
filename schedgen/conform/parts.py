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
        return self._turn(self.at) if self.case.steady() else Turn(self.case.shifts)

    def begin(self, loop: int) -> Turn:
        """The first turn of a loop, if it has any."""
        if not self.case.steady():
            return Turn(self.case.shifts)
        return self._turn(self.stops[loop - 1] if loop else 0)

    def end(self, loop: int) -> Turn:
        """The turn before which a loop ends."""
        return self._turn(self.stops[loop]) if loop < len(self.stops) else Turn(0, END)

    def _turn(self, index: int) -> Turn:
        steady = self.case.steady()
        if index < len(steady):
            return steady[index]
        trips = self.case.trips
        return Turn(0, END) if trips is None else Turn(trips)

    def apart(self, later: Turn, earlier: Turn) -> Value | None:
        """By how much a turn is behind another one; None if that is any number."""
        if later.base == earlier.base and later.base != MIDDLE:
            return exact(later.offset - earlier.offset)
        if earlier.base:
            return None
        if later.base == END and self.turn is not None and self.turn.base == MIDDLE:
            return None
        return self.case.number(Turn(later.offset - earlier.offset, later.base))[0]

    # -- linear forms --------------------------------------------------------------------------

    def forms(self) -> tuple[Linear, Linear | None, list[Linear]]:
        """The trip count, the turn, and where loops end that are not the last one."""
        case = self.case
        if case.trips is not None:
            count = Linear(case.trips)
            turns = [self._turn(index) for index in self.stops]
            number = None if self.turn is None else Linear(self.turn.offset)
            return count, number, [Linear(turn.offset) for turn in turns]
        between = self._between()
        count = case.count()[1]
        if between:
            last = max(between)
            rest = Linear(case.ends + 1, (("v", 1),))
            count = between[last].plus(rest)

        def form(turn: Turn, place: tuple[int, int]) -> Linear:
            if turn.base == MIDDLE:
                return between[place]
            return Linear(turn.offset) if not turn.base else count.plus(Linear(turn.offset))

        ends = [form(self._turn(index), (index, 0)) for index in self.stops]
        if self.at is None or self.turn is None:
            return count, None, ends
        return count, form(self.turn, (self.at, 1)), ends

    def _between(self) -> dict[tuple[int, int], Linear]:
        """Those of `forms` that are a turn between the first and the last ones, in order: (its
        index, whether it is the one in view).
        """
        places = [(index, 0) for index in self.stops if self._turn(index).base == MIDDLE]
        if self.at is not None and self._turn(self.at).base == MIDDLE:
            places.append((self.at, 1))
        found: dict[tuple[int, int], Linear] = {}
        before: tuple[int, int] | None = None
        form = Linear(self.case.shifts + self.case.ends)
        for place in sorted(set(places)):
            form = found[place] = form.plus(self._further(before, place, len(found)))
            before = place
        return found

    def _further(
        self, before: tuple[int, int] | None, place: tuple[int, int], number: int
    ) -> Linear:
        any_more = ((f"u {number}", 1),)
        if before is None:
            return Linear(0, any_more)
        if place[1]:  # a turn behind the beginning of its loop, or at it
            return Linear(0, () if self.behind and before[0] == place[0] else any_more)
        if before[1] and place[0] == before[0] + 1:  # the loop ends behind this turn
            return Linear(1)
        return Linear(1 + before[1], any_more)

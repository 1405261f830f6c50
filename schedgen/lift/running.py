"""Executions of all roles together, and what is wrong in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from schedgen.conform.refusal import Refusal
from schedgen.lift.breaks import least
from schedgen.lift.cells import Cells, every
from schedgen.lift.items import THREADS, Item, Role, Word
from schedgen.lift.ordered import Unordered, unordered
from schedgen.lift.roles import Threads, Traces
from schedgen.lift.simulate import Hang, Miscount, Simulation, Wrong

ENOUGH = 16
"""Iterations of the tiles that steps are made of: more than pipelines need to fill and drain."""
TILES = 3


class Race(Wrong):
    """Accesses that nothing orders in an execution."""

    def __init__(self, found: Unordered, trips: tuple[int, ...]) -> None:
        super().__init__("a race")
        self.found, self.trips = found, trips
        self.at = found.second[1].instruction


@dataclass
class Run:
    """All roles for some trip counts."""

    trips: tuple[int, ...]
    traces: Traces
    roles: list[Role]
    counts: dict[Word, int]
    skipped: frozenset[Word]
    cells: Cells
    simulation: Simulation

    def before(self, tile: int) -> int:
        """Iterations of the tiles before one."""
        return sum(self.trips[:tile])


def run(
    threads: Threads, trips: Sequence[int], cells: Cells | None = None, at: Sequence[int] = ()
) -> Run:
    """Executes all roles; ``cells`` are those of an execution that uses all of them. Loops divide
    each tile ``at`` these numbers, or in front of it.

    Raises:
        Refusal: something is not known. Hang, Miscount: the kernel is wrong.
    """
    traces = Traces(threads, trips, at or [least(term) or 0 for term in threads.breaks])
    roles = traces.roles()
    if not roles:
        raise Refusal("no warp waits for a barrier, copies in bulk or multiplies")
    counts, skipped = _counts(traces, roles)
    cells = cells or Cells(roles)
    cells.divide(roles)
    simulation = Simulation(roles, counts, cells, skipped)
    try:
        simulation.run()
    except (Hang, Miscount) as error:
        error.trips = tuple(trips)
        raise
    found = Run(tuple(trips), traces, roles, counts, skipped, cells, simulation)
    _once_each(found)
    return found


def _counts(traces: Traces, roles: Sequence[Role]) -> tuple[dict[Word, int], frozenset[Word]]:
    """What each barrier takes, and those whose first phase is complete before the roles begin."""
    found: dict[Word, int] = {}
    skipped: set[Word] = set()
    for warp in traces.found:
        for event in traces.setup(warp):
            word = "mbarrier", event.word or 0
            if event.kind == "init":
                if word in found or event.lanes != 1:
                    raise Refusal("an mbarrier is initialized more than once", event.instruction)
                found[word] = event.value or 0
            elif event.kind == "arrive":
                whole = (event.value or 0) * event.lanes == found.get(word)
                if word in skipped or not whole:
                    raise Refusal("an arrival before the roles that is no phase", event.instruction)
                skipped.add(word)
    for role in roles:
        for item in every(role):
            if item.word is None or item.word[0] == "mbarrier":
                continue
            if item.word[0] == "copies":
                found[item.word] = 1
                continue
            word = item.word
            beside = {one.beside for r in roles if r.beside for one in _at(r, word)}
            if len(beside) > 1:
                text = "a warp meets its warpgroup and others at one barrier"
                raise Refusal(text, item.instruction)
            meeting = [r for r in roles if r.beside and any(one.beside for one in _at(r, word))]
            found[word] = word[1] % THREADS + 32 * len(meeting)
    return found, frozenset(skipped)


def _at(role: Role, word: Word) -> list[Item]:
    """Arrivals of a role at a barrier."""
    return [item for item in every(role) if item.word == word and item.kind == "arrive"]


def _once_each(found: Run) -> None:
    """A numbered barrier that takes different numbers of threads is used once with each: then its
    phases are barriers of their own."""
    words = [word for word in found.counts if word[0] == "bar"]
    numbers = [word[1] // THREADS for word in words]
    for word, number in zip(words, numbers, strict=True):
        if numbers.count(number) > 1 and found.simulation.states[word].phase > 1:
            one = next(item for role in found.roles for item in _at(role, word))
            text = "a numbered barrier that takes one number of threads, then another, again"
            raise Refusal(text, one.instruction)


def race(threads: Threads, cells: Cells) -> Race | None:
    """A race in an execution of some small trip counts, or of ones that fill a pipeline; that loops
    do not divide, or in the middle.
    """
    places = [(), tuple(1 for _ in threads.breaks)]
    for trips, at in product((1, 2, 3, ENOUGH), places[: 1 + len(threads.breaks)]):
        found = _raced(threads, (trips,) * TILES, cells, [trips // 2 * part for part in at])
        if found is not None:
            return found
    return None


def _raced(
    threads: Threads, trips: tuple[int, ...], cells: Cells | None, at: Sequence[int]
) -> Race | None:
    one = run(threads, trips, cells, at)
    found = unordered(one.roles, one.simulation.order, one.cells)
    return None if found is None else Race(found, trips)


def for_certain(threads: Threads, wrong: Wrong, cells: Cells | None) -> bool:
    """Whether it goes wrong for these trip counts wherever loops divide them. One place may be none
    that data ever says.
    """
    lowest = [least(term) for term in threads.breaks]
    end = max(wrong.trips) + ENOUGH
    for at in product(*(range(-ENOUGH if low is None else low, end) for low in lowest)):
        try:
            if _raced(threads, wrong.trips, cells, at) is None:
                return False
        except (Hang, Miscount):
            continue
        except Refusal:
            return False
    return True

"""A window of an endless execution, with every event's time and every boundary between tiles free.

A window has a few *cells*: neighbouring iterations, counted over all tiles. ``cut[j]`` says whether
a tile begins at cell j, so one window stands for all trip counts. Tile 0 contains the anchor, the
cell of the earlier of two events that a question is about. There are two shapes:

* ``jump = 0``: cells in a row, cut anywhere. For questions about iterations a few cells apart.
* ``jump = k``: the last cells of tile 0, then the first cells of tile k. The tiles between have any
  number of iterations; they are known by their first and last iteration only. Each tile may be
  empty. For questions about tiles.

Every edge says what must have happened before. Edges to events outside the window are left out. To
leave out edges only adds executions, so what no execution of the window violates, none does at all.
Role order and barriers lead from earlier tiles to later ones (a wait for a later tile is found
elsewhere), so no edge outside of tiles 0 to k could order an event of tile 0 before one of tile k.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from schedgen.program.model import Program, RoleProgram, Step, When

# A Z3 expression, a number or a truth value: z3 has no type stubs.
Term = Any
# What must hold for something to happen, all of it; None: it never does.
Condition = tuple[Term, ...] | None


class Instant(NamedTuple):
    """Where a step is executed: in a ``cell`` of the window, in the ``first`` or the ``last``
    iteration of a tile, or outside of its loop, in the ``tile``.
    """

    kind: str
    number: int


class Event(NamedTuple):
    """What has a time: a step is executed (``at``), a wait begins (``poll``), an asynchronous
    operation or a commit is complete (``done``), all before a commit is (``mark``); the loop begins
    (``in``) and ends (``out``).
    """

    kind: str
    role: str
    step: int
    instant: Instant


@dataclass(frozen=True, slots=True)
class Edge:
    """``later`` happens at least ``gap`` after ``earlier`` if all of ``when`` holds."""

    earlier: Event
    later: Event
    gap: int = 1
    when: tuple[Term, ...] = ()


class Window:
    """The cells, the tiles and the events; `smt_order` adds the edges."""

    def __init__(self, program: Program, *, margin: int, span: int, jump: int = 0) -> None:
        import z3

        self.z3: Any = z3
        self.context: Any = z3.Context()
        self.program, self.jump, self.margin, self.span = program, jump, margin, span
        self.anchor = margin
        self.split = margin + 1 if jump else 0
        self.cells = 2 * (margin + 1) if jump else 2 * margin + span + 1
        self.tiles = jump + 1 if jump else self.cells - self.anchor
        self.edges: list[Edge] = []
        self.same: list[tuple[Event, Event, tuple[Term, ...]]] = []
        self.given: list[Term] = []
        self.times: dict[Event, Term] = {}
        self._negated: dict[int, tuple[Term, Term]] = {}
        """Z3's number of a term -> the term, to keep that number taken, and its negation."""
        self.cut: list[Term] = [self._bool(f"cut {j}") for j in range(self.cells + 1)]
        self.empty: list[Term] = [False] * self.tiles
        if jump:
            self.cut[self.split] = True
            self.empty = [self._bool(f"empty {t}") for t in range(self.tiles)]
        self._inside = self._membership()

    def _bool(self, name: str) -> Term:
        return self.z3.Bool(name, self.context)

    def all(self, terms: Iterable[Term]) -> Term:
        """Their conjunction."""
        terms = [term for term in terms if term is not True]
        if len(terms) > 1:
            return self._joined(self.z3.Z3_mk_and, terms)
        return terms[0] if terms else self.true

    def any(self, terms: Iterable[Term]) -> Term:
        """Their disjunction."""
        terms = list(terms)
        if len(terms) > 1:
            return self._joined(self.z3.Z3_mk_or, terms)
        return terms[0] if terms else self.z3.BoolVal(False, self.context)

    def _joined(self, make: Any, terms: list[Term]) -> Term:
        """What ``z3.And`` and ``z3.Or`` do, less their look at the sort and context of each term,
        which took most of the time of a proof.
        """
        array = (self.z3.Ast * len(terms))(*(term.as_ast() for term in terms))
        return self.z3.BoolRef(make(self.context.ref(), len(terms), array), self.context)

    @property
    def true(self) -> Term:
        return self.z3.BoolVal(True, self.context)

    def no(self, term: Term) -> Term:
        """Its negation; each is made once, because making terms is most of the time."""
        if isinstance(term, bool):
            return not term
        key = term.get_id()
        if key not in self._negated:
            self._negated[key] = term, self.z3.Not(term)
        return self._negated[key][1]

    # -- tiles ---------------------------------------------------------------------------------

    def _membership(self) -> dict[tuple[int, int], Term]:
        """For each tile and cell whether the cell belongs to the tile, where that is possible."""
        inside: dict[tuple[int, int], Term] = {}
        for j in range(self.anchor, -1, -1):
            clear = self.uncut(j, self.anchor)
            if clear is not None:
                inside[0, j] = self._named(f"0 has {j}", (*clear, self.no(self.empty[0])))
        if self.jump:
            for j in range(self.split, self.cells):
                clear = self.uncut(self.split, j)
                if clear is not None:
                    full = self.no(self.empty[self.jump])
                    inside[self.jump, j] = self._named(f"{self.jump} has {j}", (*clear, full))
            return inside
        for j in range(self.anchor + 1, self.cells):
            for tile in range(j - self.anchor + 1):
                stay = inside.get((tile, j - 1), False)
                came = inside.get((tile - 1, j - 1), False)
                ways = [(stay, self.no(self.cut[j])), (came, self.cut[j])]
                either = self.any(self.all(way) for way in ways if way[0] is not False)
                inside[tile, j] = self._named(f"{tile} has {j}", (either,))
        return inside

    def _named(self, name: str, terms: tuple[Term, ...]) -> Term:
        literal = self._bool(name)
        self.given.append(literal == self.all(terms))
        return literal

    def inside(self, tile: int, cell: int) -> Condition:
        """That the cell belongs to the tile."""
        literal = self._inside.get((tile, cell))
        return None if literal is None else (literal,)

    def starts(self, tile: int, cell: int) -> Condition:
        """That the cell is the first of the tile."""
        return both(self.inside(tile, cell), condition(self.cut[cell]))

    def ends(self, tile: int, cell: int) -> Condition:
        """That the cell is the last of the tile."""
        return both(self.inside(tile, cell), condition(self.cut[cell + 1]))

    def uncut(self, first: int, last: int) -> Condition:
        """That the cells from ``first`` to ``last`` belong to one tile."""
        terms = [self.no(self.cut[j]) for j in range(min(first, last) + 1, max(first, last) + 1)]
        return condition(*terms)

    def counted(self, one: int, other: int) -> bool:
        """Whether it is known how many iterations lie between two cells."""
        return self.jump <= 1 or (one < self.split) == (other < self.split)

    # -- guards --------------------------------------------------------------------------------

    def _at_least(self, cells: list[int], surely: bool) -> Condition:
        """No cut at ``cells``; what lies outside of the window may be either way."""
        known = [j for j in cells if 0 <= j <= self.cells]
        if surely and len(known) < len(cells):
            return None
        return condition(*(self.no(self.cut[j]) for j in known))

    def index(self, cell: int, low: int, *, surely: bool = False) -> Condition:
        """That ``low`` or more iterations of its tile come before the cell."""
        return self._at_least([cell - n for n in range(low)], surely)

    def runs(self, step: Step, cell: int, *, surely: bool = False) -> Condition:
        """That a step of the loop runs in this cell; in doubt it does, unless ``surely``."""
        guard = step.guard
        if guard.kind is When.EVERY:
            rest = self._at_least([cell + 1 + n for n in range(guard.high)], surely)
            return both(self.index(cell, guard.low, surely=surely), rest)
        more = range(max(guard.low - 1, 0))
        if guard.kind is When.FIRST:
            rest = self._at_least([cell + 1 + n for n in more], surely)
            return both(condition(self.cut[cell]), rest)
        return both(condition(self.cut[cell + 1]), self._at_least([cell - n for n in more], surely))

    def runs_in_tile(self, step: Step, instant: Instant, *, surely: bool = False) -> Condition:
        """That a step runs outside of the loop, or in the first or last iteration of a tile."""
        if instant.kind == "tile":
            return ()
        guard, full = step.guard, condition(self.no(self.empty[instant.number]))
        if guard.kind is When.EVERY:
            return full if not guard.low and not guard.high else None
        if guard.kind != instant.kind:
            return None
        if guard.low == 0:
            return ()
        return None if surely and guard.low > 1 else full

    # -- events --------------------------------------------------------------------------------

    def time(self, event: Event) -> Term:
        """When ``event`` happens."""
        if event not in self.times:
            self.times[event] = self.z3.Int(f"t{len(self.times)}", self.context)
        return self.times[event]

    def edge(self, earlier: Event, later: Event, gap: int, *conditions: Condition) -> None:
        """``earlier`` must happen before ``later``, if all conditions hold."""
        when = both(*conditions)
        if when is not None:
            self.edges.append(Edge(earlier, later, gap, when))

    def assertions(self) -> Iterator[Term]:
        """The meaning of the booleans, and all edges as differences of times."""
        yield from self.given
        for edge in self.edges:
            holds = self.time(edge.later) - self.time(edge.earlier) >= edge.gap
            yield self.implied(edge.when, holds)
        for one, other, when in self.same:
            difference = self.time(one) - self.time(other)
            yield self.implied(when, difference >= 0)
            yield self.implied(when, difference <= 0)

    def implied(self, when: tuple[Term, ...], holds: Term) -> Term:
        return self.any([*(self.no(term) for term in when), holds])

    def instants(self, role: RoleProgram, number: int) -> Iterator[Instant]:
        """All instants of a step in this window."""
        if number < len(role.before) or number >= len(role.before) + len(role.loop):
            yield from (Instant("tile", tile) for tile in range(self.tiles))
            return
        yield from (Instant("cell", cell) for cell in range(self.cells))
        kind = role.steps[number].guard.kind
        for end in ("first", "last"):
            if self.jump or kind == end:
                yield from (Instant(end, tile) for tile in range(self.tiles))


def condition(*terms: Term) -> Condition:
    """All ``terms``, of which some may be plain truth values."""
    if any(term is False for term in terms):
        return None
    return tuple(term for term in terms if term is not True)


def both(*conditions: Condition) -> Condition:
    """All that the conditions ask for."""
    terms: list[Term] = []
    for one in conditions:
        if one is None:
            return None
        terms.extend(one)
    return tuple(terms)

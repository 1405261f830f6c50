"""Which terms of a role are the program's numbers: the tile, its iterations, those of earlier ones.

The number of the tile is what grows by one in each turn of the loop over tiles, from 0; of teams
that take tiles in turn, from the number of the team, by how many there are. The trip count is what
the loop of a tile compares its turns with; all roles have to agree on it, with the output tile that
a block is at written alike. Iterations of earlier tiles are the product of both, or a sum of trip
counts over tiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from schedgen.conform.closed import Closed
from schedgen.conform.induction import ALONE, Team, tile_symbols
from schedgen.conform.minima import positive
from schedgen.conform.refusal import Refusal
from schedgen.conform.skeleton import Exit, Loop
from schedgen.conform.terms import Term, Terms, addends, operands
from schedgen.conform.trace import Numbers

TILE = "output tile"
"""The symbol for the output tile that a block is at."""


def ends(closed: Closed, loops: Sequence[Loop]) -> tuple[Term, ...]:
    """Where each of consecutive loops ends, as the number of a turn, counted through all of them;
    the last one ends with the trip count.
    """
    found: list[Term] = []
    for loop in loops:
        turns = _turns(closed, loop)
        if found:
            found[-1] = _alike(found[-1], turns)
            turns[found[-1]] = turns.get(found[-1], 0) + 1
        left = [(term, factor) for term, factor in turns.items() if factor]
        if len(left) != 1 or left[0][1] != 1:
            raise Refusal("how often this loop turns is not known", loop.instruction)
        found.append(left[0][0])
    return tuple(found)


def _alike(end: Term, begins: Iterable[Term]) -> Term:
    """Where a loop begins: at the end of the one before, but that may say, or leave out, that it is
    behind the turns in front of it.
    """
    bare = without_least(end)
    return next((term for term in begins if without_least(term) is bare), end)


def _turns(closed: Closed, loop: Loop) -> dict[Term, int]:
    """How often a loop turns: terms with factors, the sum of which it is but for a constant.

    That it ends there, and not before or behind, is asked in each case of trip counts.
    """
    exits = [item for item in loop.body if isinstance(item, Exit)]
    condition = exits[0].condition if len(exits) == 1 else None
    if condition is not None and condition.op == "not":
        (condition,) = condition.parts
    if condition is None or condition.op not in ("eq", "lt", "le"):
        raise Refusal("how often this loop turns is not known", loop.instruction)
    (difference,) = condition.parts
    _, pairs = addends(difference)
    others: dict[Term, int] = {}
    turns = 0
    for term, factor in pairs:
        step, found = closed.step(term), closed.carried(term)
        if found is None or found[0] is not loop or step is None:
            others[term] = others.get(term, 0) + factor
            continue
        turns += factor * step
        for one, times in addends(found[1].entry)[1]:
            others[one] = others.get(one, 0) + factor * times
    if abs(turns) != 1:
        raise Refusal("how often this loop turns is not known", loop.instruction)
    return {term: -factor * turns for term, factor in others.items()}


def without_least(count: Term, most: int = 1 << 31) -> Term:
    """A trip count without what says that it is ``most`` at least, or less.

    Every tile has one iteration; a loop behind turns that fill the pipeline may count from theirs.
    Whether it ends behind the last turn is asked in each case of trip counts.
    """
    if count.op == "max":
        for least, other in (count.parts, count.parts[::-1]):
            if least.number is not None and least.number <= most and other.number is None:
                return other
    return count


def without_more(count: Term, terms: Terms) -> Term:
    """A trip count without what says that it is more than 1 at least, as a loop behind turns that
    fill the pipeline counts from theirs; or 1, where that is known anyway.
    """
    leaves = operands("max", count)
    known = any(leaf.number is None and positive(leaf) for leaf in leaves)
    kept = [leaf for leaf in leaves if leaf.number is None or (leaf.number <= 1 and not known)]
    return reduce(lambda a, b: terms.extreme("max", a, b), kept) if kept else count


def output_tile(tiles: Loop, terms: Terms, team: Team = ALONE) -> dict[Term, Term]:
    """Registers that hold the output tile, and what it is called in terms of all roles."""
    return {symbol: terms.symbol(TILE) for symbol in tile_symbols(tiles, terms, team)}


def numbers_of(
    terms: Terms,
    tiles: Loop,
    count: Term | None,
    parts: Sequence[tuple[Loop, Term]] = (),
    team: Team = ALONE,
) -> Numbers:
    """The numbers of a role, given its trip count. ``parts``: loops of a tile, and their ends."""
    first, others = terms.const(team.number), ()
    if count is not None:
        others = (terms.sum(((count, team.number),)), terms.sum(((count, team.teams),)))
    tile: list[Term] = []
    earlier: list[Term] = []
    for symbol, carried in tiles.carried.items():
        step = terms.sum(((carried.update, 1), (symbol, -1)))
        if carried.entry is first and step.number == team.teams:
            tile.append(symbol)
        elif (carried.entry, step) == others:
            earlier.append(symbol)
    if count is not None:
        earlier += [terms.product(count, symbol) for symbol in tile]
    return Numbers(count, tuple(earlier), tuple(tile), tuple(parts))

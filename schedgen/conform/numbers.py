"""Which terms of a role are the program's numbers: the tile, its iterations, those of earlier ones.

The number of the tile is what grows by one in each turn of the loop over tiles, from 0. The trip
count is what the loop of a tile compares its turns with; all roles have to agree on it, with the
output tile that a block is at written alike. Iterations of earlier tiles are the product of both,
or a sum of trip counts over tiles.
"""

from __future__ import annotations

from functools import reduce

from schedgen.conform.closed import Closed
from schedgen.conform.induction import tile_symbols
from schedgen.conform.minima import positive
from schedgen.conform.refusal import Refusal
from schedgen.conform.skeleton import Exit, Loop
from schedgen.conform.terms import Term, Terms, addends, operands
from schedgen.conform.trace import Numbers

TILE = "output tile"
"""The symbol for the output tile that a block is at."""


def trip_count(closed: Closed, loop: Loop, terms: Terms | None = None) -> Term:
    """What the number of turns of a loop depends on: one term, with the factor 1. Given ``terms``
    it keeps what says that it is 1 at least, where it may be less otherwise.
    """
    exits = [item for item in loop.body if isinstance(item, Exit)]
    if len(exits) != 1 or exits[0].condition.op != "eq":
        raise Refusal("how often this loop turns is not known", loop.instruction)
    (difference,) = exits[0].condition.parts
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
    left = [(term, factor) for term, factor in others.items() if factor]
    if len(left) != 1 or left[0][1] != -turns or abs(turns) != 1:
        raise Refusal("how often this loop turns is not known", loop.instruction)
    return without_least(left[0][0], 1) if terms is None else without_more(left[0][0], terms)


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


def output_tile(tiles: Loop, terms: Terms) -> dict[Term, Term]:
    """Registers that hold the output tile, and what it is called in terms of all roles."""
    return {symbol: terms.symbol(TILE) for symbol in tile_symbols(tiles, terms)}


def numbers_of(terms: Terms, tiles: Loop, count: Term | None) -> Numbers:
    """The numbers of a role, given its trip count."""
    zero = terms.const(0)
    tile: list[Term] = []
    earlier: list[Term] = []
    for symbol, carried in tiles.carried.items():
        if carried.entry is not zero:
            continue
        if carried.update is terms.sum(((symbol, 1),), 1):
            tile.append(symbol)
        elif count is not None and carried.update is terms.sum(((symbol, 1), (count, 1))):
            earlier.append(symbol)
    if count is not None:
        earlier += [terms.product(count, symbol) for symbol in tile]
    return Numbers(count, tuple(earlier), tuple(tile))

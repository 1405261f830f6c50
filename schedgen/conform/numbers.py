"""Which terms of a role are the program's numbers: the tile, its iterations, those of earlier ones.

The number of the tile is what grows by one in each turn of the loop over tiles, from 0. The trip
count is what the loop of a tile compares its turns with; all roles have to agree on it, with the
output tile that a block is at written alike. Iterations of earlier tiles are the product of both,
or a sum of trip counts over tiles.
"""

from __future__ import annotations

from collections.abc import Mapping

from schedgen.conform.closed import Closed
from schedgen.conform.refusal import Refusal
from schedgen.conform.skeleton import Branch, Exit, Items, Loop
from schedgen.conform.terms import Term, Terms, addends, below
from schedgen.conform.trace import Numbers

TILE = "output tile"
"""The symbol for the output tile that a block is at."""


def main_loops(items: Items) -> list[Loop]:
    """Loops directly within a tile."""
    found: list[Loop] = []
    for item in items:
        if isinstance(item, Loop):
            found.append(item)
        elif isinstance(item, Branch):
            found += main_loops(item.yes) + main_loops(item.no)
    return found


def trip_count(closed: Closed, loop: Loop) -> Term:
    """What the number of turns of a loop depends on: one term, with the factor 1."""
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
    return _positive(left[0][0])


def _positive(count: Term) -> Term:
    """A trip count without what says that it is 1 at least, which every tile's is."""
    if count.op == "max":
        for least, other in (count.parts, count.parts[::-1]):
            if least.number is not None and least.number <= 1 and other.number is None:
                return other
    return count


def output_tile(tiles: Loop, terms: Terms) -> dict[Term, Term]:
    """Registers that hold the output tile: the block's number and all blocks more in each turn."""
    block, blocks = terms.symbol("%ctaid.x"), terms.symbol("%nctaid.x")
    return {
        symbol: terms.symbol(TILE)
        for symbol, carried in tiles.carried.items()
        if carried.entry is block and carried.update is terms.sum(((symbol, 1), (blocks, 1)))
    }


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


def written_with(terms: Terms, term: Term, names: Mapping[Term, Term]) -> Term:
    """A term with some of its symbols replaced."""
    if not any(leaf in names for leaf in below(term)):
        return term
    if term in names:
        return names[term]
    if term.op == "sum":
        constant, pairs = addends(term)
        return terms.sum(((written_with(terms, t, names), f) for t, f in pairs), constant)
    inner = [written_with(terms, arg, names) if isinstance(arg, Term) else arg for arg in term.args]
    return terms.make(term.op, *inner)

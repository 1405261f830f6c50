"""Registers that a compiler counts with instead of multiplying: ``a x + c`` beside ``x`` itself.

A loop over output tiles that needs ``2 x + 2`` for the tile ``x`` may carry that along, two times
the number of blocks more in each turn. Roles that do so say the same in other terms; all of them
are written with ``x`` here.
"""

from __future__ import annotations

from collections.abc import Mapping

from schedgen.conform.skeleton import Action, Branch, Carried, Exit, Item, Items, Loop, outer_loops
from schedgen.conform.terms import Term, Terms, addends


class Written:
    """Terms with some of their symbols replaced by other terms."""

    def __init__(self, terms: Terms, names: Mapping[Term, Term]) -> None:
        self.terms, self._known = terms, dict(names)

    def term(self, term: Term) -> Term:
        """A term, in the form that it would have been made in."""
        found = self._known.get(term)
        if found is None:
            parts = term.parts
            new = [self.term(part) for part in parts]
            same = all(a is b for a, b in zip(parts, new, strict=True))
            found = self._known[term] = term if same else self.terms.again(term, new)
        return found

    def items(self, items: Items) -> Items:
        """A skeleton."""
        return tuple(self._item(item) for item in items)

    def _item(self, item: Item) -> Item:
        match item:
            case Action(kind, instruction, address, values):
                at = None if address is None else self.term(address)
                return Action(kind, instruction, at, tuple(map(self.term, values)))
            case Branch(condition, yes, no, instruction):
                arms = self.items(yes), self.items(no)
                return Branch(self.term(condition), *arms, instruction)
            case Exit(condition, instruction):
                return Exit(self.term(condition), instruction)
            case Loop(number, carried, body, instruction):
                kept = {
                    symbol: Carried(one.register, self.term(one.entry), self.term(one.update))
                    for symbol, one in carried.items()
                }
                return Loop(number, kept, self.items(body), instruction)


def tile_symbols(tiles: Loop, terms: Terms) -> list[Term]:
    """Registers that hold the output tile: the block's number and all blocks more in each turn."""
    block, blocks = terms.symbol("%ctaid.x"), terms.symbol("%nctaid.x")
    return [
        symbol
        for symbol, carried in tiles.carried.items()
        if carried.entry is block and carried.update is terms.sum(((symbol, 1), (blocks, 1)))
    ]


def reduced(items: Items, terms: Terms) -> Items:
    """A skeleton without registers that are a multiple of the output tile and a constant more."""
    names: dict[Term, Term] = {}
    for loop in outer_loops(items):
        for symbol in tile_symbols(loop, terms)[:1]:
            names |= _multiples(loop, symbol, terms)
    return Written(terms, names).items(items) if names else items


def _multiples(loop: Loop, tile: Term, terms: Terms) -> dict[Term, Term]:
    """What is ``a x + c`` before the first turn, and grows by ``a`` times what ``x`` grows by."""
    block, blocks = terms.symbol("%ctaid.x"), terms.symbol("%nctaid.x")
    found: dict[Term, Term] = {}
    for symbol, carried in loop.carried.items():
        constant, pairs = addends(carried.entry)
        if symbol is tile or len(pairs) != 1 or pairs[0][0] is not block:
            continue
        factor = pairs[0][1]
        if carried.update is terms.sum(((symbol, 1), (blocks, factor))):
            found[symbol] = terms.sum(((tile, factor),), constant)
    return found

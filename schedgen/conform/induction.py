"""Registers that a compiler counts with instead of multiplying: ``a x + c`` beside ``x`` itself.

A loop over output tiles that needs ``2 x + 2`` for the tile ``x`` may carry that along, two times
the number of blocks more in each turn. Roles that do so say the same in other terms; all of them
are written with ``x`` here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schedgen.conform.claimed import told
from schedgen.conform.evaluate import Environment
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

    def all(self, named: Mapping[str, Term]) -> dict[str, Term]:
        """Each of some terms with names."""
        return {name: self.term(term) for name, term in named.items()}

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


@dataclass(frozen=True, slots=True)
class Team:
    """The tiles that warps compute: of ``teams`` teams that take them in turn, those of one."""

    number: int = 0
    teams: int = 1


ALONE = Team()


def tile_symbols(tiles: Loop, terms: Terms, team: Team = ALONE) -> list[Term]:
    """Registers that hold the output tile: the block's number, and all blocks more for each tile of
    the block, or what it was told.
    """
    block, blocks = terms.symbol("%ctaid.x"), terms.symbol("%nctaid.x")
    first = terms.sum(((block, 1), (blocks, team.number)))
    return [
        symbol
        for symbol, carried in tiles.carried.items()
        if carried.entry is first
        and (
            carried.update is terms.sum(((symbol, 1), (blocks, team.teams)))
            or told(carried.update) is not None
        )
    ]


def reduced(items: Items, terms: Terms, team: Team = ALONE) -> Items:
    """A skeleton without registers that are a multiple of the output tile and a constant more."""
    names: dict[Term, Term] = {}
    for loop in outer_loops(items):
        for symbol in tile_symbols(loop, terms, team)[:1]:
            names |= _found(loop, symbol, terms) | _multiples(loop, symbol, terms)
    return Written(terms, names).items(items) if names else items


def _found(loop: Loop, tile: Term, terms: Terms) -> dict[Term, Term]:
    """What is found from ``x`` before the first turn, and in the same way from the next ``x`` at
    the end of each: the place of a tile, where blocks change these from round to round.
    """
    first, found = loop.carried[tile], dict[Term, Term]()
    later, now = (Written(terms, {first.entry: x}) for x in (first.update, tile))
    for symbol, carried in loop.carried.items():
        entry = carried.entry
        if symbol is not tile and entry.parts and later.term(entry) is carried.update:
            found[symbol] = now.term(entry)
    return found


def settled(items: Items, terms: Terms, threads: Environment) -> Items:
    """A skeleton in which loops begin with constants instead of the number of a warp, where that is
    the same for all ``threads``: which team of several they are.
    """
    names: dict[Term, Term] = {}
    for loop in outer_loops(items):
        for carried in loop.carried.values():
            names |= _constants(carried.entry, terms, threads)
    return Written(terms, names).items(items) if names else items


def _constants(term: Term, terms: Terms, threads: Environment) -> dict[Term, Term]:
    if term.number is not None:
        return {}
    value = threads.value(term)
    if value is not None and value.plain and len({*value.array.flat}) == 1:
        return {term: terms.const(int(value.array.flat[0]))}
    found: dict[Term, Term] = {}
    for part in term.parts:
        found |= _constants(part, terms, threads)
    return found


def _multiples(loop: Loop, tile: Term, terms: Terms) -> dict[Term, Term]:
    """What is ``a x + c`` before the first turn, and grows by ``a`` times what ``x`` grows by."""
    first = loop.carried[tile]
    ((_, more),) = ((t, f) for t, f in addends(first.update)[1] if t is not tile)
    begin = addends(first.entry)[1]
    block, blocks = terms.symbol("%ctaid.x"), terms.symbol("%nctaid.x")
    found: dict[Term, Term] = {}
    for symbol, carried in loop.carried.items():
        constant, pairs = addends(carried.entry)
        factor = dict(pairs).get(block, 0)
        if symbol is tile or not factor or dict(pairs) != {t: factor * f for t, f in begin}:
            continue
        if carried.update is terms.sum(((symbol, 1), (blocks, factor * more))):
            found[symbol] = terms.sum(((tile, factor),), constant)
    return found

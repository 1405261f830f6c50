"""Output tiles that a block leaves out: those that begin behind the elements there are.

A program is about the tiles that are computed, one after the other, and its numbers count those. So
the loop over tiles is looked at for a tile that is computed, once it is known that its whole body
is under one condition and that numbers stay as they are where that does not hold. All roles have to
agree on the condition.
"""

from __future__ import annotations

from collections.abc import Callable

from schedgen.conform.induction import Written, tile_symbols
from schedgen.conform.refusal import Refusal
from schedgen.conform.skeleton import Branch, Carried, Exit, Item, Items, Loop, outer_loops
from schedgen.conform.terms import Term, Terms


def with_computed(items: Items, change: Callable[[Loop], Loop]) -> Items:
    """A skeleton with its outermost loops changed."""

    def one(item: Item) -> Item:
        match item:
            case Loop():
                return change(item)
            case Branch(condition, yes, no, instruction) if outer_loops((item,)):
                arms = with_computed(yes, change), with_computed(no, change)
                return Branch(condition, *arms, instruction)
            case _:
                return item

    return tuple(one(item) for item in items)


def computed(tiles: Loop, terms: Terms) -> tuple[Loop, Term]:
    """The loop over tiles as it is for a tile that is computed, and the condition for that.

    Raises:
        Refusal: more than one condition, or none, says whether a tile is computed.
    """
    does = [item for item in tiles.body if not isinstance(item, Exit)]
    if len(does) != 1 or not isinstance(does[0], Branch) or bool(does[0].yes) == bool(does[0].no):
        raise Refusal(
            "not all that is done for a tile hangs on whether there is one", tiles.instruction
        )
    branch = does[0]
    holds, arm = bool(branch.yes), branch.yes or branch.no
    plain = branch.condition
    while plain.op == "not":
        plain, holds = plain.parts[0], not holds
    then = Written(terms, {plain: terms.const(int(holds))})
    otherwise = Written(terms, {plain: terms.const(int(not holds))})
    always = set(tile_symbols(tiles, terms))
    carried: dict[Term, Carried] = {}
    for symbol, one in tiles.carried.items():
        stays = symbol in always or otherwise.term(one.update) is symbol
        update = then.term(one.update) if stays else terms.unknown()
        carried[symbol] = Carried(one.register, one.entry, update)
    ends = tuple(item for item in tiles.body if isinstance(item, Exit))
    condition = plain if holds else terms.negation(plain)
    return Loop(tiles.number, carried, (*arm, *ends), tiles.instruction), condition

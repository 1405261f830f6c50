"""Which terms are the trip count: conditions of loops depend on their sum, and on no part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from schedgen.conform.skeleton import Action, Branch, Exit, Items, Loop, all_loops
from schedgen.conform.terms import Term, addends, below
from schedgen.lift.breaks import cut
from schedgen.lift.evaluate import is_leaf_of_block

Group = tuple[tuple[Term, int], ...]
"""Terms with factors, whose sum is the trip count."""


def conditions_of(items: Items) -> Iterator[Term]:
    """Of branches and exits, with what loops carry."""
    for item in items:
        match item:
            case Branch():
                yield item.condition
                yield from conditions_of(item.yes)
                yield from conditions_of(item.no)
            case Exit():
                yield item.condition
            case Loop():
                yield from conditions_of(item.body)
            case _:
                pass


def innermost(items: Items) -> Iterator[Loop]:
    """Loops in which there is no other one."""
    for loop in all_loops(items):
        if next(all_loops(loop.body), None) is None:
            yield loop


class Trip:
    """Finds the trip count of the loops of all warps.

    ``opaque``: symbols of the loop over tiles, which data may have to do with.
    """

    def __init__(self, skeletons: Iterable[Items]) -> None:
        self.skeletons = list(skeletons)
        self._uniform: dict[Term, bool] = {}
        self.tiles = {
            symbol
            for items in self.skeletons
            for loop in all_loops(items)
            if next(all_loops(loop.body), None) is not None
            for symbol in loop.carried
        }

    def uniform(self, term: Term) -> bool:
        """Whether it says of a tile what all threads of a block have, and is no number."""
        found = self._uniform.get(term)
        if found is None:
            if not term.parts:
                found = term.op == "const" or is_leaf_of_block(term) or term in self.tiles
            else:
                found = all(self.uniform(part) for part in term.parts)
            self._uniform[term] = found
        return found

    def group(self) -> Group | None:
        """The outermost sum that conditions of loops depend on, and on nothing below it."""
        terms = list(dict.fromkeys(self._asked()))
        found = list(dict.fromkeys(self._groups(terms)))
        fitting = [group for group in found if all(self._covers(group, t) for t in terms)]
        return max(fitting, key=lambda g: sum(_depth(t) for t, _ in g), default=None)

    def divided(self) -> tuple[Group, tuple[Term, ...]]:
        """The trip count, none if there is none; and where data has loops divide it among them."""
        group = self.group() or ()
        terms = list(dict.fromkeys(self._asked()))
        if all(self._covers(group, term, self._is_open) for term in terms):
            return group, ()
        found = cut(terms, self._known, self._is_open) or ()
        return (((found[0], 1),), found[1:]) if len(found) > 1 else (group, ())

    def _is_open(self, leaf: Term) -> bool:
        """Whether a leaf is the same for all threads of a block, and nobody knows it."""
        return not leaf.parts and leaf.op != "const" and self.uniform(leaf)

    def _asked(self) -> Iterator[Term]:
        """Conditions that innermost loops end on, with what their registers begin with."""
        for items in self.skeletons:
            for loop in innermost(items):
                exits = [item.condition for item in loop.body if isinstance(item, Exit)]
                wanted = {t for condition in exits for t in below(condition)}
                if any(map(_of_grid, wanted)):
                    continue  # a loop over output tiles
                yield from exits
                yield from (c.entry for s, c in loop.carried.items() if s in wanted)

    def _groups(self, terms: Iterable[Term]) -> Iterator[Group]:
        for whole in terms:
            for term in below(whole):
                pairs = [(t, f) for t, f in addends(term)[1] if self._known(t)]
                if not pairs:
                    continue
                sign = 1 if pairs[0][1] > 0 else -1
                yield tuple((t, f * sign) for t, f in pairs)

    def _known(self, term: Term) -> bool:
        return self.uniform(term) and term.number is None and term not in self.tiles

    def _covers(
        self, group: Group, whole: Term, data: Callable[[Term], bool] = lambda _: False
    ) -> bool:
        """Whether a term depends on the leaves of a group, and on ``data``, only through the
        group's sum.
        """
        leaves = {leaf for term, _ in group for leaf in below(term) if _is_data(leaf)}
        inside, of_group = [whole], dict(group)
        seen: set[Term] = set()
        while inside:
            term = inside.pop()
            if term in seen:
                continue
            seen.add(term)
            if term in leaves or data(term):
                return False
            pairs = dict(addends(term)[1]) if term.op == "sum" or term in of_group else {}
            ratio = {pairs[t] / f if t in pairs else 0.0 for t, f in of_group.items()}
            if len(ratio) == 1 and ratio != {0.0}:
                inside += [t for t in pairs if t not in of_group]
            elif term.parts:
                inside += term.parts
        return True


def _of_grid(term: Term) -> bool:
    return term.op == "sym" and str(term.args[0]).startswith("%nctaid")


def _is_data(leaf: Term) -> bool:
    return leaf.op == "loaded?" or (not leaf.parts and leaf.op not in ("const",))


def _depth(term: Term) -> int:
    return 1 + max((_depth(part) for part in term.parts), default=0)


def actions_of(items: Items) -> Iterator[Action]:
    """All instructions."""
    for item in items:
        match item:
            case Action():
                yield item
            case Branch():
                yield from actions_of(item.yes)
                yield from actions_of(item.no)
            case Loop():
                yield from actions_of(item.body)
            case Exit():
                pass


def terms_of(items: Items) -> Iterator[Term]:
    """Conditions, operands, and what loops carry."""
    yield from conditions_of(items)
    for action in actions_of(items):
        yield from (term for term in (action.address, *action.values) if term is not None)
    for loop in all_loops(items):
        for one in loop.carried.values():
            yield from (one.entry, one.update)

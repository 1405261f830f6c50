"""What a loop that only computes leaves in a register, as a term.

Roles that search in the same way do so in registers of their own, which a compiler hands on in
different orders. Such a loop is a system of equations: each register before the first turn and
after each, and the condition to leave. The term ``fold`` has the system of those that a register
and the condition follow from, written with numbers instead of names, and as its parts the terms
from outside that it is about. So two of them that are the same term have the same value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from zlib import crc32

from schedgen.conform.skeleton import Carried
from schedgen.conform.terms import COMMUTATIVE, Term, Terms, below, operands

FOLD = "fold"
_UNORDERED = COMMUTATIVE | {"min", "max"}
_ROUNDS = 4
"""In which registers are told apart by what they follow from. More would only matter to loops with
longer chains of registers that look alike; of those two may be different terms, and equal.
"""


def folds(
    terms: Terms, carried: Mapping[Term, Carried], leave: Term, asked: Iterable[Term]
) -> dict[Term, Term]:
    """For each symbol of ``carried`` that terms of ``asked`` have the term of its value in the turn
    that the loop is left in, where the condition ``leave`` holds.
    """
    wanted = {one for term in asked for one in below(term) if one in carried}
    if not wanted:
        return {}
    colours = _Colours(carried)
    return {symbol: _Fold(carried, colours).term(terms, symbol, leave) for symbol in wanted}


class _Colours:
    """Numbers that are equal for terms that look alike: what comes first in a sum is decided by
    these, not by the order in which terms were made.
    """

    def __init__(self, carried: Mapping[Term, Carried]) -> None:
        self._symbols: dict[Term, int] = dict.fromkeys(carried, 0)
        self.known: dict[Term, int] = {}
        for _ in range(_ROUNDS):
            found = {
                symbol: _number(self.of(one.entry), self.of(one.update))
                for symbol, one in carried.items()
            }
            self._symbols, self.known = found, {}

    def of(self, term: Term) -> int:
        found = self.known.get(term)
        if found is None:
            found = self.known[term] = self._symbols.get(term) or self._hash(term)
        return found

    def _hash(self, term: Term) -> int:
        if term.op == "sum":
            constant, *flat = term.args
            pairs = ((self.of(t), f) for t, f in _pairs(flat))
            return _number("sum", constant, *sorted(pairs))
        if term.op == "sym":  # of an outer loop it has another name in each role
            name = str(term.args[0])
            return _number("sym", " at " in name or name)
        if term.op in _UNORDERED:
            return _number(term.op, *sorted(map(self.of, _members(term))))
        given = [self.of(arg) if isinstance(arg, Term) else _number(arg) for arg in term.args]
        return _number(term.op, *given)


class _Fold:
    """One term: symbols, outer terms and those between are numbered as they are come to."""

    def __init__(self, carried: Mapping[Term, Carried], colours: _Colours) -> None:
        self._carried, self._colours = carried, colours
        self._symbols: dict[Term, int] = {}
        self._outer: dict[Term, int] = {}
        self._written: dict[Term, int] = {}
        self._varies: dict[Term, bool] = {}

    def term(self, terms: Terms, symbol: Term, leave: Term) -> Term:
        text = [self._text(symbol), self._text(leave)]
        done = 0
        while done < len(self._symbols):  # those that were come to meanwhile
            one = self._carried[list(self._symbols)[done]]
            text += [self._text(one.entry), self._text(one.update)]
            done += 1
        return terms.make(FOLD, "; ".join(text), *self._outer)

    def _text(self, term: Term) -> str:
        if term in self._carried:
            return f"#{self._symbols.setdefault(term, len(self._symbols))}"
        if not self._inside(term):
            return f"@{self._outer.setdefault(term, len(self._outer))}"
        before = self._written.get(term)
        if before is not None:  # else what is shared would be written again and again
            return f"${before}"
        text = f"{term.op}({', '.join(self._arguments(term))})"
        self._written[term] = len(self._written)
        return text

    def _arguments(self, term: Term) -> Iterator[str]:
        if term.op == "sum":
            constant, *flat = term.args
            yield str(constant)
            for one, factor in sorted(_pairs(flat), key=lambda p: (self._colours.of(p[0]), p[1])):
                yield f"{factor} {self._text(one)}"
            return
        given: Sequence[Term | int | str] = term.args
        if term.op in _UNORDERED:
            given = sorted(_members(term), key=self._colours.of)
        for arg in given:
            yield self._text(arg) if isinstance(arg, Term) else repr(arg)

    def _inside(self, term: Term) -> bool:
        """Whether it depends on a register of the loop."""
        found = self._varies.get(term)
        if found is None:
            inside = term in self._carried or any(map(self._inside, term.parts))
            found = self._varies[term] = inside
        return found


def _number(*given: object) -> int:
    """One for what is given, the same in each run."""
    return crc32(repr(given).encode())


def _members(term: Term) -> list[Term]:
    """What an operator is of that says nothing about their order."""
    return operands(term.op, term) if term.op in ("min", "max") else list(term.parts)


def _pairs(flat: Sequence[Term | int | str]) -> Iterator[tuple[Term, int]]:
    """Terms of a sum with their factors."""
    for term, factor in zip(flat[::2], flat[1::2], strict=True):
        assert isinstance(term, Term)
        assert isinstance(factor, int)
        yield term, factor

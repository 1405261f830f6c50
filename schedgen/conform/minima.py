"""Minima and maxima of several numbers, of which trip counts and the ends of loops may be some.

A compiler takes the minimum of three numbers in pairs as it likes, and without signs where it knows
that none is negative. `Terms.extreme` has one form for all orders; here is what else follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from schedgen.conform.evaluate import Linear
from schedgen.conform.terms import Term, operands


def not_negative(term: Term) -> bool:
    """Whether a number is known not to be negative: it is at least a constant, or the smallest of
    such numbers and ones that the host passes (docs/conform.md, section 3).
    """
    if term.number is not None:
        return term.number >= 0
    if term.op == "min":
        return all(map(not_negative, term.parts))
    if term.op == "max":
        return any(map(not_negative, term.parts))
    return term.op == "loaded?" and term.parts[0].op == "sym"


def no_more(a: Term, b: Term) -> bool:
    """Whether ``a`` is ``b`` at most, as follows from what they are minima and maxima of."""
    if a is b:
        return True
    if a.number is not None and b.number is not None:
        return a.number <= b.number
    if a.op == "max":
        return all(no_more(part, b) for part in operands("max", a))
    if b.op == "min":
        return all(no_more(a, part) for part in operands("min", b))
    below = a.op == "min" and any(no_more(part, b) for part in operands("min", a))
    return below or (b.op == "max" and any(no_more(a, part) for part in operands("max", b)))


class Implied:
    """What follows for parts of minima and maxima that are known.

    A part of a minimum is that large or larger, and it is the minimum itself if all other parts are
    larger.
    """

    def __init__(self, forms: dict[Term, Linear]) -> None:
        self.forms = forms
        self._fresh: Iterator[int] = count()

    def add(self, term: Term, form: Linear) -> None:
        """``term`` is ``form``."""
        self.forms.setdefault(term, form)
        if term.op not in ("min", "max"):
            return
        sign = 1 if term.op == "min" else -1
        leaves = operands(term.op, term)
        known = {leaf: self._known(leaf) for leaf in leaves}
        rest = [leaf for leaf, found in known.items() if found is None]
        beyond = [found.plus(form, -1) for found in known.values() if found is not None]
        if len(rest) == 1 and all(_apart(one, sign) for one in beyond):
            self.add(rest[0], form)
        for part in _nested(term):
            if self._known(part) is None:
                more = Linear(0, ((f"beside {next(self._fresh)}", sign),))
                self.add(part, form.plus(more))

    def _known(self, term: Term) -> Linear | None:
        return Linear(term.number) if term.number is not None else self.forms.get(term)


def _apart(difference: Linear, sign: int) -> bool:
    """Whether a difference is not 0, and has that sign."""
    if sign > 0:
        return difference.at_least is not None and difference.at_least > 0
    return difference.at_most is not None and difference.at_most < 0


def _nested(term: Term) -> Iterator[Term]:
    """The terms that a minimum is taken of, in pairs."""
    for part in term.parts:
        yield part
        if part.op == term.op:
            yield from _nested(part)


def positive(term: Term) -> bool:
    """Whether a number is known to be 1 at least: it is the smallest of such numbers, or the
    largest of one and others.
    """
    if term.op in ("min", "max"):
        return (all if term.op == "min" else any)(map(positive, term.parts))
    return term.number is not None and term.number >= 1

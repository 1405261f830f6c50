"""Minima of several numbers, of which a trip count may be one.

A compiler takes the minimum of three numbers in pairs as it likes, and without signs where it knows
that none is negative. `Terms.extreme` has one form for all orders; here is what else follows.
"""

from __future__ import annotations

from schedgen.conform.terms import Term


def no_less(count: Term) -> list[Term]:
    """Terms that are as large as a trip count, or larger, as what it is the minimum of."""
    if count.op != "min":
        return []
    found = [term for part in count.parts for term in (part, *no_less(part))]
    return list(dict.fromkeys(found))


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


def positive(term: Term) -> bool:
    """Whether a number is known to be 1 at least: it is the smallest of such numbers, or the
    largest of one and others.
    """
    if term.op in ("min", "max"):
        return (all if term.op == "min" else any)(map(positive, term.parts))
    return term.number is not None and term.number >= 1

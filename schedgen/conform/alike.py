"""Whether a number is the same for all threads of a block, where it is computed from data.

How many output tiles there are may be a sum over an array, which each warp adds up by itself. That
roles write it alike says that it is one number only if nothing in it depends on the thread but for
its lane, and what depends on that is put together by all lanes of a warp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from schedgen.conform.terms import Term

Computed = Mapping[Term, Sequence[Term]]
"""Symbols of loops that only compute, and all that the values of such a loop follow from: what is
there before it and after each turn, and whether it goes on.
"""
_OF_BLOCK = ("parameter ", "%ctaid.", "%nctaid.")
"""What symbols begin with that all threads of a block have the same of."""
_ALL_LANES = (-1, 2**32 - 1)


def for_all_threads(term: Term, loops: Computed) -> bool:
    """Whether all threads of a block have the same."""
    if _together(term):
        return for_all_warps(term, loops)
    if term.op == "sym":
        return str(term.args[0]).startswith(_OF_BLOCK)
    return term.op not in ("unknown", "elect") and all(
        for_all_threads(part, loops) for part in term.parts
    )


def for_all_warps(term: Term, loops: Computed) -> bool:
    """Whether threads with the same lane have the same."""
    return all(
        found in loops or str(found.args[0]).startswith((*_OF_BLOCK, "%laneid"))
        if found.op == "sym"
        else found.op not in ("unknown", "elect")
        for found in _behind(term, loops)
    )


def _together(term: Term) -> bool:
    """Whether it is made of what all lanes of a warp have."""
    if term.op.startswith("redux.sync."):
        return term.parts[-1].number in _ALL_LANES
    return term.op == "shfl"  # from one lane


def _behind(term: Term, loops: Computed) -> Iterator[Term]:
    """A term and all that it follows from, each once."""
    seen: set[Term] = set()
    stack = [term]
    while stack:
        one = stack.pop()
        if one not in seen:
            seen.add(one)
            yield one
            stack += (*one.parts, *loops.get(one, ()))

"""Whether a number is the same for all threads of a block, where it is computed from data.

How many output tiles there are may be a sum over an array, which each warp adds up by itself. That
roles write it alike says that it is one number only if nothing in it depends on the thread but for
its lane, and what depends on that is put together by all lanes of a warp.
"""

from __future__ import annotations

from schedgen.conform.terms import Term, below

_OF_BLOCK = ("parameter ", "%ctaid.", "%nctaid.")
"""What symbols begin with that all threads of a block have the same of."""
_OF_LANE = (*_OF_BLOCK, "%laneid")
_ALL_LANES = (-1, 2**32 - 1)


def for_all_threads(term: Term) -> bool:
    """Whether all threads of a block have the same."""
    seen: set[Term] = set()
    stack = [term]
    while stack:
        one = stack.pop()
        if one in seen:
            continue
        seen.add(one)
        if _together(one):
            if not for_all_warps(one):
                return False
        elif not one.parts and not _is(one, _OF_BLOCK):
            return False
        else:
            stack += one.parts
    return True


def for_all_warps(term: Term) -> bool:
    """Whether threads with the same lane have the same."""
    return all(one.parts or _is(one, _OF_LANE) for one in below(term))


def _is(leaf: Term, symbols: tuple[str, ...]) -> bool:
    """Whether it is a constant, or a symbol that begins with one of these."""
    return leaf.op == "const" or (leaf.op == "sym" and str(leaf.args[0]).startswith(symbols))


def _together(term: Term) -> bool:
    """Whether it is made of what all lanes of a warp have."""
    if term.op.startswith("redux.sync."):
        return term.parts[-1].number in _ALL_LANES
    return term.op == "shfl"  # from one lane

"""Where a tile's iterations are divided among several loops, by numbers that data decides.

Causal attention masks its last blocks of keys in one loop and goes through the others in the next
one. Conditions of such loops depend on the trip count and on where it is divided, each computed
from the same lengths. The fewest terms through which all conditions depend on data are found as a
cut of smallest size, the outermost one; each of them may then be any number, whatever the lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import networkx as nx

from schedgen.conform.terms import Term, below

MOST = 2
"""Terms of a cut: the trip count, and where it is divided once."""
_ROOT, _DATA = "conditions", "data"


def cut(
    asked: Sequence[Term], known: Callable[[Term], bool], data: Callable[[Term], bool]
) -> tuple[Term, ...] | None:
    """The fewest terms that terms ``asked`` depend on data through, those first that most of them
    depend on; None if there are none, or too many.

    Args:
        known: whether a term may be in a cut.
        data: whether a leaf is what nobody knows.
    """
    graph = cast(Any, nx.DiGraph())
    terms = list(dict.fromkeys(term for one in asked for term in below(one)))
    for one in asked:
        graph.add_edge((one, 0), _ROOT)
    for term in terms:
        # From data to conditions: what is found first is the cut that is nearest to these.
        capacity = {"capacity": 1} if known(term) else {}
        graph.add_edge((term, 1), (term, 0), **capacity)
        if not term.parts and data(term):
            graph.add_edge(_DATA, (term, 1))
        for part in term.parts:
            graph.add_edge((part, 0), (term, 1))
    if _DATA not in graph or _ROOT not in graph:
        return None
    try:
        size, (_, beyond) = cast(Any, nx).minimum_cut(graph, _DATA, _ROOT)
    except nx.NetworkXUnbounded:
        return None
    if size > MOST:
        return None
    found = [term for term in terms if (term, 0) in beyond and (term, 1) not in beyond]
    return tuple(sorted(found, key=lambda term: -_dependent(asked, term)))


def _dependent(asked: Iterable[Term], term: Term) -> int:
    return sum(term in below(one) for one in asked)


def least(term: Term) -> int | None:
    """The smallest number that a term may be; None if nobody knows."""
    constants = [part.number for part in term.parts if part.number is not None]
    return max(constants, default=None) if term.op == "max" else None

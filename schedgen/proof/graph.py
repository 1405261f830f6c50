"""Method 1: shortest paths on the periodic event graph, for every trip count, tile and latency.

Each claim is a path with iteration shifts: conflicting accesses have one from the completion of the
earlier to the beginning of the later, phases likewise. Deadlock is a cycle
(`schedgen.ordering.deadlock`).
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from time import perf_counter

from schedgen.findings import Claim, Finding, Verdict
from schedgen.ordering.conflicts import Kind, conflicts
from schedgen.ordering.deadlock import deadlock_findings
from schedgen.ordering.orders import Orders
from schedgen.ordering.phases import phase_findings
from schedgen.program.model import Program
from schedgen.program.warps import by_warps
from schedgen.proof.counts import capacity_findings, count_findings


def prove(program: Program) -> Verdict:
    """What the graph method has to object to in ``program``; nothing if it is proven."""
    begin = perf_counter()
    with _no_collection():
        findings = list(all_findings(program))
    return Verdict("graph", tuple(findings), perf_counter() - begin)


@contextmanager
def _no_collection() -> Generator[None]:
    """Searches keep some 10^5 tuples and no cycles; collecting garbage would visit all of them and
    the solver's leftovers over and over, for up to half of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def all_findings(program: Program) -> Iterator[Finding]:
    """Every claim that has no proof: order among the warps, capacities of the roles."""
    yield from order_findings(Orders(by_warps(program)))
    yield from capacity_findings(program)


def order_findings(orders: Orders) -> Iterator[Finding]:
    """Every claim about order that has no proof."""
    yield from race_findings(orders)
    yield from deadlock_findings(orders.graph)
    yield from count_findings(orders.graph)
    yield from phase_findings(orders)


def race_findings(orders: Orders) -> Iterator[Finding]:
    """Conflicting accesses that nothing orders."""
    for conflict in conflicts(orders.program):
        if orders.ordered(conflict) is None:
            subject = (conflict.before, conflict.after, conflict.first.allocation)
            later = conflict.kind in (Kind.LATER, Kind.TILES)
            text = f"nothing makes sure that {conflict.text}"
            yield Finding(Claim.RACE, text, subject, later_tile=later)

"""Method 1: shortest paths on the periodic event graph, for every trip count, tile and latency.

Each claim is a path with iteration shifts: conflicting accesses have one from the completion of the
earlier to the beginning of the later, phases likewise. Deadlock is a cycle: waits only ever wait
for what is earlier in some order, so a program comes to its end if and only if no cycle of arcs
spans zero iterations or fewer. Executing one tile after the other is one legal execution, and which
steps get executed does not depend on timing, so it is enough that single tiles end.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from time import perf_counter

from schedgen.bounds import Constraint, ImpossibleCycle, critical_cycle
from schedgen.program.model import Program
from schedgen.program.warps import by_warps
from schedgen.proof.arcs import Form
from schedgen.proof.conflicts import conflicts
from schedgen.proof.counts import capacity_findings, count_findings
from schedgen.proof.events import EventGraph
from schedgen.proof.orders import Orders
from schedgen.proof.phases import phase_findings
from schedgen.proof.report import Claim, Finding, Verdict


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
            subject = (conflict.before, conflict.after, conflict.first.store)
            yield Finding(Claim.RACE, f"nothing makes sure that {conflict.text}", subject)


def deadlock_findings(graph: EventGraph) -> Iterator[Finding]:
    """Cycles of waiting: within the loop, and within one tile around it."""
    constraints = [
        Constraint(str(a), str(arc.dst), 1, arc.shift, arc.why) for a, arc in graph.loop_arcs()
    ]
    try:
        critical_cycle(constraints)
    except ImpossibleCycle as impossible:
        names = [graph.events[int(c.src)].name for c in impossible.cycle.constraints]
        yield _cycle(names)
    loop = -1
    tile: TopologicalSorter[int] = TopologicalSorter()
    for a, arc in graph.all_arcs():
        if arc.form is Form.IN:
            tile.add(loop, a)
        if arc.form is Form.OUT:
            tile.add(arc.dst, loop)
        if arc.form is Form.TILES and arc.shift == 0:
            tile.add(arc.dst, a)
    try:
        tile.prepare()
    except CycleError as error:
        cycle: list[int] = error.args[1]
        what = ["all iterations of the loop" if a == loop else graph.events[a].name for a in cycle]
        yield _cycle(what[1:])


def _cycle(names: list[str]) -> Finding:
    text = f"a cycle of waiting: {' -> '.join([*names, names[0]])}"
    return Finding(Claim.DEADLOCK, text, tuple(names))

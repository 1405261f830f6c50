"""Deadlock: a cycle of arcs that spans zero iterations or fewer.

Waits only ever wait for what is earlier in some order, so a program comes to its end if and only if
there is none. Executing one tile after the other is one legal execution, and which steps get
executed does not depend on timing, so it is enough that single tiles end.
"""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from schedgen.bounds import Constraint, ImpossibleCycle, critical_cycle
from schedgen.findings import Claim, Finding
from schedgen.ordering.arcs import Form
from schedgen.ordering.events import EventGraph


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

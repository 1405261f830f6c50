"""Reading two Programs side by side: barriers, waits, reasons, and proofs without empty tiles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from time import perf_counter

from schedgen.findings import Verdict
from schedgen.ordering.arcs import Arc, Form
from schedgen.ordering.conflicts import Kind, conflicts
from schedgen.ordering.events import EventGraph
from schedgen.ordering.orders import Orders
from schedgen.program.model import Barrier, Program, Wait, When
from schedgen.program.warps import by_warps
from schedgen.proof.counts import capacity_findings
from schedgen.proof.graph import order_findings
from schedgen.reasons import Reason, ReasonKind

# -- counting ------------------------------------------------------------------------------------


def family(name: str) -> str:
    """A name without the tile that it stands for: the barriers of both tiles are one array."""
    return re.sub(r"softmax[01]", "softmax_s", re.sub(r"\[[01](?=[\],])", "[s", name))


def arrays(barriers: Iterable[Barrier]) -> int:
    """Barriers, those of both query tiles counted once."""
    return len({family(barrier.name) for barrier in barriers})


def words(barriers: Iterable[Barrier], kind: str) -> int:
    """Hardware barriers of one kind: words of shared memory, or named ones."""
    return sum(barrier.slots for barrier in barriers if barrier.kind == kind)


def waits_per_iteration(program: Program) -> int:
    """Waits of all roles in an iteration that is neither the first nor the last one."""
    steps = (step for role in program.roles for step in role.loop)
    return sum(isinstance(step.action, Wait) and step.guard.kind is When.EVERY for step in steps)


# -- comparing -----------------------------------------------------------------------------------


_PROTECTS = re.compile(r"(\S+) (?:uses|writes over) \S+ after (\S+)")


def handoffs(barrier: Barrier) -> set[tuple[str, ...]]:
    """(who waits, for whom), read off what the barrier protects."""
    found = (_PROTECTS.fullmatch(text) for text in barrier.protects)
    return {match.groups() for match in found if match}


def counterparts(ours: Program, theirs: Program) -> dict[str, list[str]]:
    """Our barriers, each with those of ``theirs`` that hand over between the same operations."""
    return {
        mine.name: [b.name for b in theirs.barriers if handoffs(b) & handoffs(mine)]
        for mine in ours.barriers
    }


LEFT_OUT = {
    "P in S is used up": ("PV[{s},1]", "QK[{s}]", "S[{s}]"),
    "S is read": ("LDS[{s}]", "QK[{s}]", "S[{s}]"),
    "first part of P is used up": ("PV[{s},0]", "STP[{s},0]", "S[{s}]"),
    "last part of P is used up": ("PV[{s},1]", "STP[{s},1]", "S[{s}]"),
    "O is complete": ("PV[{s},1]", "CR[{s}]", "O[{s}]"),
}
"""Orders one iteration later for which FA4 has no wait: (before, after, store)."""


def reason(orders: Orders, left_out: str, stage: int) -> tuple[str, ...]:
    """Why the order that `LEFT_OUT` names needs no wait, in the steps of this program."""
    before, after, allocation = (name.format(s=stage) for name in LEFT_OUT[left_out])
    found: dict[tuple[str, ...], None] = {}
    for conflict in conflicts(orders.program):
        same = (conflict.before, conflict.after, conflict.first.allocation) == (
            before,
            after,
            allocation,
        )
        if same and conflict.kind is Kind.SAME and conflict.distance == 1:
            ways = orders.ordered(conflict)
            if ways is None:
                raise ValueError(f"nothing makes sure that {conflict.text}")
            found.update(dict.fromkeys(way.explain() for way in ways))
    if len(found) != 1:
        raise ValueError(f"there are {len(found)} reasons why {before} comes before {after}")
    return next(iter(found))


ROLES = {"tensor": "mma", "store": "epilogue", "tile_load": "load"}
"""Our names of roles, and FA4's."""


def translated(text: str, names: dict[str, list[str]]) -> str:
    """A step of our program in FA4's names; ``names`` is what `counterparts` found."""
    role, rest = text.split(": ", 1)
    theirs = ROLES.get(role, role)
    rest = rest.replace(f"(order of {role})", f"(order of {theirs})")
    for mine, found in names.items():
        for name in found[:1]:
            rest = re.sub(rf"^(wait|arrive|commit) {re.escape(mine)}\[", rf"\1 {name}[", rest)
            rest = rest.replace(f"(barrier {mine})", f"(barrier {name})")
    return f"{theirs}: {rest}"


# -- what holds if every tile has iterations -----------------------------------------------------


def prove_filled(program: Program) -> Verdict:
    """The graph method, for any number of tiles that have one iteration or more each.

    `schedgen.proof.graph.prove` assumes nothing about trip counts. If a tile has iterations, then
    what comes before all of them comes before what all of them come before: these arcs are added.
    """
    begin = perf_counter()
    orders = Orders(by_warps(program))
    for source, arc in [*_through_loop(orders)]:
        orders.graph.arcs[source].append(arc)
    orders.leave_out(set())
    findings = (*order_findings(orders), *capacity_findings(program))
    return Verdict("graph", findings, perf_counter() - begin, "tiles with one iteration or more")


def _through_loop(orders: Orders) -> Iterator[tuple[int, Arc]]:
    """Arcs from tile events, through the iterations of the tile, to tile events."""
    graph = orders.graph
    ways_out = [*_ways_out(graph)]
    for source, event in enumerate(graph.events):
        if event.per_tile:
            reach = orders.reach(source, orders.far)
            ends = {end for inside, end in ways_out if reach.all(inside, 0) is not None}
            for end in sorted(ends):
                yield source, Arc(end, Form.TILES, 0, Reason(ReasonKind.TRIPS))


def _ways_out(graph: EventGraph) -> Iterator[tuple[int, int]]:
    """Loop events that happen in every iteration, with the tile events that come after them all."""
    for event, arc in graph.all_arcs():
        if arc.form is Form.OUT and graph.margins[event] == (0, 0):
            yield event, arc.dst

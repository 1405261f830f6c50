"""Barriers with what they protect, and the proof's path for each order that storage asks for."""

from __future__ import annotations

from typing import Any

from schedgen.driver.checking import barrier_rows
from schedgen.ordering.conflicts import Conflict, Kind, conflicts
from schedgen.ordering.orders import Orders, Way
from schedgen.program.model import Program
from schedgen.proof.graph import all_findings
from schedgen.reasons import Reason, ReasonKind


def barriers(program: Program) -> list[dict[str, Any]]:
    """A row for each barrier with the roles at both sides."""
    return [
        {
            "name": row.name,
            "kind": row.kind,
            "slots": row.depth,
            "arrivals": row.count,
            "bytes": row.bytes,
            "producers": list(row.producer),
            "consumers": list(row.consumer),
            "protects": list(row.protects),
            "allocations": list(program.barrier[row.name].allocations),
            "skipped": list(program.barrier[row.name].skipped),
        }
        for row in barrier_rows(program)
    ]


class _Words:
    """A table of events and reasons that occur many times on the page."""

    def __init__(self) -> None:
        self.number: dict[str | Reason, int] = {}

    def __call__(self, word: str | Reason) -> int:
        return self.number.setdefault(word, len(self.number))


def proofs(program: Program) -> dict[str, Any]:
    """Every order between two accesses, with the paths of method 1 (`schedgen.proof.graph`).

    ``words`` are the texts that paths refer to; ``paths`` are lists of (event, reason); an order
    has ``cases``: how far the later access is away, and the number of its path, -1 if there is
    none. ``trivial``: the order of one role's own steps is all it takes. ``findings``: what the
    method objects to, empty if the program is proven.
    """
    orders = Orders(program)
    words = _Words()
    paths: dict[tuple[tuple[int, int], ...], int] = {}
    rows: dict[tuple[str, str, str, bool, bool], dict[str, Any]] = {}
    for conflict in conflicts(program):
        key = _key(conflict)
        row = rows.get(key)
        if row is None:
            row = rows[key] = _row(conflict)
        ways = orders.ordered(conflict)
        numbers = [-1] if ways is None else []
        for way in ways or ():
            path = tuple((words(event), words(why)) for event, why in steps(orders, way))
            numbers.append(paths.setdefault(path, len(paths)))
        for number in numbers:
            case = _when(conflict), number
            if case not in row["cases"]:
                row["cases"].append(case)
    listed = list(words.number)
    return {
        "words": [word.text if isinstance(word, Reason) else word for word in listed],
        "paths": [[list(step) for step in path] for path in paths],
        "orders": _finished(list(rows.values()), listed, list(paths)),
        "findings": [{"claim": f.claim.value, "text": f.text} for f in all_findings(program)],
    }


def _finished(
    rows: list[dict[str, Any]],
    words: list[str | Reason],
    paths: list[tuple[tuple[int, int], ...]],
) -> list[dict[str, Any]]:
    """Rows with the barriers that their paths lead through; those that need one come first."""
    for row in rows:
        cases: list[tuple[str, int]] = row["cases"]
        numbers = {why for _, number in cases if number >= 0 for _, why in paths[number]}
        reasons = [word for word in map(words.__getitem__, numbers) if isinstance(word, Reason)]
        row["barriers"] = sorted(r.subjects[0] for r in reasons if r.kind is ReasonKind.BARRIER)
        row["trivial"] = all(reason.kind is ReasonKind.STEPS for reason in reasons)
    return sorted(rows, key=lambda row: (row["trivial"], not row["barriers"]))


def steps(orders: Orders, way: Way) -> list[tuple[str, Reason]]:
    """The events of a way, each with what orders it after the one before; several steps of one role
    in a row are one, as in `Way.explain`.
    """
    arcs = [arc for _, arc in way.reach.way(way.point)]
    found: list[tuple[str, Reason]] = []
    for number, arc in enumerate(arcs):
        following = arcs[number + 1].why if number + 1 < len(arcs) else None
        if not (arc.in_role and arc.why == following):
            found.append((orders.graph.events[arc.dst].name, arc.why))
    return found


def _key(conflict: Conflict) -> tuple[str, str, str, bool, bool]:
    first, second = conflict.first, conflict.second
    return conflict.before, conflict.after, first.allocation, first.write, second.write


def _row(conflict: Conflict) -> dict[str, Any]:
    first, second = conflict.first, conflict.second
    hazards = {(True, False): "RAW", (False, True): "WAR", (True, True): "WAW"}
    return {
        "before": conflict.before,
        "after": conflict.after,
        "allocation": first.allocation,
        "from": first.buffer,
        "to": second.buffer,
        "hazard": hazards[first.write, second.write],
        "cases": [],
    }


def _when(conflict: Conflict) -> str:
    number = conflict.distance
    match conflict.kind:
        case Kind.SAME if number == 0:
            return "same iteration"
        case Kind.SAME:
            return f"{number:+d} iteration{'s' if abs(number) > 1 else ''}"
        case Kind.LATER:
            return f"{number:+d} iteration{'s' if abs(number) > 1 else ''}, next tile"
        case Kind.OUTER:
            return "same tile"
        case Kind.TILES:
            return f"{number:+d} tile{'s' if number > 1 else ''}"

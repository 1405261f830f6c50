"""Cyclic waits: with real times in the steady state, with a blocked set around ends of tiles."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, cast

import networkx as nx

from schedgen.proof.smt_question import describe
from schedgen.proof.smt_window import Event, Term, Window


def blocked(window: Window, limit: int) -> list[Event] | None:
    """Events that wait for each other for ever, whatever the trip counts.

    Each event of a blocked set waits for another one of it. Without a cycle there is no such set,
    because a window is finite.
    """
    z3, context = window.z3, window.context
    reasons: dict[Event, list[Term]] = defaultdict(list)
    stuck: dict[Event, Term] = {}

    def of(event: Event) -> Term:
        if event not in stuck:
            stuck[event] = z3.Bool(f"stuck {len(stuck)}", context)
        return stuck[event]

    circle = _circles(window)

    def together(one: Event, other: Event) -> bool:
        return circle.get(one, -1) == circle.get(other, -2)

    for edge in window.edges:
        if together(edge.earlier, edge.later):
            reasons[edge.later].append(window.all([*edge.when, of(edge.earlier)]))
    # Two names of one event share their reasons.
    own = {event: window.any(found) for event, found in reasons.items()}
    for one, other, when in window.same:
        for event, twin in ((one, other), (other, one)):
            if twin in own and together(event, twin):
                reasons[event].append(window.all([*when, own[twin]]))
                of(event)
    if not stuck:
        return None
    solver = z3.SimpleSolver(ctx=context)
    solver.set("random_seed", 0)
    solver.set("rlimit", limit)
    solver.add(*window.given)
    solver.add(*(z3.Implies(literal, window.any(reasons[e])) for e, literal in stuck.items()))
    solver.add(window.any(stuck.values()))
    answer = str(solver.check())
    if answer == "unsat":
        return None
    if answer != "sat":
        return []
    model = solver.model()

    def true(term: Term) -> bool:
        return z3.is_true(model.eval(term, model_completion=True))

    return _cycle(window, {event for event, literal in stuck.items() if true(literal)}, true)


def _circles(window: Window) -> dict[Event, int]:
    """The strongly connected component of each event that could be on a cycle, on any condition."""
    graph = cast(Any, nx.DiGraph())
    graph.add_edges_from((edge.earlier, edge.later) for edge in window.edges)
    for one, other, _ in window.same:
        graph.add_edges_from([(one, other), (other, one)])
    parts: list[set[Event]] = [p for p in nx.strongly_connected_components(graph) if len(p) > 1]
    return {event: number for number, part in enumerate(parts) for event in part}


def _cycle(window: Window, stuck: set[Event], true: Term) -> list[Event]:
    """One cycle among the blocked events, each waiting for the next one."""
    before: dict[Event, Event] = {}
    twins: dict[Event, list[Event]] = defaultdict(list)
    for one, other, when in window.same:
        if all(true(term) for term in when):
            twins[one].append(other)
            twins[other].append(one)
    for edge in window.edges:
        if edge.earlier in stuck and all(true(term) for term in edge.when):
            before.setdefault(edge.later, edge.earlier)
    path = [next(iter(sorted(stuck)))]
    while True:
        event = path[-1]
        event = before.get(event) or next(before[t] for t in twins[event] if t in before)
        if event in path:
            return path[path.index(event) :]
        path.append(event)


def steady(window: Window, limit: int) -> bool | None:
    """Whether a long loop can go on for ever: each step has a time, and a period repeats it.

    Real times with one step a period later per iteration exist unless some cycle of waits comes
    back to the same or a later iteration. None: Z3 gave up.
    """
    z3, context = window.z3, window.context
    solver = z3.SolverFor("QF_LRA", ctx=context)
    solver.set("rlimit", limit)
    period = z3.Real("period", context)
    times: dict[tuple[str, str, int], Term] = {}

    kinds: set[tuple[tuple[str, str, int], tuple[str, str, int], int]] = set()

    def time(step: tuple[str, str, int]) -> Term:
        if step not in times:
            times[step] = z3.Real(f"time {len(times)}", context)
        return times[step]

    cuts = {str(cut) for cut in window.cut if cut is not True}
    for edge in window.edges:
        if edge.earlier.instant.kind != "cell" or edge.later.instant.kind != "cell":
            continue
        # In the middle of a long tile there are no cuts.
        if any(str(term) in cuts or not _uncut(window, term) for term in edge.when):
            continue
        distance = edge.later.instant.number - edge.earlier.instant.number
        kinds.add((edge.earlier[:3], edge.later[:3], distance))
    for earlier, later, distance in sorted(kinds):
        solver.add(time(later) + period * distance >= time(earlier) + 1)
    answer = str(solver.check())
    return {"sat": True, "unsat": False}.get(answer)


def _uncut(window: Window, term: Term) -> bool:
    """Whether a condition holds in the middle of a tile: it denies a cut."""
    return bool(window.z3.is_not(term))


def cycle_lines(window: Window, cycle: list[Event]) -> tuple[str, ...]:
    """The steps of a cycle, one per line."""
    found = [event for event in cycle if event.step >= 0]
    lines = [describe(window.program, event.role, event.step) for event in found]
    return tuple(dict.fromkeys(lines))

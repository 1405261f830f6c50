"""Phases: a wait sees a parity bit, not a number, so it must never be two phases off.

A wait for phase k of a slot is right if phase k - 1 is over when it starts (or it would pass at
once) and phase k + 1 is not over before it returns (or it would never pass). The rules of the
hardware ask for more: some wait must have seen phase k before anything arrives for phase k + 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from schedgen.findings import Claim, Finding
from schedgen.ordering.conflicts import Kind
from schedgen.ordering.orders import Orders
from schedgen.ordering.reach import Span
from schedgen.program.model import NUMBERED, Arrive, Barrier, Commit, Wait, When
from schedgen.program.operations import Number


def phase_findings(orders: Orders) -> Iterator[Finding]:
    """All ways in which a wait of the program could confuse two phases."""
    for barrier in orders.program.barriers:
        for wait in orders.graph.waits.get(barrier.name, []):
            yield from _premature(orders, barrier, wait)
            yield from _lapped(orders, barrier, wait)
        yield from _unobserved(orders, barrier)


def wanted(orders: Orders, wait: int) -> Number:
    action = orders.graph.step(wait).action
    assert isinstance(action, Wait)
    return action.number


def _premature(orders: Orders, barrier: Barrier, wait: int) -> Iterator[Finding]:
    """The phase before the one it waits for must be over when a wait starts."""
    number, start = wanted(orders, wait), orders.graph.start(wait)
    for step, event, given in orders.graph.providers.get(barrier.name, []):
        # What provides k - slots, where the wait is for k.
        if not happens_before(orders, event, given.moved(barrier.slots), start, number):
            text = (
                f"{name(orders, wait)} may pass one phase early: "
                f"{name(orders, step)} of the phase before may still be missing"
            )
            yield Finding(Claim.PHASE, text, (barrier.name, name(orders, wait)))


def _lapped(orders: Orders, barrier: Barrier, wait: int) -> Iterator[Finding]:
    """The phase after the one it waits for must not end before a wait returns."""
    number, relevant = wanted(orders, wait), False
    for skipped in barrier.skipped:
        # The phase after is complete from the start.
        instance, rest = divmod(skipped - barrier.slots - number.offset, number.scale)
        if not rest and instance >= 0:
            text = f"{name(orders, wait)} may be lapped: phase number {skipped} is skipped"
            yield Finding(Claim.PHASE, text, (barrier.name, name(orders, wait)))
    for _, event, given in orders.graph.providers.get(barrier.name, []):
        if _distance(number.moved(barrier.slots), given) is None:
            continue
        relevant = True
        if happens_before(orders, wait, number.moved(barrier.slots), event, given):
            return
    if relevant:
        text = (
            f"{name(orders, wait)} may be lapped: "
            "the phase after may end before it returns, and it would wait for ever"
        )
        yield Finding(Claim.PHASE, text, (barrier.name, name(orders, wait)))


def _unobserved(orders: Orders, barrier: Barrier) -> Iterator[Finding]:
    """Before anything arrives for a phase, somebody has seen the one before."""
    for step, event, given in orders.graph.providers.get(barrier.name, []):
        if not isinstance(orders.graph.step(step).action, Arrive | Commit):
            continue
        seen = [
            happens_before(orders, wait, wanted(orders, wait).moved(barrier.slots), event, given)
            for wait in _observers(orders, barrier)
            if _distance(wanted(orders, wait).moved(barrier.slots), given) is not None
        ]
        # All that wait at a named barrier take part in its phase.
        if not (all(seen) and seen if barrier.kind in NUMBERED else any(seen)):
            text = f"{name(orders, step)} may arrive before anybody has seen the phase before"
            yield Finding(Claim.PHASE, text, (barrier.name, name(orders, step)))


def _observers(orders: Orders, barrier: Barrier) -> list[int]:
    """Waits that certainly happen for each number, by themselves or together with others."""
    graph = orders.graph
    ahead = (event for event in graph.ahead if _barrier(orders, event) == barrier.name)
    always = [w for w in graph.waits.get(barrier.name, []) if graph.margins[w] == (0, 0)]
    return [*always, *ahead]


def _barrier(orders: Orders, wait: int) -> str:
    action = orders.graph.step(wait).action
    assert isinstance(action, Wait)
    return action.barrier


def happens_before(orders: Orders, a: int, at_a: Number, b: int, at_b: Number) -> bool:
    """Whether a is before b wherever both numbers are the same; true if they never are."""
    distance = _distance(at_a, at_b)
    if distance is None:
        return True
    events = orders.graph.events
    if at_a.per_tile:
        return _before_in_tiles(orders, a, b, distance)
    if events[a].per_tile or events[b].per_tile:
        return False
    if distance > 0:
        reach = orders.reach(a, orders.far)
        if reach.near(b, distance) is not None:
            return True
        if orders.find(reach, Kind.LATER, distance, b) is None:
            return False
    if distance > 0 and orders.graph.step(b).guard.kind is When.FIRST:
        return True  # b does not happen that far into a tile
    span = Span(min(0, distance), max(0, distance))
    return orders.find(orders.reach(a, span), Kind.SAME, distance, b) is not None


def _before_in_tiles(orders: Orders, a: int, b: int, tiles: int) -> bool:
    if tiles < 0:
        return False
    return orders.reach(a, orders.far).tile(b, tiles) is not None


def _distance(a: Number, b: Number) -> int | None:
    """How many iterations or tiles after a is b, where both numbers are the same."""
    if a.scale != b.scale or a.per_tile != b.per_tile:
        return None
    distance, rest = divmod(a.offset - b.offset, a.scale)
    return None if rest else distance


def name(orders: Orders, event: int) -> str:
    return orders.graph.events[event].name

"""Fewer signals: what waits for an early bulk store of a role can wait for a later one.

Stores are awaited in the order of their issue, so both are over when the second is. Whoever waits
for the first waits for the second instead if, in the schedule, that costs no time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from schedgen.program.operations import Engine
from schedgen.synchronize.layout import Layout
from schedgen.synchronize.parts import Handoff, Signal, Synchronization


def sharings(layout: Layout, made: Synchronization) -> Iterator[Synchronization]:
    """Each way to do without one signal, in the order of the signals."""
    for early in made.signals:
        handoffs = [h for h in made.handoffs if h.signal == early]
        for late in made.signals:
            if late != early and _stands_for(layout, late, early):
                moved = [replace(h, signal=late) for h in handoffs]
                if all(_in_time(layout, handoff) for handoff in moved):
                    kept = [h for h in made.handoffs if h.signal != early]
                    yield replace(made, handoffs=tuple(dict.fromkeys((*kept, *moved))))


def _stands_for(layout: Layout, late: Signal, early: Signal) -> bool:
    """Whether one role gives both for its stores, with the same numbers, ``late`` the later one."""
    engines = {layout.skeleton.operation[s.operation].engine for s in (late, early)}
    return (
        engines == {Engine.COPY_OUT}
        and late.number.scale == 1
        and layout.role_of[late.operation] == layout.role_of[early.operation]
        and (late.number, late.slots) == (early.number, early.slots)
        and layout.section(late.operation) == layout.section(early.operation)
        and layout.done(late.operation) >= layout.done(early.operation)
    )


def _in_time(layout: Layout, handoff: Handoff) -> bool:
    """Whether the signal is there, in the schedule, when its target starts."""
    signal = handoff.signal
    steps = (signal.number.offset - handoff.number.offset) // signal.number.scale
    period = layout.schedule.tile.period_cycles
    if not signal.number.per_tile:
        period = layout.schedule.ii_cycles
    late = layout.done(signal.operation) + layout.skeleton.handoff[1]
    return late <= layout.start[handoff.target] + steps * period

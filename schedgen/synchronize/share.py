"""Fewer signals, and fewer waits, where that costs no time in the schedule.

What waits for an early bulk store of a role can wait for a later one: stores are awaited in the
order of their issue, so both are over when the second is.

What comes with few bytes can be awaited with a large bulk load of the same role, such as logarithms
of sums with a tile of rows: where a role waits for both, it waits for both at the first place, and
signals that the same operations wait for become one barrier (`schedgen.synchronize.merge`). On an
H200 each wait that is left out is some 50 to 90 cycles of a warp, although the phase is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import permutations

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


_FEW = 16
"""A load of so many times less than another one has come when that has: bytes are what takes time.
Larger ones need not be awaited together: on an H200 products that waited for two tiles where they
needed one took some 2 % longer (files edited by hand).
"""


def gatherings(layout: Layout, made: Synchronization) -> Iterator[Synchronization]:
    """Each way to wait for a small bulk load where another one is awaited."""
    for large, small in permutations(made.signals, 2):
        if not _comes_with(layout, small, large):
            continue
        places = [h for h in made.handoffs if h.signal == large]
        handoffs = [h for h in made.handoffs if h.signal == small]
        moved = [m for h in handoffs for m in _moved(layout, h, places)]
        together = {h.target for h in moved} == {h.target for h in places}
        if together and len(moved) == len(handoffs) and moved != handoffs:
            kept = [h for h in made.handoffs if h.signal != small]
            yield replace(made, handoffs=(*kept, *moved))


def _comes_with(layout: Layout, small: Signal, large: Signal) -> bool:
    """Whether one role gives both for its loads in the loop, with the same numbers, and nothing
    that is as large in between. A barrier may have more slots than a tile that it tells of.

    The spec has to have put both into one order: with a wait in another place ptxas may take other
    registers, and serialize products that it did not before, so it is asked for where it pays.
    """
    names = small.operation, large.operation
    orders = ({name for name, _ in order.sequence} for order in layout.kernel.orders)
    return (
        any(order.issuperset(names) for order in orders)
        and all(layout.is_load(name) and layout.in_loop(name) for name in names)
        and layout.role_of[names[0]] == layout.role_of[names[1]]
        and small.number == large.number
        and small.number.scale == 1
        and not small.number.per_tile
        and small.slots <= large.slots
        and _few(layout, names[0], names[1])
        and all(_few(layout, name, names[1]) for name in _between(layout, names[1], names[0]))
    )


def _few(layout: Layout, small: str, large: str) -> bool:
    return layout.loaded_bytes(small) * _FEW <= layout.loaded_bytes(large)


def _between(layout: Layout, first: str, last: str) -> Iterator[str]:
    """What the role of both loads, too, behind the first and before the last one."""
    for name, start in layout.start.items():
        loads = layout.is_load(name) and layout.role_of[name] == layout.role_of[first]
        between = layout.start[first] < start < layout.start[last]
        if loads and between and layout.in_loop(name):
            yield name


def _moved(layout: Layout, handoff: Handoff, places: Iterable[Handoff]) -> Iterator[Handoff]:
    """``handoff`` to the first one of ``places`` that its role comes to, if that is in time."""
    role, number = layout.role_of[handoff.target], handoff.number
    earlier = [h for h in places if layout.role_of[h.target] == role and h.number == number]
    if earlier:
        place = min(earlier, key=lambda h: layout.start[h.target])
        later = handoff.later or (handoff.target if handoff.target != place.target else "")
        signal = replace(handoff.signal, slots=place.signal.slots)
        moved = replace(handoff, signal=signal, target=place.target, later=later)
        if layout.start[place.target] <= layout.start[handoff.target] and _in_time(layout, moved):
            yield moved


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

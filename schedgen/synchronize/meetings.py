"""Where the warps of a role, or the threads of a warp, have to wait for each other.

Hand-offs between roles are made of arrivals by all threads, so they order all warps of one role
before all of another. What is left are accesses of one role to bytes that another of its threads
touches: a product reads what threads have written, a tile is read in another division than it was
written in. The first such access that nothing orders gets a meeting right before the second one,
with the fences and wait_groups that it needs; then each meeting is taken out again if the rest will
do. Where warps keep to bytes of their own, and only their threads do not, each warp meets alone,
which takes no barrier and lets no warp wait for another one.

Meetings of several roles (`schedgen.synchronize.together`) are there before; whatever they order
needs none of one role.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from schedgen.ordering.conflicts import Conflict, Kind, conflicts
from schedgen.ordering.deadlock import deadlock_findings
from schedgen.ordering.graph import event_graph
from schedgen.ordering.orders import Orders
from schedgen.program.model import EVERY, FIRST, FenceKind, Program
from schedgen.program.operations import Engine
from schedgen.program.warps import by_warps, part_of, same_warp
from schedgen.reasons import Reason, ReasonKind
from schedgen.synchronize.build import ProgramError
from schedgen.synchronize.layout import Layout
from schedgen.synchronize.merge import separate
from schedgen.synchronize.parts import Fenced, Meeting, Part, Synchronization


def meet(layout: Layout, made: Synchronization) -> Synchronization:
    """``made`` with the meetings that the warps of its roles need, and the fences and wait_groups
    for them; none of these can be left out.

    Raises:
        ProgramError: warps of a role touch bytes of each other, and no meeting orders that.
    """
    program = _laid_out(layout, made)
    if program is by_warps(program):
        return made
    crossing = [c for c in conflicts(by_warps(program)) if _within_role(layout, c)]
    orders, before = Orders(by_warps(program)), made
    for conflict in crossing:
        if orders.ordered(conflict) is not None:
            continue
        made, orders = _ordered(layout, made, orders, conflict)
    made = _fewest(layout, before, made, crossing)
    return replace(made, meetings=tuple(_explained(layout, made)))


def _laid_out(layout: Layout, made: Synchronization) -> Program:
    return layout.lay_out(made, separate(layout, made))


def _within_role(layout: Layout, conflict: Conflict) -> bool:
    """Whether two parts of one role have the conflict."""
    (one, mine), (other, theirs) = part_of(conflict.before), part_of(conflict.after)
    return bool(mine and theirs) and mine != theirs and _same_role(layout, one, other)


def _same_role(layout: Layout, one: str, other: str) -> bool:
    return layout.role_of[one] == layout.role_of[other]


def _ordered(
    layout: Layout, made: Synchronization, orders: Orders, conflict: Conflict
) -> tuple[Synchronization, Orders]:
    """``made`` with what orders ``conflict``."""
    for more in _remedies(layout, orders, conflict):
        joined = made.joined(more)
        program = _laid_out(layout, joined)
        if any(deadlock_findings(event_graph(program))):
            continue
        found = Orders(by_warps(program))
        if found.ordered(conflict) is not None:
            return joined, found
    before, after = part_of(conflict.before)[0], part_of(conflict.after)[0]
    role, allocation = layout.role_of[after], conflict.first.allocation
    raise ProgramError(
        f"{before} and {after} touch the same bytes of {allocation} with different "
        f"{'threads' if _same_warp(conflict) else 'warps'} of role {role}, and no meeting of its "
        "warps orders them\n  fix: "
        + (
            "write to a buffer with storage of its own, so that no warp overwrites what others read"
            if before == after
            else f"give {before} or {after} a role of its own"
        )
    )


def _remedies(layout: Layout, orders: Orders, conflict: Conflict) -> Iterator[Synchronization]:
    before, after = part_of(conflict.before)[0], part_of(conflict.after)[0]
    fences = tuple(Fenced(before, kinds[0]) for kinds in orders.fences_after(conflict))
    kind = orders.fence_between(conflict)
    first = conflict.kind in (Kind.OUTER, Kind.TILES) and layout.in_loop(after)
    guard = FIRST if first else EVERY
    if kind is FenceKind.TMEM_AFTER:
        fences = (*fences, Fenced(after, kind, guard))
    waits = orders.program.operation[conflict.before].engine in (Engine.WGMMA, Engine.COPY_OUT)
    wait_groups = (before,) if waits else ()
    yield Synchronization((), fences, wait_groups, ())
    for among in ("warp", "role") if _same_warp(conflict) else ("role",):
        for when in dict.fromkeys((guard, EVERY)):
            yield Synchronization((), fences, wait_groups, (Meeting(after, when, (), among),))


def _fewest(
    layout: Layout, before: Synchronization, made: Synchronization, crossing: Sequence[Conflict]
) -> Synchronization:
    """``made`` without what was added to ``before`` and the rest makes superfluous, later parts
    first: meetings, then fences and wait_groups.
    """
    added: list[Part] = [m for m in made.meetings[::-1] if m not in before.meetings]
    added += [fenced for fenced in made.fences[::-1] if fenced not in before.fences]
    added += [
        wait_group for wait_group in made.wait_groups[::-1] if wait_group not in before.wait_groups
    ]
    for part in added:
        fewer = made.without(part)
        orders = Orders(by_warps(_laid_out(layout, fewer)))
        if all(orders.ordered(conflict) is not None for conflict in crossing):
            made = fewer
    return made


def _explained(layout: Layout, made: Synchronization) -> Iterator[Meeting]:
    """The meetings, each with what would be out of order without it: within a role, or among all
    that meet.
    """
    for meeting in made.meetings:
        orders = Orders(by_warps(_laid_out(layout, made.without(meeting))))
        asked = conflicts(orders.program)
        if meeting.among != "roles":
            asked = [conflict for conflict in asked if _within_role(layout, conflict)]
        lost = [conflict for conflict in asked if orders.ordered(conflict) is None]
        yield replace(meeting, protects=tuple(dict.fromkeys(_reason(layout, c) for c in lost)))


def _reason(layout: Layout, conflict: Conflict) -> Reason:
    over = conflict.second.write
    before, after = part_of(conflict.before)[0], part_of(conflict.after)[0]
    if _same_warp(conflict) and _same_role(layout, before, after):
        kind = ReasonKind.OVERWRITES_WITHIN if over else ReasonKind.USES_WITHIN
    else:
        kind = ReasonKind.OVERWRITES_ACROSS if over else ReasonKind.USES_ACROSS
    return Reason(kind, (after, before, conflict.first.allocation))


def _same_warp(conflict: Conflict) -> bool:
    """Whether both threads that have the conflict are in one warp."""
    return same_warp(part_of(conflict.before)[1], part_of(conflict.after)[1])

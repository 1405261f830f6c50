"""Where the warps of a role have to wait for each other.

Hand-offs between roles are made of arrivals by all threads, so they order all warps of one role
before all of another. What is left are accesses of one role to bytes that another of its warps
touches: a product reads what threads have written, a tile is read in another division than it was
written in. The first such access that nothing orders gets a meeting right before the second one,
with the fences and drains that it needs; then each meeting is taken out again if the rest will do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from schedgen.program.build import ProgramError
from schedgen.program.layout import Fenced, Layout, Meeting, Synchronization
from schedgen.program.merge import separate
from schedgen.program.model import EVERY, FIRST, Engine, FenceKind, Program
from schedgen.program.warps import by_warps, part_of
from schedgen.proof.conflicts import Conflict, Kind, conflicts
from schedgen.proof.events import EventGraph
from schedgen.proof.graph import deadlock_findings
from schedgen.proof.orders import Orders
from schedgen.reasons import Reason, ReasonKind


def meet(layout: Layout, made: Synchronization) -> Synchronization:
    """``made`` with the meetings that the warps of its roles need, none of which can be left out.

    Raises:
        ProgramError: warps of a role touch bytes of each other, and no meeting orders that.
    """
    program = _laid_out(layout, made)
    if program is by_warps(program):
        return made
    crossing = [c for c in conflicts(by_warps(program)) if _within_role(layout, c)]
    orders = Orders(by_warps(program))
    for conflict in crossing:
        if orders.ordered(conflict) is not None:
            continue
        made, orders = _ordered(layout, made, orders, conflict)
    made = _fewest(layout, made, crossing)
    return replace(made, meetings=tuple(_explained(layout, made, crossing)))


def _laid_out(layout: Layout, made: Synchronization) -> Program:
    return layout.lay_out(made, separate(layout, made))


def _within_role(layout: Layout, conflict: Conflict) -> bool:
    """Whether two warps of one role have the conflict."""
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
        if any(deadlock_findings(EventGraph(program))):
            continue
        found = Orders(by_warps(program))
        if found.ordered(conflict) is not None:
            return joined, found
    before, after = part_of(conflict.before)[0], part_of(conflict.after)[0]
    role, store = layout.role_of[after], conflict.first.store
    raise ProgramError(
        f"{before} and {after} touch the same bytes of {store} with different warps of role "
        f"{role}, and no meeting of its warps orders them\n  fix: "
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
    drains = (before,) if waits else ()
    yield Synchronization((), fences, drains, ())
    yield Synchronization((), fences, drains, (Meeting(after, guard),))
    if guard == FIRST:
        yield Synchronization((), fences, drains, (Meeting(after),))


def _fewest(layout: Layout, made: Synchronization, crossing: Sequence[Conflict]) -> Synchronization:
    """``made`` without the meetings that the others make superfluous, later ones first."""
    for meeting in made.meetings[::-1]:
        fewer = made.without(meeting)
        orders = Orders(by_warps(_laid_out(layout, fewer)))
        if all(orders.ordered(conflict) is not None for conflict in crossing):
            made = fewer
    return made


def _explained(
    layout: Layout, made: Synchronization, crossing: Sequence[Conflict]
) -> Iterator[Meeting]:
    """The meetings, each with what would be out of order without it."""
    for meeting in made.meetings:
        orders = Orders(by_warps(_laid_out(layout, made.without(meeting))))
        lost = [conflict for conflict in crossing if orders.ordered(conflict) is None]
        yield replace(meeting, protects=tuple(dict.fromkeys(map(_reason, lost))))


def _reason(conflict: Conflict) -> Reason:
    over = conflict.second.write
    kind = ReasonKind.OVERWRITES_ACROSS if over else ReasonKind.USES_ACROSS
    before, after = part_of(conflict.before)[0], part_of(conflict.after)[0]
    return Reason(kind, (after, before, conflict.first.store))

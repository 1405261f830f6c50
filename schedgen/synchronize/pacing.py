"""Keeps roles to the order that a schedule has on a unit they share: orders of pace.

Nothing that a program computes depends on which role's product the tensor cores get first, so
synthesis leaves that to the machine. The schedule has decided it all the same. On the units that
somebody asks for, the operations of the loop are taken in the order of their start times, around
the II. What a role has there in a row is a *visit*; each visit is begun only when the one before
it, of another role, was issued: issued, not complete, so that the unit always has something to do.
Two warpgroups that take turns so are the ping-pong of FlashAttention-3.

A role arrives behind the last operation of its visit, and the next one waits before its first, at a
numbered barrier of the hardware: an arrival takes each warp one instruction there, and each thread
one at an mbarrier. Such a barrier is not initialized, so nothing passes it for free. The wait of
the first visit of all is let pass by the role that arrives there (`schedgen.program.model.Grant`).

All else is decided before, so a program without its orders of pace is the one that there would be
without them: no other claim rests on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from schedgen.errors import SchedgenError, suggest
from schedgen.machine import Machine
from schedgen.ordering.conflicts import Kind
from schedgen.ordering.orders import Orders
from schedgen.ordering.phases import phase_findings
from schedgen.ordering.reach import Span
from schedgen.program.model import Grant, Program, RoleProgram, Run
from schedgen.synchronize.build import ProgramError
from schedgen.synchronize.layout import Layout
from schedgen.synchronize.merge import assign
from schedgen.synchronize.parts import Paced, Synchronization


def check_units(machine: Machine, program: Program, units: Sequence[str]) -> None:
    """Whether ``units`` are such that serve one operation of ``program`` at a time: of ``machine``,
    or named by the spec. Raises SchedgenError if not.
    """
    used = {unit: None for operation in program.operations for unit, _ in operation.units}
    known = [name for name in {**machine.unit, **used} if machine.exclusive(name)]
    for unit in units:
        if unit in known:
            continue
        if unit in machine.unit:
            why = f"operations use {unit} at the same time, so the schedule has no order there"
            fix = f"use one of {', '.join(known)}"
        else:
            why = f"neither {machine.name} nor {program.kernel} has such a unit"
            fix = suggest(unit, known) or f"use one of {', '.join(known)}"
        raise SchedgenError(f"--pace {unit}: {why}; fix: {fix}")


def paced(
    layout: Layout, made: Synchronization, program: Program, units: Sequence[str]
) -> tuple[Program, Synchronization]:
    """``program``, laid out from ``made``, with the orders of the schedule on ``units``, but for
    those that it has anyway.

    Raises ProgramError: an order cannot be kept.
    """
    orders = tuple(order for unit in dict.fromkeys(units) for order in orders_of(layout, unit))
    if not orders:
        return program, made
    made = replace(made, paces=orders)
    for order in orders:
        fewer = replace(made, paces=tuple(o for o in made.paces if o != order))
        searched = Orders(_laid_out(layout, fewer))
        if keeps(searched, order) and not any(phase_findings(searched)):
            made = fewer
    return replace(_laid_out(layout, made), removals=program.removals), made


def _laid_out(layout: Layout, made: Synchronization) -> Program:
    return layout.lay_out(made, assign(layout, made, dict(made.slots)))


def keeps(orders: Orders, order: Paced) -> bool:
    """Whether a program, of which ``orders`` knows what orders its events, issues ``after`` after
    ``before`` as the schedule does, wherever a tile has both.
    """
    steps = _issues(orders)
    distance = order.distance + order.lag - order.after_lag
    reach = orders.reach(steps[order.before], Span(min(0, distance), max(0, distance)))
    return orders.find(reach, Kind.SAME, distance, steps[order.after]) is not None


def _issues(orders: Orders) -> dict[str, int]:
    """Operation -> the event at which it is issued."""
    return {
        event.step.action.operation: number
        for number, event in enumerate(orders.graph.events)
        if event.part == "step" and event.step and isinstance(event.step.action, Run)
    }


# -- the orders of a schedule ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Visit:
    """What a role has on a unit before another one's turn comes: from ``first`` to ``last``."""

    role: str
    first: str
    last: str


def orders_of(layout: Layout, unit: str) -> Iterator[Paced]:
    """Between the visits of ``unit`` that follow each other in the loop.

    Raises ProgramError: only one role uses it, or a role runs too far ahead of another one.
    """
    visits = _visits(layout, unit)
    if len(visits) < 2:
        who = f"only role {visits[0].role} uses it" if visits else "nothing uses it"
        raise ProgramError(
            f"{unit} has no order between roles: in the main loop {who}\n"
            f"  fix: leave --pace {unit} away"
        )
    ii, start = layout.schedule.ii_cycles, layout.start
    for one, other in pairwise([*visits, visits[0]]):
        begins = start[one.first] - layout.turn(one.first) * ii
        lag = (start[one.last] - begins) // ii
        over, after_lag = start[one.last] - lag * ii, layout.turn(other.first)
        distance = -((start[other.first] - after_lag * ii - over) // ii)
        if distance not in (0, 1):
            raise ProgramError(
                f"the order of {one.last} and {other.first} on {unit} cannot be kept: in the "
                f"schedule role {other.role} is more than one turn away from {one.role}\n"
                f"  fix: leave --pace {unit} away"
            )
        yield Paced(unit, one.last, lag, other.first, after_lag, distance)


def _visits(layout: Layout, unit: str) -> list[_Visit]:
    """All visits of an II, in the order of the schedule."""
    operations = layout.skeleton.operation
    users = [
        name
        for role in layout.schedule.roles
        for name in role.operations
        if layout.in_loop(name) and dict(operations[name].units).get(unit)
    ]
    ii, start = layout.schedule.ii_cycles, layout.start
    users.sort(key=lambda name: (start[name] % ii, start[name]))
    visits: list[_Visit] = []
    for name in users:
        role = layout.role_of[name]
        if visits and visits[-1].role == role:
            visits[-1] = replace(visits[-1], last=name)
        else:
            visits.append(_Visit(role, name, name))
    if len(visits) > 1 and visits[0].role == visits[-1].role:  # around the end of the II
        visits[0] = replace(visits[0], first=visits.pop().first)
    return visits


# -- programs --------------------------------------------------------------------------------------


def grants(program: Program, role: RoleProgram) -> Iterator[Grant]:
    """What ``role`` arrives for before its first tile: numbers of its barriers of pace that are
    waited for and that no step provides.
    """
    mine = {getattr(s.action, "barrier", None) for s in role.steps if s.action.do == "arrive"}
    for barrier in program.barriers:
        if barrier.kind == "pace" and barrier.name in mine:
            yield from (Grant(barrier.name, number) for number in barrier.skipped)


def unpaced(program: Program) -> Program:
    """``program`` without its orders of pace: what there would be if nobody had asked for any."""
    names = {barrier.name for barrier in program.barriers if barrier.kind == "pace"}
    return replace(
        program,
        barriers=tuple(barrier for barrier in program.barriers if barrier.name not in names),
        roles=tuple(without_barriers(role, names) for role in program.roles),
    )


def without_barriers(role: RoleProgram, names: set[str]) -> RoleProgram:
    """``role`` without its steps at barriers called so, and without what it grants there."""
    before, loop, after = (
        tuple(step for step in steps if getattr(step.action, "barrier", None) not in names)
        for steps in (role.before, role.loop, role.after)
    )
    enter = tuple(s for s in role.enter if not (isinstance(s, Grant) and s.barrier in names))
    return replace(role, before=before, loop=loop, after=after, enter=enter)

"""Where warps of several roles meet instead of handing off to each other.

Two warpgroups write halves of a tile, and each multiplies all of it. As hand-offs, each role
arrives, waits for the arrivals of the other one, and then has its own warps meet, because a product
reads what all of them wrote: three round trips, where each role goes on once all have come. A
meeting of all their warps at one numbered barrier of the hardware says the same in one.

That is so wherever operations of two or more roles, before which their warps meet anyway, each wait
for what all the others of these roles did before theirs, in the same iteration. What hands on to
somebody else, too, is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from schedgen.program.model import EVERY
from schedgen.program.operations import Engine
from schedgen.roles import RoleKind
from schedgen.synchronize.layout import Layout
from schedgen.synchronize.parts import Handoff, Meeting, Synchronization


def together(layout: Layout, made: Synchronization) -> Iterator[Meeting]:
    """Meetings of several roles that could stand for hand-offs and meetings of ``made``, as many
    roles together as there are, if the schedule has time and the machine barriers for them.
    """
    met = [m.operation for m in made.meetings if m.among == "role" and m.guard == EVERY]
    while met:
        group = met[:1]
        for other in met:
            if all(_await_each_other(layout, made, one, other) for one in group):
                group.append(other)
        met = [operation for operation in met if operation not in group]
        meeting = Meeting(group[0], among="roles", others=tuple(group[1:]))
        if len(group) > 1 and _in_time(layout, made, group) and _fits(layout, made, meeting):
            yield meeting


def _await_each_other(layout: Layout, made: Synchronization, one: str, other: str) -> bool:
    """Whether two operations wait for each other's roles, with all threads of both."""
    return (
        layout.role_of[one] != layout.role_of[other]
        and layout.section(one) == layout.section(other)
        and all(_whole(layout, layout.role_of[name]) for name in (one, other))
        and any(_told_before(layout, handoff, one, other) for handoff in made.handoffs)
        and any(_told_before(layout, handoff, other, one) for handoff in made.handoffs)
    )


def _whole(layout: Layout, role: str) -> bool:
    """Whether a role is all warps of a warpgroup, and not one of several teams."""
    found = next(r for r in layout.schedule.roles if r.name == role)
    return found.kind is RoleKind.WARPGROUP and dict(layout.kernel.teams).get(role, 1) == 1


def _told_before(layout: Layout, handoff: Handoff, teller: str, target: str) -> bool:
    """Whether ``handoff`` has ``target`` wait for what the role of ``teller`` does before that, in
    the same iteration; or once for each tile, outside of the loop.
    """
    signal = handoff.signal
    name = signal.operation
    awaited = layout.skeleton.operation[name].engine is Engine.WGMMA
    said = layout.ready_key(name) if awaited else layout.key(name, 0)
    return (
        handoff.target == target
        and handoff.number == signal.number
        and signal.number.per_tile != layout.in_loop(target)
        and layout.role_of[name] == layout.role_of[teller]
        and layout.section(name) == layout.section(teller)
        and layout.skeleton.operation[name].engine in (Engine.THREADS, Engine.WGMMA)
        and said < layout.key(teller, 0)
    )


def _in_time(layout: Layout, made: Synchronization, group: list[str]) -> bool:
    """Whether, in the schedule, each role comes there in time for the others: arriving right before
    its operation, and not right behind what the others wait for, keeps nobody waiting.
    """
    latest = max(_comes(layout, made, name) for name in group)
    first = min(layout.start[name] for name in group)
    return latest + layout.skeleton.handoff[1] <= first


def _comes(layout: Layout, made: Synchronization, operation: str) -> int:
    """The cycle of the schedule at which a role is done with what it does before ``operation``."""
    start, key = layout.start[operation], layout.key(operation, 0)
    ends = [
        _last(layout, operation, layout.done(name), 0)
        for name in made.wait_groups
        if _beside(layout, name, operation) and layout.ready_key(name)[1:] < key[1:]
    ]
    for name in layout.role_of:
        if _beside(layout, name, operation) and layout.key(name, 0)[1:] < key[1:]:
            tile = layout.skeleton.operation[name]
            threads = tile.engine is Engine.THREADS
            cycles = tile.latency[1] if threads else tile.hold[1]
            ends.append(_last(layout, operation, layout.start[name], cycles))
    return max((end for end in ends if end <= start), default=start)


def _beside(layout: Layout, name: str, operation: str) -> bool:
    """Whether two operations stand in one list of steps."""
    return (layout.role_of[name], layout.section(name)) == (
        layout.role_of[operation],
        layout.section(operation),
    )


def _last(layout: Layout, operation: str, at: int, cycles: int) -> int:
    """When what takes ``cycles`` from ``at`` on, in each turn of the loop, is over for the last
    time before ``operation``.
    """
    ago = layout.start[operation] - at
    if layout.in_loop(operation):
        ago %= layout.schedule.ii_cycles
    return layout.start[operation] - ago + cycles


def _fits(layout: Layout, made: Synchronization, meeting: Meeting) -> bool:
    """Whether the machine has numbered barriers for all meetings: one for each role whose warps
    meet, one for each meeting of several roles, and that of all threads.
    """
    every = (*made.meetings, meeting)
    roles = {layout.role_of[m.operation] for m in every if m.among == "role"}
    several = [m for m in every if m.among == "roles"]
    return 1 + len(roles) + len(several) <= layout.skeleton.capacities.named_barriers

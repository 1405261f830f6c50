"""A schedule unrolled over the iterations of one output tile.

Everything follows from the schedule alone. Times are model cycles; 0 is the start of the tile's
main loop. Long loops may be cut: whole periods are left out in the middle of the steady state,
where nothing but the main loop runs, and what comes after them moves up by as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from schedgen.schedule import Link as ScheduledLink
from schedgen.schedule import Schedule, ScheduledOperation, ScheduleError
from schedgen.visualize.occupancy import occupancies
from schedgen.visualize.tracks import lanes, schedule_tracks
from schedgen.visualize.view import (
    OUTSIDE,
    Arrow,
    Cut,
    Link,
    Slice,
    Track,
    Unrolled,
    split_name,
    to_json,
)

__all__ = [
    "OUTSIDE",
    "Arrow",
    "Cut",
    "Link",
    "Slice",
    "Track",
    "Unrolled",
    "check_schedule",
    "lanes",
    "links",
    "split_name",
    "to_json",
    "unroll",
]


def unroll(schedule: Schedule, *, cut: bool = False) -> Unrolled:
    """One tile of ``schedule``: all its iterations, or with ``cut`` only those that differ.

    Raises ScheduleError for a schedule that contradicts itself.
    """
    check_schedule(schedule)
    trips = max(schedule.tile.trips, 1)
    gap = _gap(schedule, trips) if cut else None
    shown = trips - (gap.iterations if gap else 0)
    slices = sorted(_slices(schedule, shown, gap), key=lambda s: (s.start, s.role, s.operation))
    tracks, slices = schedule_tracks(schedule, slices)
    by_name = {(s.operation, s.iteration): s.index for s in slices}
    return Unrolled(
        kernel=schedule.kernel,
        target=schedule.target,
        arch=schedule.arch,
        latencies=schedule.latencies,
        ii_cycles=schedule.ii_cycles,
        stages=schedule.stages,
        trips=trips,
        begin=min(s.start for s in slices),
        end=max(max(s.end, s.unit_end, s.hold_end) for s in slices),
        cut=gap,
        tracks=tracks,
        slices=slices,
        arrows=tuple(_arrows(schedule, by_name, shown, gap)),
        occupancies=occupancies(schedule, shown, lambda i: _number(i, gap)),
        critical_cycle=links(schedule.critical_cycle),
    )


def links(cycle: Iterable[ScheduledLink]) -> tuple[Link, ...]:
    """The links of a cycle of a schedule, with their reasons in words."""
    return tuple(Link(c.src, c.dst, c.cycles, c.distance, c.reason.text) for c in cycle)


def check_schedule(schedule: Schedule) -> None:
    """Refuses what a file may say although no solver would. Raises ScheduleError."""
    again = "solve it again"
    if schedule.ii_cycles < 1:
        raise ScheduleError(f"ii_cycles is {schedule.ii_cycles}, but a period is positive; {again}")
    if not schedule.ops:
        raise ScheduleError(f"this schedule has no operations; {again}")
    roles = {role.name for role in schedule.roles}
    for op in schedule.ops:
        if op.role not in roles:
            raise ScheduleError(f"{op.id} has role '{op.role}', which is not in 'roles'; {again}")
        if min(op.cycles, op.hold, op.latency) < 0:
            raise ScheduleError(f"{op.id} takes a negative number of cycles; {again}")
    body = {op.id for op in schedule.body}
    for what, edge in (
        *(("edge", edge) for edge in schedule.edges),
        *(("link", link) for link in schedule.critical_cycle),
    ):
        for end in (edge.src, edge.dst):
            if end not in body:
                raise ScheduleError(
                    f"{what} {edge.src} -> {edge.dst}: {end} is not in the main loop; {again}"
                )


def _gap(schedule: Schedule, trips: int) -> Cut | None:
    """What can be left out: whole periods after the first full one, clear of outer operations."""
    ii, length = schedule.ii_cycles, trips * schedule.ii_cycles
    outer = [op for op in schedule.ops if op.phase != "body"]
    heads = [_end(op) for op in outer if not _late(op, length)]
    tails = [op.start - length for op in outer if _late(op, length)]
    first = max(schedule.stages, -(-max(heads, default=0) // ii))
    # The loop still runs at the cut, and outer operations of the end start after it.
    shown = max(schedule.stages + 1, first, first - min(tails, default=0) // ii)
    if shown >= trips:
        return None
    return Cut(first * ii, first, trips - shown, (trips - shown) * ii)


def _late(op: ScheduledOperation, length: int) -> bool:
    """Whether an operation outside of the loop belongs to the end of the tile."""
    return 2 * op.start >= length


def _end(op: ScheduledOperation) -> int:
    return op.start + max(op.latency, op.hold, op.cycles)


def _number(shown: int, gap: Cut | None) -> int:
    """The iteration of the tile that is the ``shown``-th in the view."""
    return shown + gap.iterations if gap and shown >= gap.first else shown


def _slices(schedule: Schedule, shown: int, gap: Cut | None) -> Iterator[Slice]:
    exclusive = {unit.name for unit in schedule.units if unit.kind == "exclusive"}
    length = max(schedule.tile.trips, 1) * schedule.ii_cycles
    for op in schedule.ops:
        alone = op.unit in exclusive
        if op.phase != "body":
            back = gap.cycles if gap and _late(op, length) else 0
            yield _slice(op, op.start - back, OUTSIDE, op.phase, alone)
            continue
        for iteration in range(shown):
            turn = iteration + op.stage
            phase = (
                "prologue"
                if turn < schedule.stages - 1
                else "epilogue"
                if turn >= shown
                else "steady"
            )
            start = op.stage * schedule.ii_cycles + op.slot + iteration * schedule.ii_cycles
            yield _slice(op, start, _number(iteration, gap), phase, alone)


def _slice(
    op: ScheduledOperation, start: int, iteration: int, phase: str, exclusive: bool
) -> Slice:
    name, instance = split_name(op.id)
    return Slice(
        index=0,
        operation=op.id,
        name=name,
        instance=instance,
        kind=op.kind,
        iteration=iteration,
        phase=phase,
        unit=op.unit,
        exclusive=exclusive,
        role=op.role,
        start=start,
        # The file has cycles of exclusive units; others are used while the role is kept.
        unit_end=start + (op.cycles if exclusive else op.hold),
        hold_end=start + op.hold,
        end=start + op.latency,
    )


def _arrows(
    schedule: Schedule, by_name: dict[tuple[str, int], int], shown: int, gap: Cut | None
) -> Iterator[Arrow]:
    for edge in schedule.edges:
        for iteration in range(shown):
            if not 0 <= iteration + edge.distance < shown:
                continue
            yield Arrow(
                by_name[edge.src, _number(iteration, gap)],
                by_name[edge.dst, _number(iteration + edge.distance, gap)],
                edge.kind,
                edge.resource,
                edge.distance,
                edge.delay,
                edge.slack,
            )

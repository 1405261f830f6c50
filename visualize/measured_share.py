"""What becomes of the time of a role: operations, waits, clocks, and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedgen.schedule import Schedule
from schedgen.visualize.record import Record, Timed, label


@dataclass(frozen=True, slots=True)
class Share:
    """What becomes of an iteration of a role, or of its time between two loops, in cycles.

    Attributes:
        scope: ``iteration``, or ``tile``: from the last operation of a tile's loop to the first
            one of the next tile's.
        planned: how long that should take; None if the schedule does not say.
        clocks: reading and writing them.
        rest: arrivals, fences, addresses, the loops.
        longest: the wait, or operation waited for, that all waits for it make the longest.
        longest_cycles: how long that is.
    """

    role: str
    scope: str
    planned: float | None
    operations: float
    waits: float
    clocks: float
    rest: float
    longest: str = ""
    longest_cycles: float = 0.0

    @property
    def total(self) -> float:
        """How long it takes."""
        return self.operations + self.waits + self.clocks + self.rest


def between_loops(record: Record, schedule: Schedule, role: str) -> Share | None:
    """Of the tile in which that takes the median time; the first one counts if it is the only one.

    None if the role has no operation in its loop, or the record no second tile.
    """
    body = {op.id for op in schedule.body if op.role == role}
    mine = [one for one in record.timed if one.role == role]
    runs = [n for n, one in enumerate(mine) if one.kind == "run" and one.name in body]
    found: list[Share] = []
    for tile in range(len(record.trips) - 1):
        last = [n for n in runs if mine[n].tile == tile]
        first = [n for n in runs if mine[n].tile == tile + 1]
        if last and first:
            steps = mine[last[-1] : first[0] + 1]
            found.append(_share(steps, _planned(record, schedule, role), record.overhead[role]))
    later = sorted(found[1:] or found, key=lambda share: share.total)
    return later[len(later) // 2] if later else None


def _planned(record: Record, schedule: Schedule, role: str) -> float | None:
    """The same time in the schedule, if its tiles are as long as those of the record."""
    trips = schedule.tile.trips
    if set(record.trips) != {trips}:
        return None
    body = [op for op in schedule.body if op.role == role]
    last = max(op.start + op.hold for op in body) + (trips - 1) * schedule.ii_cycles
    return float(schedule.tile.period_cycles + min(op.start for op in body) - last)


def _share(steps: Sequence[Timed], planned: float | None, overhead: float) -> Share:
    """``steps``: from the last operation of a loop to the first one of the next, which bound it."""
    begin, end = steps[0].end, steps[-1].begin
    operations = 0.0
    waits: dict[str, float] = {}
    for one in steps[1:-1]:
        cycles = max(one.end - one.begin - overhead, 0.0)
        if one.kind == "run":
            operations += cycles
        else:
            name = label(one.kind, one.name, "")
            waits[name] = waits.get(name, 0.0) + cycles
    times = {time for one in steps[1:-1] for time in (one.begin, one.end)} | {end}
    clocks = overhead * len(times - {begin})
    total = sum(waits.values())
    rest = end - begin - operations - total - clocks
    longest = max(waits, key=lambda name: waits[name], default="")
    return Share(
        *(steps[0].role, "tile", planned, operations, total, clocks, rest),
        longest=longest,
        longest_cycles=waits.get(longest, 0.0),
    )

"""Measured against planned: a record of a kernel's events beside the schedule it was made from.

An operation's planned cycles are those for which it keeps its role: all of it if threads compute
it, its issue otherwise. The waits and wait_groups before an operation share one number: for how
long the schedule leaves the role idle before it. Measured are medians over the steady state, from
which the cost of the clocks is subtracted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median
from typing import TypeVar

from schedgen.schedule import Schedule, ScheduledOperation
from schedgen.visualize.measured_share import Share, between_loops
from schedgen.visualize.record import Record, RecordError, Timed

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Part:
    """One of several waits and wait_groups in a row: what it is and its median, in cycles."""

    kind: str
    name: str
    why: str
    measured: float
    count: int


@dataclass(frozen=True, slots=True)
class Row:
    """An operation, or all that a role waits for before one, in cycles.

    Attributes:
        section: before, loop or after.
        kind: ``operation``, ``wait``, or ``period`` for an iteration or a tile of a role.
        name: of the operation; of the one after the wait, empty at the end of a tile.
        planned: None if the schedule does not say.
        measured: the median; ``low`` and ``high`` are the first and the last tenth.
        count: of what it is the median.
        parts: what a wait consists of.
    """

    role: str
    section: str
    kind: str
    name: str
    planned: float | None
    measured: float
    low: float
    high: float
    count: int
    parts: tuple[Part, ...] = ()

    @property
    def difference(self) -> float | None:
        """Measured - planned."""
        return None if self.planned is None else self.measured - self.planned


@dataclass(frozen=True)
class Comparison:
    """A record beside its schedule: rows by role in the order of the program."""

    record: Record
    schedule: Schedule
    rows: tuple[Row, ...]
    shares: tuple[Share, ...]


def compare(record: Record, schedule: Schedule) -> Comparison:
    """Matches all events with the schedule. Raises RecordError if they do not belong together."""
    _check(record, schedule)
    roles = dict.fromkeys(one.role for one in record.timed)
    rows: list[Row] = []
    shares: list[Share] = []
    for role in roles:
        found = _Role(record, schedule, role)
        rows += found.rows()
        shares += found.share()
    return Comparison(record, schedule, tuple(rows), tuple(shares))


def _check(record: Record, schedule: Schedule) -> None:
    for what, mine, other in (
        ("kernel", record.kernel, schedule.kernel),
        ("target", record.target, schedule.arch),
        ("spec", record.spec_sha256, schedule.spec_sha256),
        ("cycles per iteration", record.ii_cycles, schedule.ii_cycles),
    ):
        if mine != other:
            raise RecordError(
                f"the record is of another schedule: its {what} is {mine}, here it is {other}; "
                "fix: give the spec, target and settings that the kernel was emitted with"
            )


@dataclass(frozen=True, slots=True)
class _Gap:
    """Waits in a row, the planned operation before them and the operation after them."""

    waits: tuple[Timed, ...]
    before: Timed | None
    after: Timed | None


class _Role:
    """What one role did."""

    def __init__(self, record: Record, schedule: Schedule, role: str) -> None:
        self.record, self.schedule, self.role = record, schedule, role
        self.planned = {op.id: op for op in schedule.ops}
        self.timed = [one for one in record.timed if one.role == role]
        self.overhead = record.overhead[role]
        self.whole = all(trips == schedule.tile.trips for trips in record.trips)

    def rows(self) -> list[Row]:
        """By place in the program, waits before what they are for; then iteration and tile."""
        found: list[tuple[tuple[int, int], Row]] = []
        runs = sorted((one for one in self.timed if one.kind == "run"), key=lambda t: t.place)
        for place, ones in groupby(runs, key=lambda t: t.place):
            found.append(((place, 1), self._operation(self._steady(list(ones), _itself))))
        gaps = sorted(self._gaps(), key=_gap_place)
        for place, ones in groupby(gaps, key=_gap_place):
            found.append(((place, 0), self._wait(self._steady(list(ones), _gap_end))))
        return [row for _, row in sorted(found, key=lambda f: f[0])] + self._periods()

    # -- operations and waits ------------------------------------------------------------------

    def _operation(self, ones: list[Timed]) -> Row:
        op = self.planned.get(ones[0].name)
        values = [self._cycles(one) for one in ones]
        planned = None if op is None else float(op.hold)
        return self._row(ones[0].section, "operation", ones[0].name, planned, values)

    def _wait(self, gaps: list[_Gap]) -> Row:
        end = _gap_end(gaps[0])
        name = "" if gaps[0].after is None else end.name
        planned = [cycles for gap in gaps if (cycles := self._idle(gap)) is not None]
        values = [sum(map(self._cycles, gap.waits)) for gap in gaps]
        parts: list[Part] = []
        waits = sorted((wait for gap in gaps for wait in gap.waits), key=_order(gaps))
        for _, same in groupby(waits, key=_order(gaps)):
            ones = list(same)
            one, cycles = ones[0], median(map(self._cycles, ones))
            parts.append(Part(one.kind, one.name, one.why, cycles, len(ones)))
        idle = float(median(planned)) if planned else None
        return self._row(end.section, "wait", name, idle, values, tuple(parts))

    def _gaps(self) -> Iterator[_Gap]:
        for _, tile in groupby(self.timed, key=lambda t: t.tile):
            waits: list[Timed] = []
            before: Timed | None = None
            for one in tile:
                if one.kind != "run":
                    waits.append(one)
                    continue
                if waits:
                    yield _Gap(tuple(waits), before, one)
                waits = []
                before = one if one.name in self.planned else before
            if waits:
                yield _Gap(tuple(waits), before, None)

    def _idle(self, gap: _Gap) -> float | None:
        """Cycles that the schedule leaves between the operations around a gap."""
        if gap.before is None or gap.after is None or gap.after.name not in self.planned:
            return None
        before, after = self.planned[gap.before.name], self.planned[gap.after.name]
        if not self.whole and self._crosses(before, after):
            return None
        begin = self._start(after, gap.after)
        return float(max(begin - self._start(before, gap.before) - before.hold, 0))

    def _crosses(self, before: ScheduledOperation, after: ScheduledOperation) -> bool:
        """Whether the time between them depends on the number of iterations."""
        if before.phase == after.phase == "body":
            return False
        end = self.schedule.tile.trips * self.schedule.ii_cycles
        early = {op.phase == "body" or op.start < end for op in (before, after)}
        return len(early) > 1

    def _start(self, op: ScheduledOperation, one: Timed) -> int:
        return op.start + (one.iteration * self.schedule.ii_cycles if op.phase == "body" else 0)

    # -- periods -------------------------------------------------------------------------------

    def _periods(self) -> list[Row]:
        """An iteration and a tile, from a first operation to the next one."""
        found: list[Row] = []
        if steps := self._iterations():
            planned = float(self.schedule.ii_cycles)
            found.append(self._row("loop", "period", "iteration", planned, steps))
        runs = [one for one in self.timed if one.kind == "run"]
        first = min(one.place for one in runs)
        begins = [t.begin for t in runs if t.place == first and t.iteration == 0]
        tiles = [float(b - a) for a, b in pairwise(begins)]
        if tiles := tiles[1:] or tiles:  # the first one begins with nothing in flight
            period = float(self.schedule.tile.period_cycles) if self.whole else None
            found.append(self._row("", "period", "tile", period, tiles))
        return found

    def _iterations(self) -> list[float]:
        loop = [one for one in self.timed if one.section == "loop" and one.kind == "run"]
        if not loop:
            return []
        first = min(one.place for one in loop)
        ones = self._steady([one for one in loop if one.place == first], _itself)
        return [
            float(b.begin - a.begin)
            for a, b in pairwise(ones)
            if (b.tile, b.iteration) == (a.tile, a.iteration + 1)
        ]

    def share(self) -> list[Share]:
        """Of an iteration, if the loop has two in the steady state, and between two loops."""
        steps = self._iterations()
        if not steps:
            return []
        loop = [row for row in self.rows() if row.section == "loop"]
        usual = max(row.count for row in loop)
        often = [row for row in loop if 2 * row.count > usual]  # not those once per tile
        operations = sum(row.measured for row in often if row.kind == "operation")
        waits = sum(row.measured for row in often if row.kind == "wait")
        clocks = self.record.clocks[self.role] * self.overhead
        rest = median(steps) - operations - waits - clocks
        planned = float(self.schedule.ii_cycles)
        inside = Share(self.role, "iteration", planned, operations, waits, clocks, rest)
        between = between_loops(self.record, self.schedule, self.role)
        return [inside, between] if between else [inside]

    # -- values --------------------------------------------------------------------------------

    def _cycles(self, one: Timed) -> float:
        return max(one.end - one.begin - self.overhead, 0.0)

    def _steady(self, ones: list[_T], where: Callable[[_T], Timed]) -> list[_T]:
        """Those in full turns of tiles after the first one, if there are any."""
        stages, trips = self.schedule.stages, self.record.trips

        def full(one: _T) -> bool:
            at = where(one)
            return at.section != "loop" or stages <= at.iteration < trips[at.tile] - stages

        later = [one for one in ones if where(one).tile > 0] or ones
        return [one for one in later if full(one)] or later

    def _row(
        self,
        section: str,
        kind: str,
        name: str,
        planned: float | None,
        values: Sequence[float],
        parts: tuple[Part, ...] = (),
    ) -> Row:
        ordered = sorted(values)
        tenth = len(ordered) // 10
        low, high = ordered[tenth], ordered[-1 - tenth]
        measured = float(median(ordered))
        return Row(
            self.role, section, kind, name, planned, measured, low, high, len(ordered), parts
        )


def _itself(one: Timed) -> Timed:
    return one


def _gap_end(gap: _Gap) -> Timed:
    return gap.waits[-1] if gap.after is None else gap.after


def _gap_place(gap: _Gap) -> int:
    return _gap_end(gap).place


def _order(gaps: list[_Gap]) -> Callable[[Timed], tuple[bool, int]]:
    """By when they come: those of the turn before first."""
    end = _gap_place(gaps[0])

    def key(wait: Timed) -> tuple[bool, int]:
        return wait.place <= end, wait.place

    return key

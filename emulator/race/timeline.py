"""What two warps did around a finding, in the order of a schedule that shows it."""

from __future__ import annotations

import linecache
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from schedgen.emulator.launched import Lines
from schedgen.emulator.order.findings import Access, Broken, Defect, Finding, Race
from schedgen.emulator.order.tracker import Queue
from schedgen.emulator.race.barriers import Barriers
from schedgen.emulator.race.places import Place
from schedgen.emulator.race.recorder import Recorder, Recording, Step, first_of

_AHEAD, _BEHIND = 8, 6
"""Steps of the two in front of the first access, and behind the second one."""
_HEAD, _TAIL = 14, 22
"""Rows at the beginning and the end that are shown where there are many; between them barriers."""
_BETWEEN = 16
_AROUND = 5
"""Lines of PTX and of the source in front of an access and behind it."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A warp with its asynchronous operations, or ``only`` itself or those of one ``queue``."""

    warp: int
    only: bool = False
    queue: Queue | None = None

    def does(self, step: Step) -> bool:
        """Whether a step is its own."""
        return step.warp == self.warp and (not self.only or step.queue is self.queue)


@dataclass(frozen=True, slots=True)
class Row:
    """A step, or several alike in a row.

    Attributes:
        column: 0 and 2 are the two agents, 1 others that have to do with their barriers.
        who: its warp.
        what: in words.
        barrier: by its name, empty if it is about none.
        place: in the source.
        mark: ``first`` or ``then`` for the accesses of the finding, ``at`` if it has one, or empty.
        waits: the warp cannot go on.
        times: how many steps alike.
        left_out: how many rows are left out in front of it.
    """

    column: int
    who: str
    what: str
    barrier: str
    place: Place
    mark: str = ""
    waits: bool = False
    times: int = 1
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Snippet:
    """Lines around one, by their numbers, as the source or the PTX has them."""

    file: str
    line: int
    lines: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Steps around a finding.

    Attributes:
        agents: how the columns are headed; the last one is empty if there is one agent.
        rows: in the order of the schedule.
        schedule: which one that is, in words.
        sources, codes: around each access, of the source and of the PTX.
    """

    agents: tuple[str, str]
    rows: tuple[Row, ...]
    schedule: str
    sources: tuple[Snippet | None, ...]
    codes: tuple[Snippet, ...]


class Drawer:
    """Makes timelines of one execution.

    Args:
        recorder: of the execution.
        lines: of the launch.
        barriers: of the launch.
        warps: of a CTA.
        schedule: in words.
    """

    def __init__(
        self, recorder: Recorder, lines: Lines, barriers: Barriers, warps: int, schedule: str
    ) -> None:
        self._steps = list(recorder.steps)
        self._lines = lines
        self._barriers = barriers
        self._warps = warps
        self._schedule = schedule

    def timeline(self, recording: Recording) -> Timeline:
        """The steps around a finding that was recorded."""
        columns = self._columns(recording)
        base = self._steps[0][0] if self._steps else 0
        end = recording.end - base
        begin = end if recording.begin is None else max(recording.begin - base, 0)
        low, high = self._window(columns, begin, end)
        seen = {
            step.barrier
            for _, step in self._steps[low:high]
            if step.barrier is not None and self._column(step, columns) != 1
        }
        warps = {agent.warp for agent in columns}
        accesses = _accesses(recording)
        marks = ("first", "then") if len(accesses) == 2 else ("at", "at")
        rows: list[Row] = []
        last: Step | None = None
        for at in range(low, high):
            step = self._steps[at][1]
            column = self._column(step, columns)
            if column == 1 and step.warp not in warps and step.barrier not in seen:
                continue
            mark = marks[1] if at == end else marks[0] if at == begin else ""
            if last is not None and last.same == step.same and not mark and not rows[-1].mark:
                rows[-1] = replace(rows[-1], times=rows[-1].times + 1)
                continue
            rows.append(self._row(step, column, mark))
            last = step
        ptx = [access.line for access in accesses] or _line_of(recording)
        return Timeline(
            self._agents(columns), tuple(_shortened(rows)), self._schedule,
            tuple(self._source(line) for line in ptx), tuple(map(self._code, ptx)),
        )  # fmt: skip

    def _columns(self, recording: Recording) -> tuple[Agent, ...]:
        accesses = _accesses(recording)
        if not accesses:
            return (Agent(self._steps[-1][1].warp),) if self._steps else (Agent(0),)
        if len(accesses) == 1:
            return (Agent(accesses[0].warp),)
        first, second = accesses
        if first.warp != second.warp:
            return Agent(first.warp), Agent(second.warp)
        if first.queue is second.queue:
            return (Agent(first.warp),)
        return Agent(first.warp, True, first.queue), Agent(first.warp, True, second.queue)

    def _column(self, step: Step, columns: Sequence[Agent]) -> int:
        for number, agent in enumerate(columns):
            if agent.does(step):
                return 2 * number
        return 1

    def _window(self, columns: Sequence[Agent], begin: int, end: int) -> tuple[int, int]:
        warps = {agent.warp for agent in columns}
        low, own = begin, 0
        while low > 0 and own < _AHEAD:
            low -= 1
            own += self._steps[low][1].warp in warps
        high, own = end + 1, 0
        while high < len(self._steps) and own < _BEHIND:
            own += self._steps[high][1].warp in warps
            high += 1
        return low, high

    def _row(self, step: Step, column: int, mark: str) -> Row:
        name = self._title(step)
        what = step.what.replace("{}", name)
        if step.phase is not None and not step.named:
            what += f", phase {step.phase}"
        return Row(
            column, self._who(step.warp), what, name, Place.at(self._lines, step.line), mark,
            step.waits,
        )  # fmt: skip

    def _title(self, step: Step) -> str:
        if step.barrier is None:
            return ""
        if not step.named:
            return self._barriers.title(step.barrier)
        number, which = step.barrier
        return f"named barrier {which}" if which >= 0 else f"the barrier of cluster {number}"

    def _who(self, warp: int) -> str:
        return f"warp {warp} of CTA {warp // self._warps}"

    def _agents(self, columns: Sequence[Agent]) -> tuple[str, str]:
        names = [
            f"{one.queue.value} of {self._who(one.warp)}" if one.queue else self._who(one.warp)
            for one in columns
        ]
        return names[0], names[1] if len(names) > 1 else ""

    def _source(self, line: int) -> Snippet | None:
        place = self._lines.location(line)
        if place is None or not (text := linecache.getlines(place.file)):
            return None
        return _around(place.file, place.line, text)

    def _code(self, line: int) -> Snippet:
        return _around("", line, self._lines.module.lines)


def timelines(
    recorder: Recorder, lines: Lines, barriers: Barriers, warps: int, schedule: str
) -> dict[Hashable, tuple[Finding, Timeline]]:
    """By their keys all findings that were recorded, as this schedule shows them."""
    drawer = Drawer(recorder, lines, barriers, warps, schedule)
    return {key: (one.finding, drawer.timeline(one)) for key, one in recorder.recordings.items()}


def _accesses(recording: Recording) -> tuple[Access, ...]:
    finding = recording.finding
    match finding:
        case Race(earlier=earlier, later=later):
            return earlier, later
        case Defect(access=access):
            first = first_of(finding)
            return (access,) if first is None else (first, access)
        case _:
            return ()


def _line_of(recording: Recording) -> list[int]:
    return [recording.finding.line] if isinstance(recording.finding, Broken) else []


def _around(file: str, line: int, text: Sequence[str]) -> Snippet:
    first, last = max(1, line - _AROUND), min(len(text), line + _AROUND)
    lines = tuple((at, text[at - 1].rstrip()) for at in range(first, last + 1))
    return Snippet(file, line, lines)


def _shortened(rows: list[Row]) -> list[Row]:
    """Rows between the accesses that are about no barrier go first, where there are too many."""
    if len(rows) <= _HEAD + _TAIL + _BETWEEN:
        return rows
    middle = range(_HEAD, len(rows) - _TAIL)
    about = [at for at in middle if rows[at].barrier or rows[at].mark]
    kept = {*range(_HEAD), *about[-_BETWEEN:], *range(len(rows) - _TAIL, len(rows))}
    kept.update(at for at in middle if rows[at].mark)
    shown: list[Row] = []
    left = 0
    for at, row in enumerate(rows):
        if at not in kept:
            left += row.times
            continue
        shown.append(replace(row, left_out=left))
        left = 0
    return shown

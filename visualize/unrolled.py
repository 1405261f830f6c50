"""The view that all pictures share: a schedule unrolled over the iterations of one output tile.

    slices       one for each operation in each iteration, and for what runs around the main loop
    arrows       the dependences between slices
    tracks       units and roles, each with as many lanes as it takes for no two slices to overlap
    occupancies  which version of which buffer has a slot of storage, from when to when

Everything follows from the schedule alone. Times are model cycles; 0 is the start of the tile's
main loop. Long loops may be cut: whole periods are left out in the middle of the steady state,
where nothing but the main loop runs, and what comes after them moves up by as much.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from schedgen.schedule import Schedule, ScheduledOperation, ScheduleError
from schedgen.visualize.occupancy import Occupancy, occupancies

FORMAT = 1
OUTSIDE = -1
"""The iteration of an operation that is not in the main loop."""

_NAME = re.compile(r"(?P<name>[^\[]+)(\[(?P<instance>.*)\])?")
_LINK = re.compile(
    r"(?P<src>.+) -> (?P<dst>.+): (?P<cycles>-?\d+) cycles, distance (?P<distance>-?\d+)"
    r" \((?P<reason>.*)\)"
)


@dataclass(frozen=True, slots=True)
class Slice:
    """One execution of an operation. All times in cycles.

    ``name``, ``instance``: ``QK[0]`` is instance ``0`` of ``QK``. ``iteration``: of the tile,
    OUTSIDE for what is not in the main loop. ``phase``: before, prologue, steady, epilogue or
    after. [start, unit_end) is when it has its unit, [start, hold_end) when it keeps its role,
    ``end`` when its result is there. ``exclusive``: nothing else runs on the unit meanwhile.
    The lanes are those of the tracks ``unit`` (none if empty) and ``role``.
    """

    index: int
    operation: str
    name: str
    instance: str
    kind: str
    iteration: int
    phase: str
    unit: str
    exclusive: bool
    role: str
    start: int
    unit_end: int
    hold_end: int
    end: int
    unit_lane: int = 0
    role_lane: int = 0


@dataclass(frozen=True, slots=True)
class Arrow:
    """A dependence between two slices, given by their indices; ``slack`` cycles to spare."""

    src: int
    dst: int
    kind: str
    resource: str
    distance: int
    delay: int
    slack: int


@dataclass(frozen=True, slots=True)
class Track:
    """A ``unit`` or ``role`` with its lanes. ``utilization``: of an iteration, for units."""

    kind: str
    name: str
    lanes: int
    exclusive: bool = False
    utilization: float = 0.0
    warps: int = 0
    registers: int = 0


@dataclass(frozen=True, slots=True)
class Cut:
    """``iterations`` of the loop are not shown: times from ``at`` on are ``cycles`` too small.

    ``first``: how many iterations are shown before the cut. A steady state looks the same
    everywhere: what runs across the cut goes on seamlessly.
    """

    at: int
    first: int
    iterations: int
    cycles: int


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a critical cycle: ``dst`` starts ``cycles`` after ``src``, ``distance`` periods
    later.
    """

    src: str
    dst: str
    cycles: int
    distance: int
    reason: str


@dataclass(frozen=True, slots=True)
class Unrolled:
    """One output tile of a schedule. ``begin`` and ``end`` bound all its slices, in cycles.

    ``planned``: times are those of a schedule, with its periods; else a program was executed, which
    has none, and whose loop is called steady throughout.
    """

    kernel: str
    target: str
    arch: str
    latencies: str
    ii_cycles: int
    stages: int
    trips: int
    begin: int
    end: int
    cut: Cut | None
    tracks: tuple[Track, ...]
    slices: tuple[Slice, ...]
    arrows: tuple[Arrow, ...]
    occupancies: tuple[Occupancy, ...]
    critical_cycle: tuple[Link, ...]
    planned: bool = True

    def on(self, track: Track) -> tuple[Slice, ...]:
        """The slices of ``track``, by start time."""
        return tuple(s for s in self.slices if track.name == getattr(s, track.kind))

    def place(self, one: Slice) -> int:
        """Which of the iterations that are shown ``one`` belongs to, as if none were left out."""
        late = self.cut is not None and one.iteration >= self.cut.first
        return one.iteration - (self.cut.iterations if self.cut and late else 0)

    @property
    def shown(self) -> int:
        """How many iterations are shown."""
        return self.trips - (self.cut.iterations if self.cut else 0)


def unroll(schedule: Schedule, *, cut: bool = False) -> Unrolled:
    """One tile of ``schedule``: all its iterations, or with ``cut`` only those that differ.

    Raises ScheduleError for a schedule that contradicts itself.
    """
    check_schedule(schedule)
    trips = max(schedule.tile.trips, 1)
    gap = _gap(schedule, trips) if cut else None
    shown = trips - (gap.iterations if gap else 0)
    slices = sorted(_slices(schedule, shown, gap), key=lambda s: (s.start, s.role, s.operation))
    tracks, slices = _with_lanes(schedule, slices)
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


def to_json(view: Unrolled) -> str:
    """``view`` as one JSON object, for tools: the fields of these classes under their names."""
    data = {"unrolled_format": FORMAT, "times": "cycles of the machine model", **asdict(view)}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def links(texts: Sequence[str]) -> tuple[Link, ...]:
    """The links of a cycle as a schedule file has them. Raises ScheduleError."""
    found: list[Link] = []
    for text in texts:
        match = _LINK.fullmatch(text)
        if match is None:
            raise ScheduleError(f"'{text}' is no link of a critical cycle; solve it again")
        found.append(
            Link(
                match["src"],
                match["dst"],
                int(match["cycles"]),
                int(match["distance"]),
                match["reason"],
            )
        )
    return tuple(found)


def split_name(operation: str) -> tuple[str, str]:
    """``EXP[0,1]`` is ``EXP`` and ``0,1``."""
    match = _NAME.fullmatch(operation)
    return (match["name"], match["instance"] or "") if match else (operation, "")


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
    links(schedule.critical_cycle)
    body = {op.id for op in schedule.body}
    for edge in schedule.edges:
        for end in (edge.src, edge.dst):
            if end not in body:
                raise ScheduleError(
                    f"edge {edge.src} -> {edge.dst}: {end} is not in the main loop; {again}"
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


def _with_lanes(
    schedule: Schedule, slices: list[Slice]
) -> tuple[tuple[Track, ...], tuple[Slice, ...]]:
    """Tracks with lanes, and ``slices`` (by start time) with index and lanes."""
    used = {s.unit for s in slices}
    listed = [unit for unit in schedule.units if unit.name in used]
    more = sorted(used - {unit.name for unit in listed} - {""})
    units = {name: lanes([s for s in slices if s.unit == name], "unit_end") for name in used}
    roles = {
        role.name: lanes([s for s in slices if s.role == role.name], "hold_end")
        for role in schedule.roles
    }
    tracks = [
        Track("unit", u.name, _count(units[u.name]), u.kind == "exclusive", u.utilization)
        for u in sorted(listed, key=lambda u: u.kind)
    ]
    tracks += [Track("unit", name, _count(units[name])) for name in more]
    tracks += [
        Track("role", r.name, _count(roles[r.name]), warps=r.warps, registers=r.registers)
        for r in schedule.roles
    ]
    places = {name: iter(found) for name, found in units.items()}
    role_places = {name: iter(found) for name, found in roles.items()}
    placed = tuple(
        replace(s, index=n, unit_lane=next(places[s.unit]), role_lane=next(role_places[s.role]))
        for n, s in enumerate(slices)
    )
    return tuple(tracks), placed


def lanes(slices: Sequence[Slice], end: str) -> list[int]:
    """The lane of each of ``slices``, which are in order of start: the first one that is free.

    A slice without duration takes a cycle of its lane, so that it can be seen.
    """
    free: list[int] = []
    found: list[int] = []
    for one in slices:
        lane = next((n for n, time in enumerate(free) if time <= one.start), len(free))
        if lane == len(free):
            free.append(one.start)
        free[lane] = max(getattr(one, end), one.start + 1)
        found.append(lane)
    return found


def _count(found: list[int]) -> int:
    return max(found, default=0) + 1


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

"""A record as a trace for Perfetto, with the tracks of the schedule that it is compared with.

The trace has four processes: roles and units as planned, roles and units as measured. Both begin
the main loop of a tile at the same time: one cycle is one microsecond in both.

Software cannot see units. An operation of threads is drawn on its unit as long as its role is kept;
a copy or product from its issue to the first event that proves it complete: the end of a
wait_group, or the begin of an operation on another unit that depends on it. It may have been
complete before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from schedgen.kernel import Kind
from schedgen.schedule import Schedule, ScheduledOperation
from schedgen.visualize.measured import Comparison
from schedgen.visualize.perfetto import perfetto
from schedgen.visualize.record import Record, Timed, label
from schedgen.visualize.tracks import lanes
from schedgen.visualize.unrolled import unroll
from schedgen.visualize.view import OUTSIDE, Arrow, Slice, Track, Unrolled, split_name

_PROCESSES = 10
"""Added to the numbers of processes of the measured part."""
_ASYNCHRONOUS = (Kind.LOAD, Kind.STORE, Kind.MMA)

_Runs = dict[tuple[str, int, int], Timed]
"""(operation, tile, iteration) -> when it ran."""


def comparison_trace(comparison: Comparison) -> str:
    """The trace as JSON text: one object, an event in each line."""
    schedule = comparison.schedule
    planned = unroll(schedule)
    measured = measured_view(comparison.record, schedule)
    begin = min(planned.begin, measured.begin)
    first = json.loads(perfetto(replace(planned, begin=begin, kernel=f"{schedule.kernel} planned")))
    second = json.loads(
        perfetto(replace(measured, begin=begin, kernel=f"{schedule.kernel} measured"))
    )
    flows = sum(event["ph"] == "s" for event in first["traceEvents"])
    events = [*first["traceEvents"], *(_apart(event, flows) for event in second["traceEvents"])]
    about = {
        **first["otherData"],
        "device": comparison.record.device,
        "block": comparison.record.block,
        "extents": dict(comparison.record.extents),
        "time": "1 us of the trace is 1 cycle, of the machine model or of the SM",
    }
    lines = ",\n".join(json.dumps(event, ensure_ascii=False) for event in events)
    head = json.dumps(about, ensure_ascii=False)
    return f'{{"displayTimeUnit": "ns", "otherData": {head}, "traceEvents": [\n{lines}\n]}}\n'


def _apart(event: dict[str, Any], flows: int) -> dict[str, Any]:
    """An event of the measured part, in processes of its own and flows after those of the plan."""
    found = {**event, "pid": event["pid"] + _PROCESSES, "tid": event["tid"] + 1000 * _PROCESSES}
    if "id" in found:
        found["id"] += flows  # Perfetto takes numbers only
    if event["name"] == "process_sort_index":
        found["args"] = {"sort_index": found["pid"]}
    return found


def measured_view(record: Record, schedule: Schedule) -> Unrolled:
    """The record as the view that pictures are made of.

    Time 0 is where the main loop of the second tile begins, or of the first if there is no other.
    """
    runs = {(t.name, t.tile, t.iteration): t for t in record.timed if t.kind == "run"}
    zero = _zero(record, schedule, runs)
    ops = {op.id: op for op in schedule.ops}
    wait_groups = {
        (t.name, t.tile, t.iteration - t.lag): t for t in record.timed if t.kind == "wait_group"
    }
    found: list[Slice] = []
    for one in record.timed:
        op = ops.get(one.name) if one.kind == "run" else None
        complete = _complete(one, op, schedule, runs, wait_groups) if op else one.end
        found.append(_slice(one, op, complete, schedule, zero))
    tracks, slices = _on_tracks(found, schedule)
    return Unrolled(
        kernel=schedule.kernel,
        target=schedule.target,
        arch=schedule.arch,
        latencies=schedule.latencies,
        ii_cycles=schedule.ii_cycles,
        stages=schedule.stages,
        trips=max(record.trips),
        begin=min(s.start for s in slices),
        end=max(max(s.hold_end, s.end) for s in slices),
        cut=None,
        tracks=tracks,
        slices=slices,
        arrows=tuple(_arrows(schedule, record, slices, zero, runs)),
        occupancies=(),
        critical_cycle=(),
    )


def _zero(record: Record, schedule: Schedule, runs: _Runs) -> int:
    """When the first operation of the main loop should have started at 0."""
    op = min(schedule.body, key=lambda op: op.start)
    tile = min(1, len(record.trips) - 1)
    return runs[op.id, tile, 0].begin - op.start


def _complete(
    one: Timed,
    op: ScheduledOperation,
    schedule: Schedule,
    runs: _Runs,
    wait_groups: dict[tuple[str, int, int], Timed],
) -> int:
    """When an operation is known to be complete; the end of its issue if nothing tells."""
    if op.kind not in _ASYNCHRONOUS:
        return one.end
    units = {other.id: other.unit for other in schedule.ops}
    proofs = [
        runs[edge.dst, one.tile, one.iteration + edge.distance].begin
        for edge in schedule.edges
        if edge.src == op.id and units[edge.dst] != op.unit and op.phase == "body"
        if (edge.dst, one.tile, one.iteration + edge.distance) in runs
    ]
    wait_group = wait_groups.get((one.name, one.tile, one.iteration))
    proofs += [wait_group.end] if wait_group else []
    return min((end for end in proofs if end >= one.end), default=one.end)


def _slice(
    one: Timed, op: ScheduledOperation | None, complete: int, schedule: Schedule, zero: int
) -> Slice:
    text = label(one.kind, one.name, one.why)
    name, instance = split_name(one.name) if one.kind == "run" else (text, "")
    exclusive = {unit.name for unit in schedule.units if unit.kind == "exclusive"}
    unit = op.unit if op else ""
    return Slice(
        index=0,
        operation=text,
        name=name,
        instance=instance,
        kind=op.kind if op else one.kind,
        iteration=one.iteration if one.section == "loop" else OUTSIDE,
        phase=f"{one.section}, tile {one.tile}",
        unit=unit,
        exclusive=unit in exclusive,
        role=one.role,
        start=one.begin - zero,
        unit_end=complete - zero,
        hold_end=one.end - zero,
        end=complete - zero,
    )


def _on_tracks(
    slices: list[Slice], schedule: Schedule
) -> tuple[tuple[Track, ...], tuple[Slice, ...]]:
    """The tracks of the schedule, with lanes for what is on them here; slices by start time."""
    ordered = sorted(slices, key=lambda s: (s.start, s.hold_end))
    tracks: list[Track] = []
    at: dict[tuple[str, int], int] = {}
    unit_tracks = [("unit", unit.name) for unit in schedule.units]
    for kind, name in [*unit_tracks, *(("role", role.name) for role in schedule.roles)]:
        here = [n for n, one in enumerate(ordered) if getattr(one, kind) == name]
        found = lanes([ordered[n] for n in here], "unit_end" if kind == "unit" else "hold_end")
        at |= {(kind, n): lane for n, lane in zip(here, found, strict=True)}
        if here:
            tracks.append(Track(kind, name, max(found) + 1))
    placed = tuple(
        replace(one, index=n, unit_lane=at.get(("unit", n), 0), role_lane=at["role", n])
        for n, one in enumerate(ordered)
    )
    return tuple(tracks), placed


def _arrows(
    schedule: Schedule, record: Record, slices: tuple[Slice, ...], zero: int, runs: _Runs
) -> Iterator[Arrow]:
    """Dependences of the main loop between what was recorded; slack as it was."""
    at = {(s.role, s.operation, s.start): s.index for s in slices}
    for edge in schedule.edges:
        for tile, trips in enumerate(record.trips):
            for iteration in range(trips):
                src = runs.get((edge.src, tile, iteration))
                dst = runs.get((edge.dst, tile, iteration + edge.distance))
                if src is None or dst is None:
                    continue
                yield Arrow(
                    at[src.role, src.name, src.begin - zero],
                    at[dst.role, dst.name, dst.begin - zero],
                    edge.kind,
                    edge.resource,
                    edge.distance,
                    edge.delay,
                    dst.begin - src.begin - edge.delay,
                )

"""A schedule as a trace for the Perfetto UI (ui.perfetto.dev) and chrome://tracing.

The format is Chrome's JSON trace format: text, read by both. A process holds the tracks of all
roles, another one those of all units; a track with several lanes has a thread for each of them, so
that no two slices of a thread overlap. A flow arrow is a dependence, from role to role.

Times are model cycles: one cycle is one microsecond of the trace, because whole microseconds are
the only times that readers of this format keep exactly. Perfetto drops events before time 0, so the
trace starts there, and what a slice calls ``start`` is its time from the start of the main loop.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from schedgen.visualize.view import OUTSIDE, Slice, Track, Unrolled

ROLES, UNITS = 1, 2
UNIT_OF_TIME = "1 us of the trace is 1 cycle of the machine model"

Event = dict[str, Any]


def perfetto(view: Unrolled) -> str:
    """``view`` as JSON text: one object, an event in each line."""
    threads = _threads(view)
    events = [
        *_process(ROLES, f"{view.kernel} on {view.target}: roles, 1 us = 1 cycle"),
        *_process(UNITS, f"{view.kernel} on {view.target}: units, 1 us = 1 cycle"),
        *(event for track in view.tracks for event in _names(track, threads)),
        *(event for one in view.slices for event in _slice(one, view.begin, threads)),
        *(event for number in range(len(view.arrows)) for event in _arrow(view, number, threads)),
    ]
    about = {
        "kernel": view.kernel,
        "target": view.target,
        "arch": view.arch,
        "latencies": view.latencies,
        "ii_cycles": view.ii_cycles,
        "stages": view.stages,
        "iterations": view.trips,
        "time": UNIT_OF_TIME,
        "main_loop_starts_at": -view.begin,
        "not_shown": view.cut.iterations if view.cut else 0,
    }
    lines = ",\n".join(json.dumps(event, ensure_ascii=False) for event in events)
    head = json.dumps(about, ensure_ascii=False)
    return f'{{"displayTimeUnit": "ns", "otherData": {head}, "traceEvents": [\n{lines}\n]}}\n'


Threads = dict[tuple[str, str, int], tuple[int, int]]


def _threads(view: Unrolled) -> Threads:
    """(kind of track, its name, lane) -> process and thread."""
    found: Threads = {}
    for track in view.tracks:
        process = ROLES if track.kind == "role" else UNITS
        for lane in range(track.lanes):
            found[track.kind, track.name, lane] = process, 1000 * process + len(found)
    return found


def _process(process: int, name: str) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}
    order = {"sort_index": process}
    yield {"ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "args": order}


def _names(track: Track, threads: Threads) -> Iterator[Event]:
    for lane in range(track.lanes):
        process, thread = threads[track.kind, track.name, lane]
        place = {"ph": "M", "pid": process, "tid": thread}
        name = track.name if lane == 0 else f"{track.name} (lane {lane + 1})"
        yield {**place, "name": "thread_name", "args": {"name": name}}
        yield {**place, "name": "thread_sort_index", "args": {"sort_index": thread}}


def _slice(one: Slice, zero: int, threads: Threads) -> Iterator[Event]:
    """A slice of its role, and one of its unit if it has one; each at least one cycle long."""
    args = {
        "iteration": "outside of the loop" if one.iteration == OUTSIDE else one.iteration,
        "phase": one.phase,
        "kind": one.kind,
        "role": one.role,
        "unit": one.unit,
        "start": one.start,
        "result_at": one.end,
    }
    tracks = [("role", one.role, one.role_lane, one.hold_end)]
    if one.unit:
        tracks.append(("unit", one.unit, one.unit_lane, one.unit_end))
    for kind, name, lane, end in tracks:
        process, thread = threads[kind, name, lane]
        yield {
            "ph": "X",
            "name": one.operation,
            "cat": kind,
            "pid": process,
            "tid": thread,
            "ts": one.start - zero,
            "dur": max(end - one.start, 1),
            "args": args,
        }


def _arrow(view: Unrolled, number: int, threads: Threads) -> Iterator[Event]:
    arrow = view.arrows[number]
    args = {"slack": arrow.slack, "delay": arrow.delay, "distance": arrow.distance}
    for phase, index in (("s", arrow.src), ("f", arrow.dst)):
        one = view.slices[index]
        process, thread = threads["role", one.role, one.role_lane]
        event: Event = {
            "ph": phase,
            "id": number + 1,
            "name": arrow.resource,
            "cat": arrow.kind,
            "pid": process,
            "tid": thread,
            "ts": one.start - view.begin,
            "args": args,
        }
        # To the slice around that time, not to the next one that begins.
        yield {**event, "bp": "e"} if phase == "f" else event

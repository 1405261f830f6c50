"""Tracks: units and roles, with enough lanes that no two slices of a lane overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from schedgen.program.model import Program
from schedgen.schedule import Schedule
from schedgen.visualize.view import Slice, Track


def schedule_tracks(
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


def _count(found: list[int]) -> int:
    return max(found, default=0) + 1


def program_tracks(
    program: Program, slices: list[Slice]
) -> tuple[tuple[Track, ...], tuple[Slice, ...]]:
    """Tracks with lanes, and ``slices`` (by start time) with index and lanes."""
    units = dict.fromkeys(sorted({s.unit for s in slices} - {""}))
    exclusive = {s.unit for s in slices if s.exclusive}
    tracks: list[Track] = []
    unit_lane: dict[int, int] = {}
    role_lane: dict[int, int] = {}
    for unit in sorted(units, key=lambda name: (name not in exclusive, name)):
        here = [s for s in slices if s.unit == unit]
        found = lanes(here, "unit_end")
        unit_lane.update((s.index, lane) for s, lane in zip(here, found, strict=True))
        tracks.append(Track("unit", unit, max(found) + 1, unit in exclusive))
    for role in program.roles:
        here = [s for s in slices if s.role == role.name]
        found = lanes(here, "hold_end")
        role_lane.update((s.index, lane) for s, lane in zip(here, found, strict=True))
        count = max(found, default=0) + 1
        tracks.append(Track("role", role.name, count, warps=role.warps, registers=role.registers))
    return tuple(tracks), tuple(
        replace(one, index=n, unit_lane=unit_lane.get(one.index, 0), role_lane=role_lane[one.index])
        for n, one in enumerate(slices)
    )


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

"""Records as a GPU would make them, of a kernel that runs exactly as its program says, with known
cycles for everything.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import astuple
from functools import cache
from typing import Any

from schedgen.codegen.event_table import CALIBRATION, Event
from schedgen.codegen.events import Clocks
from schedgen.driver.solution import solve
from schedgen.machine_file import read_machine
from schedgen.program.model import Program, RoleProgram, Run, Wait, WaitGroup
from schedgen.program.sequence import Instance, sequence
from schedgen.schedule import Schedule
from schedgen.spec.reader import read_spec
from schedgen.synchronize.synthesize import synthesize

CLOCK, LATE, WAIT, WAIT_GROUP = 10, 3, 7, 11
"""Cycles: of a clock; of an operation beyond its plan; of each wait; of each wait_group."""
START = (1 << 32) - 5000
"""The first clock: the others go past the end of 32 bits."""

Cost = Callable[[Instance, int], int]
"""A step that runs, and what it takes by default -> what it takes."""


@cache
def made(spec: str, target: str, *settings: str) -> tuple[Schedule, Program]:
    """A shipped spec's schedule and program; ``settings`` are NAME=VALUE."""
    values = dict(text.split("=", 1) for text in settings)
    solution = solve(read_spec(spec), read_machine(target), settings=values)
    kernel, machine = solution.problem.kernel, solution.problem.machine
    return solution.schedule, synthesize(kernel, solution.schedule, machine)


def record_of(
    schedule: Schedule, program: Program, trips: list[int], cost: Cost = lambda _, cycles: cycles
) -> dict[str, Any]:
    """The data of a record with tiles of these trip counts."""
    table = Clocks(program).table
    holds = {op.id: op.hold for op in schedule.ops}
    words: dict[str, list[int]] = {}
    for role, sizes in zip(program.roles, table.roles, strict=True):
        events = [event for event in table.events if event.role == role.name]
        tiles = [0] * sum(sizes.of_tile(count) for count in trips)
        now = START + CLOCK * CALIBRATION
        for instance, event, at in _steps(role, events, sizes, trips, tiles):
            action = instance.step.action
            if isinstance(action, Run):
                cycles = holds.get(action.operation, 0) + LATE
            else:
                cycles = WAIT_GROUP if isinstance(action, WaitGroup) else WAIT
            if not tiles[at + event.begin]:
                now += CLOCK
                tiles[at + event.begin] = now % (1 << 32)
            now += CLOCK + cost(instance, cycles)
            tiles[at + event.end] = now % (1 << 32)
        clocks = [(START + CLOCK * n) % (1 << 32) for n in range(CALIBRATION)]
        words[role.name] = clocks + tiles
    return {
        "event_format": 1,
        "kernel": schedule.kernel,
        "target": schedule.arch,
        "spec_sha256": schedule.spec_sha256,
        "ii_cycles": schedule.ii_cycles,
        "date": "2026-11-22",
        "device": "a synthetic GPU",
        "software": "none",
        "extents": {"m": 256},
        "block": 0,
        "microseconds": {"with_events": 11.0, "without": 10.0},
        "same_result": True,
        "roles": [astuple(role) for role in table.roles],
        "events": [astuple(event) for event in table.events],
        "words": words,
    }


def _steps(
    role: RoleProgram, events: list[Event], sizes: Any, trips: list[int], tiles: list[int]
) -> list[tuple[Instance, Event, int]]:
    """Steps that take time, as they are executed, with the first word of their section."""
    timed = [step for step in role.steps if isinstance(step.action, Run | Wait | WaitGroup)]
    event_of = {id(step): event for step, event in zip(timed, events, strict=True)}
    starts: list[int] = []
    for count in trips:
        starts.append(starts[-1] + sizes.of_tile(trips[len(starts) - 1]) if starts else 0)
        tiles[starts[-1]] = count
    found: list[tuple[Instance, Event, int]] = []
    for instance in sequence(role, trips):
        event = event_of.get(id(instance.step))
        if event is None:
            continue
        at = starts[instance.tile] + 1
        turns = trips[instance.tile] + sizes.shifts
        if event.section == "loop":
            at += sizes.before + (instance.iteration + event.shift) * sizes.loop
        elif event.section == "after":
            at += sizes.before + turns * sizes.loop
        found.append((instance, event, at))
    return found


def text_of(data: dict[str, Any]) -> str:
    return json.dumps(data)

"""A large schedule: copies of a small one that run side by side, each on units of its own."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any, cast

from schedgen.kernel import Space
from schedgen.program.file import read_program, to_json
from schedgen.program.model import Program
from schedgen.schedule import Schedule, read_schedule
from schedgen.visualize.report.source import Source


def side_by_side(schedule: Schedule, program: Program, copies: int) -> Source:
    """``copies`` copies of ``schedule`` and ``program``; the first keeps its names, copy k has a
    ``k.`` before all of them and starts k times 11 cycles later.
    """
    names = {op.id for op in schedule.ops} | {operation.name for operation in program.operations}
    names |= {role.name for role in schedule.roles} | {unit.name for unit in schedule.units}
    names |= {allocation.name for allocation in program.allocations} | {
        b.name for b in program.barriers
    }
    names |= {buffer.name for buffer in schedule.buffers}
    schedules, programs = [schedule], [program]
    for number in range(1, copies):
        renaming = {name: f"{number}.{name}" for name in names}
        schedules.append(_later(_renamed_schedule(schedule, renaming), 11 * number))
        text = json.dumps(_renamed(json.loads(to_json(program)), renaming))
        programs.append(_elsewhere(read_program(text), number))
    lists = ("ops", "units", "edges", "roles", "buffers")
    whole = {name: tuple(x for s in schedules for x in getattr(s, name)) for name in lists}
    parts = ("allocations", "operations", "barriers", "roles")
    joined: dict[str, Any] = {
        name: tuple(x for p in programs for x in getattr(p, name)) for name in parts
    }
    room = program.capacities
    larger = {f.name: getattr(room, f.name) * copies for f in fields(room)}
    larger["max_registers"] = room.max_registers
    joined["capacities"] = replace(room, **larger)
    return Source(replace(schedule, **whole), replace(program, **joined))


def _elsewhere(program: Program, number: int) -> Program:
    """``program`` with its storage behind that of the copies before it."""
    room = {Space.SMEM: program.capacities.smem_bytes, Space.TMEM: program.capacities.tmem_columns}
    allocations = (
        replace(allocation, address=allocation.address + number * room[allocation.space])
        if allocation.space in room
        else allocation
        for allocation in program.allocations
    )
    return replace(program, allocations=tuple(allocations))


def _renamed_schedule(schedule: Schedule, renaming: dict[str, str]) -> Schedule:
    data = json.loads(schedule.to_json())
    kept = {key: data.pop(key) for key in ("certificate", "critical_cycle", "tile")}
    return read_schedule(json.dumps(_renamed(data, renaming) | kept))


def _later(schedule: Schedule, cycles: int) -> Schedule:
    ii = schedule.ii_cycles
    ops = tuple(
        replace(op, start=op.start + cycles, **_place(op.start + cycles, ii))
        if op.phase == "body"
        else op
        for op in schedule.ops
    )
    return replace(schedule, ops=ops)


def _place(start: int, ii: int) -> dict[str, int]:
    return {"stage": start // ii, "slot": start % ii}


def _renamed(data: Any, renaming: dict[str, str]) -> Any:
    """``data`` with every text that is a name replaced. A role may be called as an engine is."""
    if isinstance(data, dict):
        kept = {"engine", "space", "kind", "phase", "class", "do"}
        entries = cast("dict[str, Any]", data).items()
        return {k: v if k in kept else _renamed(v, renaming) for k, v in entries}
    if isinstance(data, list):
        return [_renamed(value, renaming) for value in cast("list[Any]", data)]
    return renaming.get(data, data) if isinstance(data, str) else data

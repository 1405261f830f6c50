"""Operations, dependences, units and roles as the page shows them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from schedgen.program.model import (
    Arrive,
    Commit,
    Fence,
    FenceKind,
    Program,
    RoleProgram,
    Run,
    Wait,
    WaitGroup,
    When,
)
from schedgen.schedule import Schedule
from schedgen.synchronize.text import show_step
from schedgen.visualize.unrolled import Unrolled, links, split_name


def operations(schedule: Schedule, program: Program | None) -> list[dict[str, Any]]:
    """Every operation with its place, its storage and the synchronization around it.

    ``family`` numbers operations that differ only in their instance: they share a colour.
    """
    families: dict[str, int] = {}
    around = synchronization(program) if program else {}
    known = program.operation if program else {}
    rows: list[dict[str, Any]] = []
    for op in schedule.ops:
        base, instance = split_name(op.id)
        made = known.get(op.id)
        rows.append(
            {
                "id": op.id,
                "base": base,
                "instance": instance,
                "family": families.setdefault(base, len(families)),
                "kind": op.kind,
                "phase": op.phase,
                "unit": op.unit,
                "role": op.role,
                "start": op.start,
                "stage": op.stage,
                "slot": op.slot,
                "cycles": op.cycles,
                "hold": op.hold,
                "latency": op.latency,
                "engine": str(made.engine) if made else "",
                "units": [list(use) for use in made.units] if made else [],
                "storage": _storage(made.accesses) if made else [],
                "waits": around.get(op.id, ([], []))[0],
                "signals": around.get(op.id, ([], []))[1],
            }
        )
    return rows


def _storage(accesses: tuple[Any, ...]) -> list[dict[str, Any]]:
    """What an operation touches: reads and writes of one piece are one row."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for access in accesses:
        key = access.buffer, access.version.text
        row = rows.setdefault(
            key,
            {
                "buffer": access.buffer,
                "allocation": access.allocation,
                "version": access.version.text,
                "bytes": (access.rows[1] - access.rows[0]) * (access.bytes[1] - access.bytes[0]),
                "reads": False,
                "writes": False,
            },
        )
        row["writes" if access.write else "reads"] = True
    return list(rows.values())


def synchronization(program: Program) -> dict[str, tuple[list[Any], list[Any]]]:
    """Operation -> steps that its role executes for it before, and after it.

    A wait belongs to the operation that follows, an arrival to the one before it, or to the one
    that a wait_group has just waited for.
    """
    found: dict[str, tuple[list[Any], list[Any]]] = {}
    for role in program.roles:
        for section in (role.before, role.loop, role.after):
            pending: list[Any] = []
            last = ""
            for step in section:
                row = {"text": show_step(step), "barrier": getattr(step.action, "barrier", None)}
                row |= {"do": step.action.do, "why": step.why, "when": _when(step.guard)}
                match step.action:
                    case Run(operation=name):
                        found.setdefault(name, ([], []))[0].extend(pending)
                        pending, last = [], name
                        if step.action.barrier is not None:
                            found[name][1].append(row)
                    case Wait():
                        pending.append(row)
                    case WaitGroup(operation=name):
                        last = name
                        found.setdefault(last, ([], []))[1].append(row)
                    case Fence(kind=FenceKind.TMEM_AFTER | FenceKind.REGISTERS):
                        pending.append(row)
                    case Arrive(bytes=size) if size:
                        pending.append(row)
                    case Fence() | Arrive() | Commit():
                        found.setdefault(last, ([], []))[1].append(row)
    return found


def _when(guard: Any) -> str:
    """In which iterations a step runs, '' for all of them."""
    if guard.kind is not When.EVERY:
        return f"{guard.kind} iteration"
    low = f"i >= {guard.low}" if guard.low else ""
    high = f"i < n - {guard.high}" if guard.high else ""
    return ", ".join(filter(None, (low, high)))


def dependences(schedule: Schedule) -> list[dict[str, Any]]:
    """The edges with their slack; ``critical``: on the cycle that limits the decided order."""
    cycle = {(link.src, link.dst) for link in links(schedule.critical_cycle)}
    return [
        {
            "src": edge.src,
            "dst": edge.dst,
            "distance": edge.distance,
            "class": edge.kind,
            "resource": edge.resource,
            "bytes": edge.bytes,
            "delay": edge.delay,
            "slack": edge.slack,
            "critical": (edge.src, edge.dst) in cycle,
        }
        for edge in schedule.edges
    ]


def roles(schedule: Schedule | None, program: Program | None) -> list[dict[str, Any]]:
    """Roles with warps, registers, operations, and the steps of their programs."""
    steps = {role.name: _sections(role) for role in program.roles} if program else {}
    listed = schedule.roles if schedule else program.roles if program else ()
    return [
        {
            "name": role.name,
            "warps": role.warps,
            "registers": role.registers,
            "steps": steps.get(role.name, []),
        }
        for role in listed
    ]


def _sections(role: RoleProgram) -> list[dict[str, Any]]:
    titles = {"before": "for each tile", "loop": "main loop", "after": "after the loop"}
    return [
        {
            "title": titles[name],
            "steps": [
                {
                    "do": step.action.do,
                    "text": show_step(step),
                    "operation": step.action.operation if isinstance(step.action, Run) else None,
                    "barrier": getattr(step.action, "barrier", None),
                    "shift": step.shift,
                    "when": _when(step.guard),
                    "why": step.why,
                }
                for step in getattr(role, name)
            ],
        }
        for name in titles
        if getattr(role, name)
    ]


def timeline(view: Unrolled) -> dict[str, Any]:
    """Tracks and slices of the unrolled tile. A slice is a list to keep the page small.

    Its entries: operation, iteration (-1 outside of the loop), phase, start, end on the unit, end
    on the role, end of the latency, lane on the unit, lane on the role.
    """
    count = Counter(s.unit for s in view.slices)
    return {
        "begin": view.begin,
        "end": view.end,
        "trips": view.trips,
        "shown": view.trips - (view.cut.iterations if view.cut else 0),
        "cut": None
        if view.cut is None
        else {"at": view.cut.at, "first": view.cut.first, "iterations": view.cut.iterations},
        "tracks": [
            {
                "kind": track.kind,
                "name": track.name,
                "lanes": track.lanes,
                "exclusive": track.exclusive,
                "utilization": track.utilization,
            }
            for track in view.tracks
            if track.kind == "role" or count[track.name]
        ],
        "slices": [
            [
                s.operation,
                s.iteration,
                s.phase,
                s.start,
                s.unit_end,
                s.hold_end,
                s.end,
                s.unit_lane,
                s.role_lane,
            ]
            for s in view.slices
        ],
    }

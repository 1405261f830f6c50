"""Memory maps: who owns which bytes, columns or registers from when to when.

An owner is one version of one piece of a buffer. It has its storage from the start of the first
operation that writes it to the end of the last one that reads it. Products read their operands
while they have the tensor unit; their result takes longer to arrive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from schedgen.kernel import Space
from schedgen.program.model import Program
from schedgen.program.operations import Access, Allocation, Engine
from schedgen.schedule import Schedule
from schedgen.visualize.occupancy import Occupancy
from schedgen.visualize.unrolled import OUTSIDE, Slice, Unrolled

_COLUMN_BYTES = 4
"""Of one lane, in a column of tensor memory (PTX ISA)."""
_REGISTER_BYTES = 4 * 128
"""A register of each thread of a warpgroup."""


@dataclass
class _Owner:
    """A version of a piece while its accesses are collected; times in cycles."""

    access: Access
    version: int
    iteration: int
    begin: int | None = None
    end: int = 0
    writers: dict[str, None] = field(default_factory=dict[str, None])
    readers: dict[str, None] = field(default_factory=dict[str, None])


def memory(program: Program | None, view: Unrolled, schedule: Schedule) -> list[dict[str, Any]]:
    """A panel for each memory space, and one for the registers of each role.

    Without a program the owners are those that the dependences of the schedule name.
    """
    if program is None:
        return list(_without_program(view, schedule))
    owners = list(_owners(program, view).values())
    room = program.capacities
    panels: list[dict[str, Any]] = []
    for space, what in (
        (Space.SMEM, ("shared memory", "bytes", room.smem_bytes)),
        (Space.TMEM, ("tensor memory", "columns", room.tmem_columns)),
    ):
        allocations = [
            allocation for allocation in program.allocations if allocation.space is space
        ]
        places = {s.name: _Place(s.address, s.size // s.slots, s.slots) for s in allocations}
        if places:
            panels.append(_panel(program, view, owners, places, space, what))
    panels.extend(_registers(program, view, owners, schedule))
    return panels


@dataclass(frozen=True)
class _Place:
    """Where an allocation begins, from one slot to the next, and slots. ``skipped``: what comes
    before the part of a slot that is drawn.
    """

    begin: int
    stride: int
    slots: int
    skipped: int = 0

    @property
    def end(self) -> int:
        return self.begin + self.stride * self.slots


def _owners(program: Program, view: Unrolled) -> dict[tuple[str, str, int], _Owner]:
    """All versions that the slices of ``view`` touch, by allocation, piece and version."""
    found: dict[tuple[str, str, int], _Owner] = {}
    for one, shown in _in_order(view):
        operation = program.operation.get(one.operation)
        for access in operation.accesses if operation else ():
            if shown < access.initial and one.iteration != OUTSIDE:
                continue
            number = access.version.at(0, shown)
            label = number if access.version.per_tile else (number - access.version.offset)
            owner = found.setdefault(
                (access.allocation, access.buffer, number),
                _Owner(access, number, one.iteration if not access.version.per_tile else label),
            )
            _touch(owner, access, one, operation is not None and operation.engine)
    return found


def _in_order(view: Unrolled) -> Iterator[tuple[Slice, int]]:
    """Slices with the number of their iteration among those shown: slots go on across the cut."""
    cut = view.cut
    for one in view.slices:
        skipped = cut.iterations if cut and one.iteration >= cut.first else 0
        yield one, max(one.iteration, 0) - skipped if one.iteration != OUTSIDE else 0


def _touch(owner: _Owner, access: Access, one: Slice, engine: Engine | bool) -> None:
    threads = engine is Engine.THREADS
    if access.write:
        owner.begin = one.start if owner.begin is None else min(owner.begin, one.start)
        owner.writers[one.operation] = None
        owner.iteration = one.iteration if len(owner.writers) == 1 else owner.iteration
    else:
        owner.readers[one.operation] = None
    owner.end = max(owner.end, one.end if threads or access.write else one.unit_end)


def _panel(
    program: Program,
    view: Unrolled,
    owners: list[_Owner],
    places: dict[str, _Place],
    space: Space,
    what: tuple[str, str, int],
) -> dict[str, Any]:
    title, unit, room = what
    rows = [
        _row(
            owner,
            program.allocation[owner.access.allocation],
            places[owner.access.allocation],
            view,
        )
        for owner in owners
        if owner.access.allocation in places
    ]
    return {
        "title": title,
        "space": space.value,
        "unit": unit,
        "room": room,
        "used": _peak(rows) if space is Space.REGISTERS else max(p.end for p in places.values()),
        "allocations": [
            {"name": name, "from": place.begin, "to": place.end, "slots": place.slots}
            for name, place in places.items()
        ],
        "owners": rows,
    }


def _peak(rows: list[dict[str, Any]]) -> int:
    """The most that is owned at one time. Registers of the dead serve others, wherever they are
    drawn.
    """
    changes = [(row["start"], row["to"] - row["from"]) for row in rows]
    changes += [(row["end"], row["from"] - row["to"]) for row in rows]
    live = most = 0
    for _, change in sorted(changes):
        live += change
        most = max(most, live)
    return most


def _row(owner: _Owner, allocation: Allocation, place: _Place, view: Unrolled) -> dict[str, Any]:
    access = owner.access
    slot = owner.version % allocation.slots
    base = place.begin + slot * place.stride - place.skipped
    low, high = _extent(access, allocation)
    begin = view.cut.at if owner.begin is None and view.cut else owner.begin
    return {
        "buffer": access.buffer,
        "allocation": allocation.name,
        "tenant": bool(access.order[0]),
        "slot": slot,
        "iteration": -1 if access.version.per_tile else owner.iteration,
        "start": view.begin if begin is None else begin,
        "end": owner.end,
        "from": base + low,
        "to": base + max(high, low + 1),
        "writers": list(owner.writers),
        "readers": list(owner.readers),
    }


def _extent(access: Access, allocation: Allocation) -> tuple[int, int]:
    """Where a piece begins and ends within its slot, in bytes, columns or registers.

    Columns of rows that lie one after the other in shared memory are no range of bytes; they get
    their share of the rows, in order.
    """
    if allocation.space is Space.TMEM:
        return access.bytes[0] // _COLUMN_BYTES, -(-access.bytes[1] // _COLUMN_BYTES)
    rows = access.rows[1] - access.rows[0]
    low, high = (access.rows[0] * allocation.row_bytes + rows * byte for byte in access.bytes)
    if allocation.space is Space.REGISTERS:
        return low // _REGISTER_BYTES, -(-high // _REGISTER_BYTES)
    return low, high


def _registers(
    program: Program, view: Unrolled, owners: list[_Owner], schedule: Schedule
) -> Iterator[dict[str, Any]]:
    """Registers have no addresses: what a role holds is stacked in the order of the program."""
    role_of = {op.id: op.role for op in schedule.ops}
    held: dict[str, list[_Owner]] = {role.name: [] for role in schedule.roles}
    for owner in owners:
        user = next(iter((*owner.writers, *owner.readers)), "")
        if program.allocation[owner.access.allocation].space is Space.REGISTERS and user in role_of:
            held[role_of[user]].append(owner)
    for role in schedule.roles:
        places: dict[str, _Place] = {}
        top = 0
        for allocation in (s for s in program.allocations if s.space is Space.REGISTERS):
            mine = [o.access for o in held[role.name] if o.access.allocation == allocation.name]
            if mine:
                ends = [_extent(access, allocation) for access in mine]
                low, high = min(end[0] for end in ends), max(max(end[1], 1) for end in ends)
                places[allocation.name] = _Place(top, high - low, allocation.slots, low)
                top = places[allocation.name].end
        if places:
            what = f"registers of {role.name}", "registers per thread", role.registers
            yield _panel(program, view, held[role.name], places, Space.REGISTERS, what)


def _without_program(view: Unrolled, schedule: Schedule) -> Iterator[dict[str, Any]]:
    for space, title, unit in (
        ("smem", "shared memory", "bytes"),
        ("tmem", "tensor memory", "columns"),
    ):
        mine = list(_for_a_tile([o for o in view.occupancies if o.space == space], schedule))
        if mine:
            top = max(o.address + o.size for o in mine)
            yield {
                "title": title,
                "space": space,
                "unit": unit,
                "room": top,
                "used": top,
                "allocations": [],
                "owners": [_occupied(o, schedule) for o in mine],
            }


def _for_a_tile(found: list[Occupancy], schedule: Schedule) -> Iterator[Occupancy]:
    """What one iteration hands to the next is updated in place: one owner for all of the loop."""
    carried = {edge.resource for edge in schedule.edges if edge.kind == "carried"}
    ends: dict[str, int] = {}
    for one in found:
        ends[one.buffer] = max(ends.get(one.buffer, one.end), one.end)
    for one in found:
        if one.buffer not in carried:
            yield one
        elif one.iteration == 0:
            yield replace(one, end=ends[one.buffer], iteration=OUTSIDE)


def _occupied(one: Occupancy, schedule: Schedule) -> dict[str, Any]:
    edges = [e for e in schedule.edges if e.resource == one.buffer]
    flows = [e for e in edges if e.kind in ("flow", "carried")]
    return {
        "buffer": one.buffer,
        "allocation": one.host or one.buffer,
        "tenant": bool(one.host),
        "slot": one.slot,
        "iteration": one.iteration,
        "start": one.start,
        "end": one.end,
        "from": one.address,
        "to": one.address + one.size,
        "writers": sorted({e.src for e in flows}),
        "readers": sorted({e.dst for e in flows}),
    }

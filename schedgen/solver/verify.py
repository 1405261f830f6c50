"""Checks a modulo schedule against the kernel, not against the constraints it was solved from.

The schedule is laid out over concrete iterations. It is correct if every read begins when its value
is visible, every value has been read before anything else is written to the same bytes, no unit
and no issuing warp does two things at once, and everything fits. Nothing here looks at the edges
of the dependence graph, at the solver's problem or at its model: a dependence that was never
derived, a delay that is wrong and a constraint that was never added are found as well.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Protocol

from schedgen.kernel import Kernel, Region, Space
from schedgen.machine import Machine, RoleClass
from schedgen.register_places import register_places
from schedgen.solver.decisions import Decisions
from schedgen.solver.verify_facts import Facts
from schedgen.solver.verify_storage import Timeline, check_sequence, check_storage

_WARPS_PER_WARPGROUP = 4
_REGISTER_STEP = 8
_BARRIER_BYTES = 1024  # mbarriers and scheduler words, in front of the tiles
_TILE_ALIGNMENT = 1024  # bytes: a repeat of the 128-byte swizzle
_SMALL_ALIGNMENT = 128  # bytes, of what is smaller than that
_BYTES_PER_REGISTER = 4 * 128  # one register in every thread of a warpgroup


class Question(Protocol):
    """All that a schedule is checked against; a problem of the solver has more, unseen here."""

    @property
    def kernel(self) -> Kernel: ...
    @property
    def machine(self) -> Machine: ...
    @property
    def end(self) -> str: ...


def verify(question: Question, decisions: Decisions) -> tuple[str, ...]:
    """Every way in which ``decisions`` is no correct schedule of the kernel of ``question`` on its
    machine; empty if it is one.

    Times are cycles at ``question.end`` (``low`` or ``high``) of the machine's intervals. Raises
    CostError for an operation that no rule prices.
    """
    line = Timeline(Facts(question.kernel, question.machine, question.end), decisions)
    _check_decisions(line)
    if not line.found:  # what is decided incompletely cannot be laid out
        _check_roles(line)
        check_storage(line)
        _check_units(line)
        _check_issue(line)
        _check_orders(line)
        _check_memory(line)
        _check_registers(line)
    return tuple(line.found.values())


def _check_decisions(line: Timeline) -> None:
    """Everything is decided, within the limits that the kernel sets."""
    made, facts, kernel = line.decisions, line.facts, line.facts.kernel
    if made.ii < 1:
        line.report(("ii",), f"an initiation interval of {made.ii} cycles")
    for name in facts.body:
        if name not in made.start:
            line.report(("start", name), f"{name} has no start time")
    names = facts.body_groups
    for name in names:
        leader = made.role.get(name)
        if leader not in names or made.role.get(leader) != leader:
            line.report(("role", name), f"{name} has no role")
    for region in kernel.regions:
        depth = made.depth.get(region.name, 0)
        if not region.depth.low <= depth <= region.depth.high:
            limits = f"{region.depth.low} to {region.depth.high}"
            line.report(("depth", region.name), f"{region.name} has {depth} slots, not {limits}")
        if not 0 <= line.home_number(region) < len(region.options):
            line.report(("place", region.name), f"nothing says where {region.name} is stored")
    written = {kernel.region_of(piece).ring for o in kernel.body for piece in o.writes}
    for ring in kernel.rings:
        shape = line.ring_shape(ring)
        if shape is None and ring.name in written:
            line.report(("ring", ring.name), f"nothing says how ring {ring.name} is filled")
        if shape is not None and not (
            shape.lags in ring.lags and ring.depth.low <= shape.depth <= ring.depth.high
        ):
            line.report(("ring", ring.name), f"ring {ring.name} has a shape it cannot have")


def _members(line: Timeline) -> dict[str, list[str]]:
    """The operations of each role."""
    members: dict[str, list[str]] = defaultdict(list)
    for name in line.facts.body:
        members[line.role(name)].append(name)
    return members


def _class_of(line: Timeline, operation: str) -> RoleClass:
    return line.facts.role_class(operation)


def _check_roles(line: Timeline) -> None:
    """A role is of one class, and does alone what only one role can do."""
    role_of: dict[str, set[str]] = defaultdict(set)
    pinned = _pinned(line)
    for role, names in _members(line).items():
        classes = {line.facts.costs[name].role for name in names}
        if len(classes) > 1:
            line.report(("class", role), f"{role} would be a {' and a '.join(sorted(classes))}")
        groups = {line.facts.group_of[name] for name in names}
        if len(groups) > 1 and _class_of(line, names[0]).per_unit:
            line.report(("units", role), f"one role for the units of {', '.join(sorted(groups))}")
        pins = {pin for name in names for pin in pinned[name]}
        if len(pins) > 1:
            line.report(("pins", role), f"one role is pinned as {' and as '.join(sorted(pins))}")
        for name in names:
            for reason in line.facts.bonds(line.facts.kernel.operation[name]):
                role_of[reason].add(role)
    for reason, roles in role_of.items():
        if len(roles) > 1:
            line.report(("bond", reason), f"{reason} is split over {', '.join(sorted(roles))}")


def _pinned(line: Timeline) -> dict[str, set[str]]:
    """Names of roles that each operation is bound to: its own, and through registers those of what
    shares them, also outside of the main loop.
    """
    kernel = line.facts.kernel
    held = {
        o.name: {
            place
            for piece in (*o.writes, *(read.piece for read in o.reads))
            if kernel.region_of(piece).space is Space.REGISTERS
            for place in register_places(kernel, piece)
        }
        for o in kernel.operations
    }
    pins = {o.name: {o.role} if o.role is not None else set[str]() for o in kernel.operations}
    before = -1
    while (known := sum(map(len, pins.values()))) != before:
        before = known
        of_piece: dict[str, set[str]] = defaultdict(set)
        for name, pieces in held.items():
            for piece in pieces:
                of_piece[piece] |= pins[name]
        for name, pieces in held.items():
            pins[name] = pins[name].union(*(of_piece[piece] for piece in pieces))
    return pins


def _check_units(line: Timeline) -> None:
    """Exclusive units serve one operation at a time; the others have enough throughput."""
    busy: dict[str, list[tuple[int, int, str, int]]] = defaultdict(list)
    for name in line.facts.body:
        for unit, cycles in line.facts.costs[name].units:
            for iteration in range(line.iterations):
                begin = line.time(name, iteration)
                busy[unit].append((begin, begin + cycles, name, iteration))
    for unit, intervals in busy.items():
        _check_apart(line, unit, intervals)
    rates = {unit for name in line.facts.body for unit, _ in line.facts.costs[name].rates}
    for unit in sorted(rates):
        needed = sum(dict(line.facts.costs[name].rates).get(unit, 0) for name in line.facts.body)
        if needed > line.decisions.ii:
            line.report(("rate", unit), f"{unit} has to work {float(needed)} cycles an iteration")


def _check_issue(line: Timeline) -> None:
    """A warpgroup waits, issues and arrives for one operation after another.

    A role that only hands work to units may run ahead, but not need more cycles than there are.
    """
    for role, names in _members(line).items():
        spans = {name: _span(line, name) for name in names}
        if _class_of(line, names[0]).issues_ahead:
            total = sum(lead + tail for lead, tail in spans.values())
            if total > line.decisions.ii:
                line.report(("busy", role), f"the role of {role} is busy {total} cycles")
            continue
        intervals: list[tuple[int, int, str, int]] = []
        for name, (lead, tail) in spans.items():
            for iteration in range(line.iterations):
                begin = line.time(name, iteration)
                intervals.append((begin - lead, begin + tail, name, iteration))
        _check_apart(line, f"the role of {role}", intervals)


def _span(line: Timeline, name: str) -> tuple[int, int]:
    """Cycles its role spends on ``name`` before its start, in waits, and from its start on."""
    facts, machine, mine = line.facts, line.facts.machine, line.role(name)
    waits = [group for group in facts.waits[name] if line.decisions.role.get(group) != mine]
    arrives = any(line.decisions.role.get(group) != mine for group in facts.arrives[name])
    tail = facts.hold(name) + (machine.cycles("arrive") if arrives else 0)
    return machine.cycles("wait") * len(waits), tail


def _check_apart(line: Timeline, what: str, intervals: list[tuple[int, int, str, int]]) -> None:
    last, holder = None, ("", 0)
    for begin, end, name, iteration in sorted(i for i in intervals if i[0] < i[1]):
        if last is not None and begin < last:
            text = (
                f"{what} is busy with {holder[0]} of iteration {holder[1]} until {last}, "
                f"{name} of iteration {iteration} needs it at {begin}"
            )
            line.report((what, name, holder[0]), text)
        if last is None or end > last:
            last, holder = end, (name, iteration)


def _check_orders(line: Timeline) -> None:
    """Fixed issue orders repeat every period."""
    for order in line.facts.kernel.orders:
        for iteration in range(line.iterations):
            passes = [(name, iteration + shift) for name, shift in order.sequence]
            name, when = passes[0]
            for one, other in pairwise([*passes, (name, when + 1)]):
                check_sequence(line, f"order {order.name}", one, other)


def _slots(line: Timeline, region: Region) -> int:
    """Slots of its own that ``region`` has."""
    return line.decisions.depth[region.name] if line.home(region).host is None else 0


def _check_memory(line: Timeline) -> None:
    """Shared memory and tensor memory hold all slots."""
    kernel, machine = line.facts.kernel, line.facts.machine
    smem, columns = _BARRIER_BYTES, 0
    for region in kernel.regions:
        if region.space is Space.SMEM and region.ring is None:
            smem += _padded(region) * _slots(line, region)
        if region.space is Space.TMEM and region.ring is None:
            columns += region.tmem_columns * _slots(line, region)
    for ring in kernel.rings:
        shape = line.ring_shape(ring)
        depth = ring.depth.low if shape is None else shape.depth
        regions = [kernel.region[name] for name in ring.regions]
        smem += depth * max((_padded(r) for r in regions if r.space is Space.SMEM), default=0)
        columns += depth * max(
            (r.tmem_columns for r in regions if r.space is Space.TMEM), default=0
        )
    if smem > machine.smem_bytes:
        line.report(("smem",), f"{smem} bytes of shared memory, there are {machine.smem_bytes}")
    if columns > machine.tmem_columns:
        line.report(("tmem",), f"{columns} columns of tensor memory of {machine.tmem_columns}")


def _padded(region: Region) -> int:
    step = _TILE_ALIGNMENT if region.slot_bytes >= _TILE_ALIGNMENT else _SMALL_ALIGNMENT
    return -(-region.slot_bytes // step) * step


def _check_registers(line: Timeline) -> None:
    """Tiles, temporaries and addresses fit into the registers, and all warps into the CTA."""
    machine = line.facts.machine
    total = narrow = warps = 0
    for role, names in _members(line).items():
        kind = _class_of(line, names[0])
        if kind.per_unit:
            continue
        if kind.issues_ahead:
            narrow, warps = max(narrow, kind.registers), warps + kind.warps
            continue
        need = kind.registers + _tile_registers(line, names)
        need += max(line.facts.costs[name].registers for name in names)
        need = -(-need // _REGISTER_STEP) * _REGISTER_STEP
        total, warps = total + need, warps + _WARPS_PER_WARPGROUP
        if need > machine.max_registers:
            line.report(("role registers", role), f"{role} needs {need} registers a thread")
    total += -(-narrow // _REGISTER_STEP) * _REGISTER_STEP
    if total > machine.registers_per_thread_sum:
        line.report(("registers",), f"all roles together need {total} registers a thread")
    if -(-warps // _WARPS_PER_WARPGROUP) > machine.warpgroups:
        line.report(("warps",), f"{warps} warps in {machine.warpgroups} warpgroups")


def _tile_registers(line: Timeline, names: list[str]) -> int:
    """Registers a thread keeps in the main loop for the tiles that ``names`` use."""
    kernel = line.facts.kernel
    pieces: set[str] = set()
    for name in names:
        operation = kernel.operation[name]
        pieces.update(operation.writes, (read.piece for read in operation.reads))
    kept: dict[str, int] = defaultdict(int)
    for name in sorted(pieces):
        region = kernel.region_of(name)
        if region.space is Space.REGISTERS and not region.guest:
            size = max(1, -(-kernel.piece[name].bytes // _BYTES_PER_REGISTER))
            kept[region.name] += size * line.decisions.depth[region.name]
    largest: dict[str, int] = defaultdict(int)
    for name, size in kept.items():  # those of a ring take largest in its only slot
        held = kernel.region[name].ring or name
        largest[held] = max(largest[held], size)
    return sum(largest.values())

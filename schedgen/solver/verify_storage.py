"""The storage half of :mod:`schedgen.solver.verify`: what every byte holds, value after value.

Where a value is stored follows from the decisions alone: a ring's slot is the version modulo the
depth; a tenant is in the slot of its host's version; regions that share a ring fill its slots in
turn. Values in one place have an order, and each must hand its bytes over to the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product

from schedgen.edges import RingOption, home_choice, ring_choice, ring_options
from schedgen.kernel import AliasOption, Piece, Region, Ring, Space
from schedgen.solver.decisions import Decisions
from schedgen.solver.verify_facts import Facts, Value

Instance = tuple[Value, int]


@dataclass
class Timeline:
    """A schedule laid out over concrete iterations, and what was found to be wrong with it."""

    facts: Facts
    decisions: Decisions
    found: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])

    def report(self, key: tuple[str, ...], message: str) -> None:
        """Notes a violation, once for all the iterations that it repeats in."""
        self.found.setdefault(key, message)

    def time(self, name: str, iteration: int) -> int:
        """Start of operation ``name`` in ``iteration``."""
        return self.decisions.start[name] + self.decisions.ii * iteration

    @property
    def iterations(self) -> int:
        """Enough to reach the steady state and see every overlap: all stages and three more."""
        start, facts = self.decisions.start, self.facts
        longest = max(max(facts.latency(name), facts.release(name)) for name in start)
        return (max(start.values()) - min(start.values()) + longest) // self.decisions.ii + 4

    @property
    def margin(self) -> int:
        """Iterations within which any storage is certainly used again."""
        kernel = self.facts.kernel
        depths = [*self.decisions.depth.values(), *(ring.depth.high for ring in kernel.rings)]
        lags = [lag for ring in kernel.rings for lags in ring.lags for lag in lags]
        skews = [option.skew for region in kernel.regions for option in region.options]
        return max(depths, default=1) + max(lags, default=0) + max(skews, default=0) + 1

    def role(self, name: str) -> str:
        """The role that issues operation ``name``."""
        return self.decisions.role[self.facts.group_of[name]]

    def after(self, one: str, other: str, cycles: int, *, complete: bool = False) -> int:
        """``cycles`` from the start of ``one``, and a hand-off if ``other`` is in another role.

        A unit that executes both in issue order needs no more than to be free again, unless ``one``
        has to be ``complete``.
        """
        costs, machine = self.facts.costs, self.facts.machine
        one_role = self.role(one) == self.role(other)
        for unit, busy in () if complete else costs[one].units:
            in_order = machine.in_order(unit, one_role=one_role)
            if in_order and unit in dict(costs[other].units):
                return busy
        return cycles + (costs[one].handoff if self.role(one) != self.role(other) else 0)

    def home_number(self, region: Region) -> int:
        """Which of its options ``region`` takes, -1 if that was not decided."""
        default = 0 if len(region.options) == 1 else -1
        return self.decisions.option.get(home_choice(region), default)

    def home(self, region: Region) -> AliasOption:
        """Where ``region`` is stored."""
        return region.options[self.home_number(region)]

    def ring_shape(self, ring: Ring) -> RingOption | None:
        """The decided depth and lags of ``ring``."""
        shapes, number = ring_options(ring), self.decisions.option.get(ring_choice(ring), -1)
        return shapes[number] if 0 <= number < len(shapes) else None


def check_storage(line: Timeline) -> None:
    """Every read sees its value: visible when the read begins, not overwritten before it ends."""
    kernel = line.facts.kernel
    values = line.facts.values
    for value in (value for taken in values.values() for value in taken):
        _check_reads(line, value)
    for region in kernel.regions:
        host = line.home(region).host
        if host is not None and (region.ring or kernel.region[host].ring):
            line.report(("ring host", region.name), f"{region.name} and {host} in a shared ring")
        if region.ring is None and host is None:
            _check_region(line, values, region)
    for ring in kernel.rings:
        shape = line.ring_shape(ring)
        if shape is not None:
            _check_ring(line, values, ring, shape)


def _check_reads(line: Timeline, value: Value) -> None:
    for (reader, distance), iteration in product(value.reads, range(line.iterations)):
        writer, later = value.writer, iteration + distance
        complete = _keeps(line, value, writer, value.piece, reader)
        latency = line.after(writer, reader, line.facts.latency(writer), complete=complete)
        ready, begin = line.time(writer, iteration) + latency, line.time(reader, later)
        if begin < ready:
            line.report(
                ("read", value.piece, writer, reader, str(distance)),
                f"{reader} of iteration {later} reads {value.piece} at cycle {begin}, but what "
                f"{writer} of iteration {iteration} writes is visible only at cycle {ready}",
            )


def _check_region(line: Timeline, values: dict[str, tuple[Value, ...]], owner: Region) -> None:
    """Histories of the bytes of ``owner``, in which other regions may be tenants."""
    kernel = line.facts.kernel
    inside = [r for r in kernel.regions if r is owner or line.home(r).host == owner.name]
    kept = {read.piece for operation in kernel.body for read in operation.reads} - set(values)
    used = {p.name: p for p in kernel.pieces if p.name in kept or p.name in values}
    stored = {name: p for name, p in used.items() if kernel.region[p.region] in inside}
    shift = {name: line.home(kernel.region[p.region]).column for name, p in stored.items()}
    for cell in _cells((piece, shift[name]) for name, piece in stored.items()):
        guests = sorted(name for name in cell if kernel.region[stored[name].region] is not owner)
        if len(guests) > 1 or (cell & kept and len(cell) > 1):
            what = " and ".join(sorted(cell))
            line.report(("shared", *sorted(cell)), f"{what} share bytes of {owner.name}")
        for one, other in _neighbours(line, values, owner, cell - kept, guests):
            regions = [kernel.region_of(value.piece) for value, _ in (one, other)]
            lent = [region for region in regions if region is not owner]
            if all(region.hazards for region in lent or regions):
                _check_handover(line, one, other)


def _cells(pieces: Iterable[tuple[Piece, int]]) -> set[frozenset[str]]:
    """Cuts storage into cells that each piece, moved along the row, covers wholly or not at all."""
    placed = [(p.name, p.row0, p.row1, p.byte0 + shift, p.byte1 + shift) for p, shift in pieces]
    rows = sorted({row for _, row0, row1, _, _ in placed for row in (row0, row1)})
    columns = sorted({column for *_, byte0, byte1 in placed for column in (byte0, byte1)})
    return {
        frozenset(name for name, r0, r1, c0, c1 in placed if r0 <= row < r1 and c0 <= column < c1)
        for row, column in product(rows, columns)
    }


def _neighbours(
    line: Timeline,
    values: dict[str, tuple[Value, ...]],
    owner: Region,
    cell: frozenset[str],
    guests: Sequence[str],
) -> Iterator[tuple[Instance, Instance]]:
    """What ``cell`` of each slot holds next to each other in time: host version, its tenant, ..."""
    kernel = line.facts.kernel
    depth = 1 if owner.per_tile else line.decisions.depth[owner.name]
    slots: dict[int, list[tuple[tuple[int, int, int, str], Instance]]] = defaultdict(list)
    for name in cell:
        skew = line.home(kernel.region_of(name)).skew if name in guests else 0
        for iteration in range(-line.margin, line.iterations + line.margin):
            version = iteration + skew
            for number, value in enumerate(values[name]):
                order = (version, int(name in guests), number, name)
                slots[version % depth].append((order, (value, iteration)))
    for history in slots.values():
        yield from pairwise(instance for _, instance in sorted(history, key=lambda entry: entry[0]))


def _check_ring(
    line: Timeline, values: dict[str, tuple[Value, ...]], ring: Ring, shape: RingOption
) -> None:
    """Fills are numbered through; a fill takes the slot of the one ``depth`` before it."""
    kernel, count = line.facts.kernel, len(ring.regions)
    filled = {
        region: [values[p.name] for p in kernel.pieces if p.region == region and p.name in values]
        for region in ring.regions
    }
    fills: dict[int, tuple[str, int]] = {}
    for place, region in enumerate(ring.regions):
        for iteration in range(-line.margin, line.iterations + line.margin):
            fills[(iteration + shape.lags[place]) * count + place] = region, iteration
    for number, (region, iteration) in fills.items():
        for taken in filled[region]:
            for one, other in pairwise(taken):
                _check_handover(line, (one, iteration), (other, iteration))
            if number + shape.depth in fills:
                follower, later = fills[number + shape.depth]
                for others in filled[follower]:
                    _check_handover(line, (taken[-1], iteration), (others[0], later))
            if number + 1 in fills:
                follower, later = fills[number + 1]
                for others in filled[follower]:
                    one, other = (taken[0].writer, iteration), (others[0].writer, later)
                    check_sequence(line, f"ring {ring.name}", one, other)


def _check_handover(line: Timeline, one: Instance, other: Instance) -> None:
    """``other`` is next in the same bytes: ``one`` has been read by then, or at least written."""
    (value, iteration), (successor, later) = one, other
    if not 0 <= iteration < line.iterations:
        return
    writer, begin = successor.writer, line.time(successor.writer, later)
    uses = [
        (name, iteration + distance, line.facts.release(name)) for name, distance in value.reads
    ]
    written = (value.writer, iteration, line.facts.latency(value.writer))
    for name, when, cycles in uses or [written]:
        complete = _keeps(line, value, name, successor.piece, writer)
        end = line.time(name, when) + line.after(name, writer, cycles, complete=complete)
        if begin < end and (name, when) != (writer, later):
            line.report(
                ("overwrite", value.piece, name, successor.piece, writer),
                f"{writer} of iteration {later} writes {successor.piece} at cycle {begin} over "
                f"{value.piece}, which {name} of iteration {when} needs until cycle {end}",
            )


def _keeps(line: Timeline, value: Value, name: str, piece: str, other: str) -> bool:
    """Whether ``value`` is in registers that ``name`` has until it is complete, even if a unit
    executes ``other``, which has ``piece`` there, after it: unless both have their results there.
    """
    kernel = line.facts.kernel
    if kernel.region_of(value.piece).space is not Space.REGISTERS:
        return False
    both = [value.piece in kernel.operation[who].writes for who in (name, other)]
    return value.piece != piece or not all(both)


def check_sequence(
    line: Timeline, reason: str, one: tuple[str, int], other: tuple[str, int]
) -> None:
    """Instance ``other`` is issued after ``one``: the issuer and a common unit are free again."""
    costs, (name, when), (follower, later) = line.facts.costs, one, other
    shared = [busy for unit, busy in costs[name].units if unit in dict(costs[follower].units)]
    queued = any(
        line.facts.machine.queue(unit) and unit in dict(costs[follower].units)
        for unit, _ in costs[name].units
    )
    issue = 0 if queued else line.facts.hold(name)
    begin, end = line.time(follower, later), line.time(name, when) + max([issue, *shared])
    if begin < end and one != other:
        line.report(
            ("sequence", reason, name, follower),
            f"{reason}: {follower} of iteration {later} starts at cycle {begin}, it follows "
            f"{name} of iteration {when}, which takes until cycle {end}",
        )

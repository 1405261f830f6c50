"""What :mod:`schedgen.solver.verify` holds a schedule against: prices, groups and hand-offs.

All of it is computed from kernel and machine, with nothing of the problem that was solved: what
:mod:`schedgen.solver.problem` gets wrong, a delay, a group or a wait, is no fact here. Only the
rules of the machine model are the same, because they say what is meant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from schedgen.kernel import LOADS, Kernel, Operation, Space
from schedgen.machine import Cost, Machine, RoleClass, price
from schedgen.register_places import register_places


@dataclass(frozen=True, slots=True)
class Value:
    """What one write leaves in a piece; ``reads``: who uses it, and how many iterations later."""

    piece: str
    writer: str
    reads: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Facts:
    """A kernel on a machine, priced for ``end`` (``low`` or ``high``) of its intervals."""

    kernel: Kernel
    machine: Machine
    end: str

    @cached_property
    def body(self) -> tuple[str, ...]:
        """The operations of the main loop, in order."""
        return tuple(operation.name for operation in self.kernel.body)

    @cached_property
    def costs(self) -> dict[str, Cost]:
        """Cycles of each operation; those of peeled iterations have none."""
        priced = (operation for operation in self.kernel.operations if not operation.boundary)
        return {operation.name: price(operation, self.machine) for operation in priced}

    @cached_property
    def values(self) -> dict[str, tuple[Value, ...]]:
        """The values that each piece takes in one iteration."""
        return values_of(self.kernel.body)

    @cached_property
    def group_of(self) -> dict[str, str]:
        """The group of each operation that has a price: all that one role must issue, named by the
        first of them.
        """
        sharing: dict[str, list[str]] = defaultdict(list)
        for operation in self.kernel.operations:
            for reason in self.bonds(operation):
                sharing[reason].append(operation.name)
        reasons = {o.name: tuple(self.bonds(o)) for o in self.kernel.operations}
        found: dict[str, str] = {}
        seen: set[str] = set()
        for first in self.costs:  # in the order of the spec
            if first in found:
                continue
            reached = [first]
            for name in reached:  # grows while it is walked
                found[name] = first
                for reason in reasons[name]:
                    if reason not in seen:
                        seen.add(reason)
                        reached.extend(sharing[reason])
        return {name: found[name] for name in self.costs}

    @cached_property
    def body_groups(self) -> frozenset[str]:
        """Names of the groups that have work in the main loop."""
        return frozenset(self.group_of[name] for name in self.body)

    def role_class(self, name: str) -> RoleClass:
        """The kind of role that operation ``name`` needs."""
        return self.machine.role[self.costs[name].role]

    def latency(self, name: str) -> int:
        """Cycles from the start of ``name`` until its result is visible."""
        return self.costs[name].latency.at(self.end)

    def hold(self, name: str) -> int:
        """Cycles from the start of ``name`` for which its role can issue nothing else."""
        return self.costs[name].hold.at(self.end)

    def release(self, name: str) -> int:
        """Cycles from the start of ``name`` until its operands may be overwritten."""
        return self.costs[name].release.at(self.end)

    def bonds(self, operation: Operation) -> Iterator[str]:
        """What only one role can do, and ``operation`` does: fill a queue or a shared ring, own
        registers, have a name.
        """
        cost = self.costs.get(operation.name)
        for unit, _ in cost.units if cost is not None else ():
            if self.machine.queue(unit):
                yield f"the queue of {unit}"
            elif cost is not None and self.machine.role[cost.role].per_unit:
                yield f"the unit {unit}"
        for piece in {*operation.writes, *(read.piece for read in operation.reads)}:
            region = self.kernel.region_of(piece)
            if region.space is Space.REGISTERS:
                for place in register_places(self.kernel, piece):
                    yield f"{place} in registers"
            if operation.kind in LOADS and piece in operation.writes and region.ring:
                yield f"filling ring {region.ring}"
        if operation.role is not None:
            yield f"pinned role {operation.role}"

    @cached_property
    def handoffs(self) -> dict[str, list[tuple[str, int]]]:
        """(writer, iterations since) of each value that an operation of the main loop reads and may
        have to wait for: not from its own group, nor through a queue, which is in order anyway.
        """
        found: dict[str, set[tuple[str, int]]] = defaultdict(set)
        for value in (value for taken in self.values.values() for value in taken):
            for reader, distance in value.reads:
                if self.group_of[reader] != self.group_of[value.writer] and not self._queued(
                    value.writer, reader
                ):
                    found[reader].add((value.writer, distance))
        place = {name: number for number, name in enumerate(self.body)}
        return {
            name: sorted(found[name], key=lambda source: (place[source[0]], source[1]))
            for name in self.body
        }

    def _queued(self, one: str, other: str) -> bool:
        """Whether a queue executes both operations."""
        used = {unit for unit, _ in self.costs[other].units}
        return any(unit in used and self.machine.queue(unit) for unit, _ in self.costs[one].units)

    @cached_property
    def waits(self) -> dict[str, set[str]]:
        """Groups that each operation waits for: a group waits once for what an instance writes."""
        known: set[tuple[str, str, int]] = set()
        found: dict[str, set[str]] = {name: set() for name in self.body}
        for name in self.body:
            for writer, distance in self.handoffs[name]:
                what = self.group_of[name], writer, distance
                if what not in known:
                    found[name].add(self.group_of[writer])
                known.add(what)
        return found

    @cached_property
    def arrives(self) -> dict[str, set[str]]:
        """Groups that each operation tells of its result."""
        found: dict[str, set[str]] = {name: set() for name in self.body}
        for name, sources in self.handoffs.items():
            for writer, _ in sources:
                found[writer].add(self.group_of[name])
        return found


def values_of(body: Sequence[Operation]) -> dict[str, tuple[Value, ...]]:
    """The values that each piece takes in one iteration, in the order of the loop body."""
    writes: dict[str, list[int]] = defaultdict(list)
    for place, operation in enumerate(body):
        for piece in operation.writes:
            writes[piece].append(place)
    reads: dict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
    for place, operation in enumerate(body):
        for read in operation.reads:
            before = [w for w in writes[read.piece] if w < place and read.distance == 0]
            for write in (before or writes[read.piece])[-1:]:
                distance = 0 if before else max(read.distance, 1)
                reads[read.piece, write].append((operation.name, distance))
    return {
        piece: tuple(Value(piece, body[w].name, tuple(reads[piece, w])) for w in places)
        for piece, places in writes.items()
        if places
    }

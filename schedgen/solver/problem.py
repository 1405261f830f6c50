"""The modulo scheduling problem of a kernel's main loop on a machine: what every solver and checker
starts from.

It prices the operations, forms the groups that must share a role, and turns each dependence into a
delay in cycles. It decides nothing. ``end`` says which end of the machine's intervals the schedule
must hold for: a schedule for the high latencies also holds for all lower ones, because start times
in a fixed order only ever move earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from schedgen.bounds import Constraint, Load
from schedgen.dependence import DependenceGraph, Edge, EdgeClass
from schedgen.errors import Diagnostic, SchedgenError
from schedgen.kernel import LOADS, Kernel, Operation, Space
from schedgen.machine import Cost, Machine, RoleClass, price
from schedgen.reasons import Reason, ReasonKind
from schedgen.register_places import register_places, taken_registers


class ProblemError(SchedgenError, ValueError):
    """The kernel cannot be scheduled at all; the message names the rule and a fix."""

    status = 1


@dataclass(frozen=True, slots=True)
class Group:
    """Operations that must be issued by one role: they share registers, a queue, a ring or a pinned
    role.
    """

    name: str
    role_class: RoleClass
    operations: tuple[str, ...]
    pinned: str | None


@dataclass(frozen=True, slots=True)
class Dependence:
    """An edge with its delay; ``handoff`` more cycles if its ends are in different roles."""

    edge: Edge
    delay: int
    handoff: int


@dataclass(frozen=True, slots=True)
class Synchronization:
    """Role cycles that an operation spends on others: waits before it starts, an arrive after it
    was issued.

    ``waits`` and ``arrives`` name the groups at the other side; the cost falls away where both
    share a role.
    """

    waits: tuple[str, ...]
    arrives: tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """Everything that a modulo schedule has to respect, in cycles."""

    kernel: Kernel
    machine: Machine
    end: str
    graph: DependenceGraph
    costs: Mapping[str, Cost]
    groups: tuple[Group, ...]
    dependences: tuple[Dependence, ...]
    synchronization: Mapping[str, Synchronization]

    @cached_property
    def body(self) -> tuple[str, ...]:
        return tuple(operation.name for operation in self.kernel.body)

    @cached_property
    def group_of(self) -> dict[str, Group]:
        return {name: group for group in self.groups for name in group.operations}

    @cached_property
    def body_groups(self) -> tuple[Group, ...]:
        """Groups with work in the main loop, in the order of the spec."""
        body = set(self.body)
        return tuple(group for group in self.groups if body & set(group.operations))

    def in_body(self, group: Group) -> tuple[str, ...]:
        body = set(self.body)
        return tuple(name for name in group.operations if name in body)

    def hold(self, name: str) -> int:
        return self.costs[name].hold.at(self.end)

    def latency(self, name: str) -> int:
        return self.costs[name].latency.at(self.end)

    @cached_property
    def exclusive_units(self) -> dict[str, tuple[str, ...]]:
        """Exclusive units and the operations of the main loop that use them."""
        users: dict[str, list[str]] = {}
        for name in self.body:
            for unit, _ in self.costs[name].units:
                users.setdefault(unit, []).append(name)
        return {unit: tuple(names) for unit, names in users.items()}

    def may_share_role(self, one: Group, other: Group) -> bool:
        """Whether two groups could be issued by the same role."""
        if one.role_class != other.role_class or one.role_class.per_unit:
            return False
        return one.pinned is None or other.pinned is None or one.pinned == other.pinned

    @cached_property
    def mergeable(self) -> tuple[tuple[Group, Group], ...]:
        """Pairs of main-loop groups whose common role is a decision."""
        return tuple(
            pair for pair in combinations(self.body_groups, 2) if self.may_share_role(*pair)
        )

    def mergeable_at(self, ii: int) -> tuple[tuple[Group, Group], ...]:
        """The pairs that could share a role at ``ii``: together they must not need more than ii
        cycles.
        """
        alone = {
            group.name: sum(self.hold(name) for name in self.in_body(group))
            for group in self.body_groups
        }
        return tuple((a, b) for a, b in self.mergeable if alone[a.name] + alone[b.name] <= ii)

    def loads(self) -> list[Load]:
        """Busy cycles per iteration of each unit, and of the warps that issue each group."""
        loads: list[Load] = []
        for unit, names in self.exclusive_units.items():
            parts = tuple((name, self.costs[name].cycles(unit)) for name in names)
            busy = Reason(ReasonKind.UNIT, (unit,))
            loads.append(Load(busy, sum(cycles for _, cycles in parts), parts))
        rates: dict[str, list[tuple[str, int]]] = {}
        for name in self.body:
            for unit, cycles in self.costs[name].rates:
                rates.setdefault(unit, []).append(
                    (name, -(-cycles.numerator // cycles.denominator))
                )
        loads.extend(
            Load(Reason(ReasonKind.UNIT, (unit,)), sum(c for _, c in parts), tuple(parts))
            for unit, parts in rates.items()
        )
        floor = max((load.cycles for load in loads), default=1)
        return [*loads, *self._issue_loads(floor)]

    def _issue_loads(self, floor: int) -> list[Load]:
        """What a role must spend on each group, whatever else it does, at an II of at least
        ``floor``.

        Hand-offs to a group count unless both could share a role. Whether they could depends on the
        II, so the smallest II is sought at which no group needs more than the II itself.
        """
        loads: list[Load] = []
        for group in self.body_groups:
            ii = floor
            while (load := self._issue_load(group, ii)).cycles > ii:
                ii += 1
            loads.append(load)
        return loads

    def _issue_load(self, group: Group, ii: int) -> Load:
        partners = {g.name for pair in self.mergeable_at(ii) if group in pair for g in pair}
        crossing = [g.name for g in self.groups if g.name not in partners | {group.name}]
        names = self.in_body(group)
        parts = tuple(
            (name, self.lead(name, crossing) + self.tail(name, crossing)) for name in names
        )
        issue = Reason(ReasonKind.ISSUE, (group.name,))
        return Load(issue, sum(cycles for _, cycles in parts), parts)

    def lead(self, name: str, crossing: Iterable[str]) -> int:
        """Cycles of waiting before ``name`` starts, given the groups at the other side of a
        hand-off.
        """
        return self.machine.cycles("wait") * len(
            set(self.synchronization[name].waits) & set(crossing)
        )

    def tail(self, name: str, crossing: Iterable[str]) -> int:
        """Role cycles from the start of ``name`` until its role is free again."""
        arrives = set(self.synchronization[name].arrives) & set(crossing)
        return self.hold(name) + (self.machine.cycles("arrive") if arrives else 0)

    def unconditional(self) -> list[Constraint]:
        """Dependences that hold whatever is decided, with the deepest ring allowed."""
        deepest = {region.name: region.depth.high for region in self.kernel.regions}
        constraints: list[Constraint] = []
        for dependence in self.dependences:
            edge = dependence.edge
            if edge.condition is None:
                delay = dependence.delay + (dependence.handoff if self._must_cross(edge) else 0)
                distance = edge.resolved(deepest).distance
                constraints.append(Constraint(edge.src, edge.dst, delay, distance, edge.reason))
        return constraints

    def _must_cross(self, edge: Edge) -> bool:
        one, other = self.group_of[edge.src], self.group_of[edge.dst]
        return one.name != other.name and not self.may_share_role(one, other)


def build_problem(
    kernel: Kernel, machine: Machine, graph: DependenceGraph, end: str = "high"
) -> Problem:
    """Prices ``kernel`` on ``machine`` for the ``low`` or ``high`` end of its intervals.

    Raises ProblemError (no legal roles) or CostError (no rule).
    """
    costs = {
        operation.name: price(operation, machine)
        for operation in kernel.operations
        if not operation.boundary
    }
    groups = _groups(kernel, machine, costs)
    group_of = {name: group.name for group in groups for name in group.operations}
    dependences = tuple(
        _dependence(edge, costs, _queue(kernel, edge, costs, machine, group_of), end)
        for edge in graph.edges
    )
    synchronization = _synchronization(kernel, graph, costs, machine, group_of)
    return Problem(kernel, machine, end, graph, costs, groups, dependences, synchronization)


def shared_queue(src: Cost, dst: Cost, machine: Machine, *, one_role: bool = False) -> str | None:
    """The unit that executes both operations in issue order, if there is one.

    ``one_role``: one role issues both.
    """
    used = {unit for unit, _ in dst.units}
    common = (unit for unit, _ in src.units if unit in used)
    return next((unit for unit in common if machine.in_order(unit, one_role=one_role)), None)


def _queue(
    kernel: Kernel,
    edge: Edge,
    costs: Mapping[str, Cost],
    machine: Machine,
    group_of: Mapping[str, str],
) -> str | None:
    """The unit whose order is all that ``edge`` needs, if there is one."""
    if edge.kind is not EdgeClass.ORDER and taken_registers(kernel, edge):
        return None
    one_role = group_of[edge.src] == group_of[edge.dst]
    return shared_queue(costs[edge.src], costs[edge.dst], machine, one_role=one_role)


def _dependence(edge: Edge, costs: Mapping[str, Cost], queue: str | None, end: str) -> Dependence:
    src, dst = costs[edge.src], costs[edge.dst]
    if queue is not None:
        return Dependence(edge, src.cycles(queue), 0)
    match edge.kind:
        case EdgeClass.ORDER:
            shared = {unit for unit, _ in src.units} & {unit for unit, _ in dst.units}
            busy = max((src.cycles(unit) for unit in shared), default=0)
            return Dependence(edge, max(src.hold.at(end), busy), 0)
        case EdgeClass.ANTI:
            return Dependence(edge, src.release.at(end), src.handoff)
        case _:
            return Dependence(edge, src.latency.at(end), src.handoff)


def _synchronization(
    kernel: Kernel,
    graph: DependenceGraph,
    costs: Mapping[str, Cost],
    machine: Machine,
    group_of: Mapping[str, str],
) -> dict[str, Synchronization]:
    """Who waits for whom because of a flow edge; a role waits only once for the same instance."""
    waits: dict[str, list[str]] = {operation.name: [] for operation in kernel.body}
    arrives: dict[str, list[str]] = {operation.name: [] for operation in kernel.body}
    place = {operation.name: number for number, operation in enumerate(kernel.body)}
    waited: set[tuple[str, str, int]] = set()
    for edge in sorted(graph.edges, key=lambda e: (place[e.dst], place[e.src])):
        mine, other = group_of[edge.dst], group_of[edge.src]
        flows = edge.kind in (EdgeClass.FLOW, EdgeClass.CARRIED)
        if not flows or mine == other or shared_queue(costs[edge.src], costs[edge.dst], machine):
            continue
        if other not in waits[edge.dst] and (edge.src, mine, edge.distance) not in waited:
            waits[edge.dst].append(other)
        waited.add((edge.src, mine, edge.distance))
        if mine not in arrives[edge.src]:
            arrives[edge.src].append(mine)
    return {name: Synchronization(tuple(waits[name]), tuple(arrives[name])) for name in waits}


def _groups(kernel: Kernel, machine: Machine, costs: Mapping[str, Cost]) -> tuple[Group, ...]:
    """Merges operations that must share a role, then checks that they can."""
    operations = kernel.operations
    leader = {operation.name: operation.name for operation in operations}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for names in _bonds(kernel, machine, operations, costs):
        for name in names[1:]:
            leader[find(name)] = find(names[0])
    members: dict[str, list[Operation]] = {}
    for operation in operations:
        members.setdefault(find(operation.name), []).append(operation)
    priced = {name: [o for o in ops if not o.boundary] for name, ops in members.items()}
    return tuple(
        _group(kernel, machine, costs, ops, _pinned(kernel, members[name]))
        for name, ops in priced.items()
        if ops
    )


def _bonds(
    kernel: Kernel, machine: Machine, operations: Sequence[Operation], costs: Mapping[str, Cost]
) -> Iterable[list[str]]:
    """Lists of operations that one role must issue, with the reason in a comment each."""
    bonds: dict[tuple[str, str], list[str]] = {}
    for operation in operations:
        cost = costs.get(operation.name)  # those of peeled iterations have none
        for unit, _ in cost.units if cost is not None else ():
            # The order of an in-order queue is known only if one role fills it.
            if machine.queue(unit) or (cost is not None and machine.role[cost.role].per_unit):
                bonds.setdefault(("queue", unit), []).append(operation.name)
        # Registers are private to the threads that hold them.
        for piece in (*(read.piece for read in operation.reads), *operation.writes):
            if kernel.region_of(piece).space is Space.REGISTERS:
                for place in register_places(kernel, piece):
                    bonds.setdefault(("registers", place), []).append(operation.name)
        # Fills of a shared ring are issued in order, so one producer keeps its index and phase.
        for piece in operation.writes:
            ring = kernel.region_of(piece).ring
            if ring is not None and operation.kind in LOADS:
                bonds.setdefault(("ring", ring), []).append(operation.name)
        if operation.role is not None:
            bonds.setdefault(("role", operation.role), []).append(operation.name)
    return bonds.values()


def _refused(kernel: Kernel, operations: list[Operation], text: str, fix: str) -> ProblemError:
    """That operations cannot share a role, with the place of the first one in the spec."""
    at = kernel.locations.get(("operations", operations[0].base))
    return ProblemError(Diagnostic("shared-role", text, kernel.spec_file, at, fix=fix).render())


def _pinned(kernel: Kernel, operations: list[Operation]) -> str | None:
    """The role that operations are pinned to, which must share one; those count, too, that only
    run in peeled iterations.
    """
    pinned = sorted({operation.role for operation in operations if operation.role is not None})
    if len(pinned) > 1:
        raise _refused(
            kernel,
            operations,
            f"{', '.join(o.name for o in operations)} must share a role but are pinned to "
            f"{', '.join(pinned)}",
            "pin them to one role or to none",
        )
    return pinned[0] if pinned else None


def _group(
    kernel: Kernel,
    machine: Machine,
    costs: Mapping[str, Cost],
    operations: list[Operation],
    pinned: str | None,
) -> Group:
    classes = sorted({costs[operation.name].role for operation in operations})
    if len(classes) > 1:
        names = {
            name: [o.name for o in operations if costs[o.name].role == name] for name in classes
        }
        listed = "; ".join(f"{name}: {', '.join(ops)}" for name, ops in names.items())
        raise _refused(
            kernel,
            operations,
            f"operations that must share a role need different kinds of roles ({listed})",
            "pass the tile through shared or tensor memory, not through registers or a shared ring",
        )
    name = operations[0].name
    return Group(
        name,
        machine.role[classes[0]],
        tuple(o.name for o in operations),
        pinned,
    )

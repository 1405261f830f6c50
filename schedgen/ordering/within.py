"""Why hazards between two operations of one role need nothing more than there is.

The program's own proof says it: the way that orders each pair of accesses, reduced to what it
relies on. Threads that keep to bytes of their own rely on the order of their steps; everything else
is a fence, a wait_group, the order of a queue, a meeting or a barrier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from schedgen.kernel import Space
from schedgen.ordering.conflicts import Conflict, conflicts
from schedgen.ordering.orders import Orders, Way
from schedgen.program.model import Program, WaitGroup
from schedgen.program.operations import Engine
from schedgen.program.warps import by_warps, part_of
from schedgen.reasons import Reason, ReasonKind


@dataclass(frozen=True, slots=True)
class Within:
    """Pairs of operations of ``role`` that touch the same bytes of ``allocations``, the first of a
    pair before the second, and what keeps them in order.

    One pair for memory that threads share; for registers all pairs with the same reasons.
    """

    role: str
    pairs: tuple[tuple[str, str], ...]
    allocations: tuple[str, ...]
    registers: bool
    reasons: tuple[Reason, ...]

    @property
    def what(self) -> str:
        """``PUT before BACK (sT)``, ``3 pairs in registers``."""
        if not self.registers:
            before, after = self.pairs[0]
            return f"{before} before {after} ({', '.join(self.allocations)})"
        return (
            "1 pair in registers"
            if len(self.pairs) == 1
            else f"{len(self.pairs)} pairs in registers"
        )

    @property
    def why(self) -> str:
        """``fence.proxy.async; one meets before MMA``."""
        return "; ".join(reason.text for reason in self.reasons)


def within_roles(program: Program) -> tuple[Within, ...]:
    """The hazards of each role with itself: role by role, as its operations are listed; those of
    registers come last.
    """
    orders = Orders(by_warps(program))
    alone = {role.name: _alone(orders.program, role.name) for role in program.roles}
    found: dict[tuple[str, str, str, bool], tuple[dict[str, None], dict[Reason, None]]] = {}
    for role, conflict in _of_one_role(program, orders):
        before, after = part_of(conflict.before)[0], part_of(conflict.after)[0]
        allocation = part_of(conflict.first.allocation)[0]
        registers = orders.program.allocation[conflict.first.allocation].space is Space.REGISTERS
        allocations, reasons = found.setdefault((role, before, after, registers), ({}, {}))
        allocations[allocation] = None
        reasons |= dict.fromkeys(_reasons(program, (alone[role], orders), conflict))
    made = [
        Within(role, ((before, after),), tuple(allocations), registers, _sorted(reasons))
        for (role, before, after, registers), (allocations, reasons) in found.items()
    ]
    memory = [one for one in made if not one.registers]
    every = [*memory, *_together([one for one in made if one.registers])]
    names = [role.name for role in program.roles]
    return tuple(sorted(every, key=lambda one: (names.index(one.role), one.registers)))


def _of_one_role(program: Program, orders: Orders) -> Iterator[tuple[str, Conflict]]:
    """The conflicts between operations of one role, with the role."""
    events = orders.graph.events
    for conflict in conflicts(orders.program):
        roles = {
            part_of(events[begin].role)[0]
            for name in (conflict.before, conflict.after)
            for begin in orders.graph.begin_of.get(name, [])
        }
        if len(roles) == 1:
            (role,) = roles
            assert role in program.role
            yield role, conflict


def _alone(divided: Program, role: str) -> Orders:
    """What the steps of one role order by themselves."""
    parts = tuple(part for part in divided.roles if part_of(part.name)[0] == role)
    return Orders(replace(divided, roles=parts))


def _reasons(program: Program, searches: Sequence[Orders], conflict: Conflict) -> Iterator[Reason]:
    """Of the first of ``searches`` that knows a way."""
    found = ((orders, orders.ordered(conflict)) for orders in searches)
    orders, ways = next(((o, w) for o, w in found if w is not None), (searches[-1], None))
    if ways is None:
        yield Reason(ReasonKind.UNORDERED)
        return
    relied = [reason for way in ways for reason in _relied(way)]
    plain = _plain(orders, conflict)
    if plain is not None:
        relied = [plain]  # the way that was found may be another one
    elif not relied:
        relied = [Reason(ReasonKind.ISSUED_BEHIND)]
    for kinds in orders.fences_after(conflict):
        yield Reason(ReasonKind.FENCED, (kinds[0].value,))
    kind = orders.fence_between(conflict)
    if kind is not None:
        yield Reason(ReasonKind.FENCED, (kind.value,))
    yield from relied


def _plain(orders: Orders, conflict: Conflict) -> Reason | None:
    """What orders two operations whatever else there is: their thread, or a queue."""
    operation, names = orders.program.operation, (conflict.before, conflict.after)
    engines = {operation[name].engine for name in names}
    if len(engines) > 1 or orders.awaited(conflict):
        return None
    (engine,) = engines
    if engine in (Engine.TENSOR, Engine.WGMMA):
        return Reason(ReasonKind.QUEUE, (engine.value,))
    same = part_of(conflict.before)[1] == part_of(conflict.after)[1]
    return Reason(ReasonKind.SAME_THREADS) if same and engine is Engine.THREADS else None


def _relied(way: Way) -> Iterator[Reason]:
    """What a way needs beside the order of steps."""
    known = way.reach.graph.program.barrier
    for _, arc in way.reach.way(way.point):
        step = way.reach.graph.events[arc.dst].step
        match arc.why.kind:
            case ReasonKind.WAIT_GROUP if step is not None and isinstance(step.action, WaitGroup):
                yield Reason(ReasonKind.GROUP_AWAITED, (part_of(step.action.operation)[0],))
            case ReasonKind.BARRIER:
                (barrier,) = arc.why.subjects
                yield Reason(_MEETS.get(known[barrier].kind, arc.why.kind), (barrier,))
            case ReasonKind.QUEUE:
                yield arc.why
            case _:
                pass


_MEETS = {
    "role": ReasonKind.ROLE_MEETS,
    "roles": ReasonKind.ROLE_MEETS,
    "warp": ReasonKind.WARPS_MEET,
}
"""Where an order comes from a meeting, by the kind of its barrier."""

_ORDER = (
    ReasonKind.SAME_THREADS,
    ReasonKind.ISSUED_BEHIND,
    ReasonKind.QUEUE,
    ReasonKind.FENCED,
    ReasonKind.GROUP_AWAITED,
    ReasonKind.WARPS_MEET,
    ReasonKind.ROLE_MEETS,
    ReasonKind.BARRIER,
    ReasonKind.UNORDERED,
)
"""What needs least comes first."""


def _sorted(reasons: dict[Reason, None]) -> tuple[Reason, ...]:
    return tuple(sorted(reasons, key=lambda reason: _ORDER.index(reason.kind)))


def _together(every: list[Within]) -> Iterator[Within]:
    """Pairs with the same reasons as one."""
    groups: dict[tuple[str, tuple[Reason, ...]], list[Within]] = {}
    for one in every:
        groups.setdefault((one.role, one.reasons), []).append(one)
    for (role, reasons), group in groups.items():
        pairs = tuple(pair for one in group for pair in one.pairs)
        allocations = tuple(
            dict.fromkeys(allocation for one in group for allocation in one.allocations)
        )
        yield Within(role, pairs, allocations, True, reasons)

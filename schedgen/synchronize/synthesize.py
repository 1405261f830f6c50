"""Derives the synchronization of a schedule: enough for every order that storage asks for, and
nothing that could be left out.

Conflicts between accesses are taken in an order that puts data first: who uses what somebody else
made. Each one that nothing orders yet gets a hand-off. Hazards of reused storage come last; most
are ordered by then, because data has to come back before storage can. Then each part is taken out
again if the rest still orders everything, and the way that does it is kept as the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

from schedgen.kernel import Kernel
from schedgen.machine import Machine
from schedgen.ordered import ordered_sums
from schedgen.ordering.conflicts import Conflict, Kind, conflicts
from schedgen.ordering.deadlock import deadlock_findings
from schedgen.ordering.graph import event_graph
from schedgen.ordering.orders import Orders
from schedgen.program.claims import claimed
from schedgen.program.following import awaiting, counting
from schedgen.program.model import EVERY, FIRST, FenceKind, Program, Removal
from schedgen.program.operations import Engine, Number
from schedgen.program.pingpong import in_turn
from schedgen.program.taking_turns import in_turns
from schedgen.schedule import Schedule
from schedgen.synchronize.build import ProgramError, Storage, capacities, tile_operations
from schedgen.synchronize.frame import framed
from schedgen.synchronize.layout import Layout
from schedgen.synchronize.meetings import meet
from schedgen.synchronize.merge import assign, separate
from schedgen.synchronize.pace import pace
from schedgen.synchronize.pacing import check_units, paced
from schedgen.synchronize.parts import Fenced, Handoff, Signal, Synchronization
from schedgen.synchronize.phases import phases_apart
from schedgen.synchronize.reduce import leave_out
from schedgen.synchronize.share import gatherings, sharings
from schedgen.synchronize.together import together


@dataclass(frozen=True)
class Synchronized:
    """A program and the decisions that make it one of its schedule.

    ``late``: wait_groups of products come behind the next product of their warpgroup, see `Layout`.
    """

    program: Program
    made: Synchronization
    late: bool


def synthesize(
    kernel: Kernel, schedule: Schedule, machine: Machine, units: Sequence[str] = ()
) -> Program:
    """The program of ``schedule``, synchronized; products in flight where that costs nothing.

    Roles are kept to the order of the schedule on ``units`` (`schedgen.synchronize.pacing`).

    Raises:
        ProgramError: some order cannot be had with the barriers there are.
        SchedgenError: the machine has no unit of that name, or one without an order.
    """
    return synchronized(kernel, schedule, machine, units).program


def synchronized(
    kernel: Kernel,
    schedule: Schedule,
    machine: Machine,
    units: Sequence[str] = (),
    *,
    early: bool = False,
) -> Synchronized:
    """The same with what was decided. Raises what `synthesize` does.

    ``early``: wait_groups of products stand where the schedule has these complete, and not behind
    the next product even where that costs nothing.
    """
    skeleton = _skeleton(kernel, schedule, machine)
    check_units(machine, skeleton, units)
    found = _Synthesis(Layout(kernel, schedule, skeleton), units).run()
    if not early:
        late = Layout(kernel, schedule, skeleton, late=True)
        found = (_as_fast(found.program, late, units) if late.late else None) or found
    return replace(found, program=_whole(kernel, found.program))


def _whole(kernel: Kernel, program: Program) -> Program:
    """``program`` with the teams of its roles, its claims of tiles, its turns to add, what other
    kernels have to do with its tiles, and what surrounds them.
    """
    program = in_turn(program, dict(kernel.teams))
    if kernel.claim == "dynamic":
        whole = claimed(program)
        if whole is None:
            raise ProgramError(
                "no role of one warp loads in the loop and could claim output tiles\n"
                "  fix: say 'claim: fixed' or 'claim: launch' under 'loops'"
            )
        program = whole
    ordered = in_turns(program, ordered_sums(kernel))
    if ordered is None:
        raise ProgramError(
            "the role that adds in turns stores something else in an iteration as well\n"
            "  fix: give other stores of the body another 'role'"
        )
    told = counting(ordered) if kernel.tells else ordered
    if told is None:
        raise ProgramError(
            "several roles store, and none of them knows when all of an output tile is there\n"
            "  fix: give all stores one 'role', or remove 'tells' under 'loops'"
        )
    return framed(awaiting(told) if kernel.follows else told)


def resynchronized(
    kernel: Kernel, schedule: Schedule, machine: Machine, made: Synchronization, *, late: bool
) -> Program:
    """The program of decisions that `synchronized` made before; it lacks only why some orders need
    no hand-off of their own (`Program.removals`). Nothing is known about decisions of others.
    """
    layout = Layout(kernel, schedule, _skeleton(kernel, schedule, machine), late=late)
    return _whole(kernel, layout.lay_out(made, assign(layout, made, dict(made.slots))))


def _skeleton(kernel: Kernel, schedule: Schedule, machine: Machine) -> Program:
    """The program without roles and barriers."""
    storage = Storage(kernel, schedule, machine)
    operations = tile_operations(kernel, machine, storage)
    return Program(
        kernel=schedule.kernel,
        target=schedule.target,
        arch=schedule.arch,
        spec_sha256=schedule.spec_sha256,
        ii_cycles=schedule.ii_cycles,
        trips=schedule.tile.trips,
        capacities=capacities(machine),
        allocations=tuple(storage.allocations),
        operations=tuple(operations.values()),
        barriers=(),
        roles=(),
        handoff=(ceil(machine.value("handoff", "low")), machine.cycles("handoff")),
    )


def _as_fast(program: Program, layout: Layout, units: Sequence[str]) -> Synchronized | None:
    """The program of ``layout``, if it is no slower than ``program`` in the machine model.

    There it is no faster either: cycles that a warpgroup needs to see one product complete and to
    start the next are not in the model (docs/kernels.md, section 2, has what an H200 needs).
    """
    try:
        found = _Synthesis(layout, units).run()
    except ProgramError:
        return None
    return None if _costs(program, found.program) else found


def _costs(program: Program, other: Program) -> bool:
    """Whether ``other`` does not end, or is slower than ``program`` in the machine model."""
    if any(deadlock_findings(event_graph(other))):
        return True
    return any(pace(other, end).cycles > pace(program, end).cycles for end in ("low", "high"))


class _Synthesis:
    def __init__(self, layout: Layout, units: Sequence[str]) -> None:
        self.layout, self.units = layout, units
        self.made = Synchronization()
        self.known = self._orders(self.made)
        """The orders that ``made`` gives, while it only grows."""
        self.conflicts = sorted(conflicts(self.known.program), key=self._rank)

    def _rank(self, conflict: Conflict) -> tuple[bool, bool, bool, int, int]:
        flow = conflict.first.write and not conflict.second.write
        kinds = [Kind.SAME, Kind.OUTER, Kind.TILES, Kind.LATER]
        return (
            not (flow and self._same_version(conflict)),
            conflict.first.write and conflict.second.write,
            conflict.kind in (Kind.LATER, Kind.TILES),
            kinds.index(conflict.kind),
            conflict.distance,
        )

    @staticmethod
    def _same_version(conflict: Conflict) -> bool:
        gap = conflict.second.version.offset - conflict.first.version.offset
        if conflict.first.version.per_tile:
            return conflict.kind is not Kind.TILES and conflict.distance == gap == 0
        step = conflict.first.version.scale * conflict.distance
        return conflict.kind is Kind.SAME and gap + step == 0

    def run(self) -> Synchronized:
        self._order_data()
        self._fence_registers()
        for conflict in self.conflicts:
            self._order(conflict)
        self._do_with(sharings)
        self.made = leave_out(self.layout, self.made, self.conflicts)
        if self._do_with(gatherings):
            self.made = leave_out(self.layout, self.made, self.conflicts)
        self._meet(self.made)
        program, self.made = phases_apart(self.layout, self.made)
        program = replace(program, removals=tuple(self._removals(program)))
        program, self.made = paced(self.layout, self.made, program, self.units)
        return Synchronized(program, self.made, bool(self.layout.late))

    # -- adding --------------------------------------------------------------------------------

    def _orders(self, made: Synchronization) -> Orders:
        return Orders(self._laid_out(made))

    def _laid_out(self, made: Synchronization) -> Program:
        return self.layout.lay_out(made, separate(self.layout, made))

    def _order_data(self) -> None:
        """Hand-offs for all data at once; those that others imply are left out later."""
        orders = self.known
        made = self.made
        for conflict in self.conflicts:
            if self._rank(conflict)[0] or orders.ordered(conflict) is not None:
                continue
            for remedy in list(self._remedies(orders, conflict, again=False))[-1:]:
                made = made.joined(remedy)
        self.made, self.known = made, self._orders(made)

    def _fence_registers(self) -> None:
        """Fences right before products whose registers threads touch in the loop: between one that
        stands further ahead and the product, compilers move registers (at the end of a turn).
        """
        fences = [
            Fenced(conflict.after, FenceKind.REGISTERS)
            for conflict in self.conflicts
            if self.known.fence_between(conflict) is FenceKind.REGISTERS
            and conflict.kind in (Kind.SAME, Kind.LATER)
        ]
        more = Synchronization((), tuple(dict.fromkeys(fences)))
        if set(more.fences) - set(self.made.fences):
            self.made = self.made.joined(more)
            self.known = self._orders(self.made)

    def _order(self, conflict: Conflict) -> None:
        """Adds what is missing for one conflict."""
        orders = self.known
        if orders.ordered(conflict) is not None:
            return
        for more in self._remedies(orders, conflict):
            joined = self.made.joined(more)
            orders = self._orders(joined)
            if orders.ordered(conflict) is not None:
                self.made, self.known = joined, orders
                return
        raise ProgramError(
            f"no barrier makes sure that {conflict.text}\n  fix: give the two operations one role, "
            f"or '{conflict.first.buffer}' storage of its own and more slots ('depth')"
        )

    def _remedies(
        self, orders: Orders, conflict: Conflict, *, again: bool = True
    ) -> Iterator[Synchronization]:
        """What could order ``conflict``: fences alone, a wait_group, a hand-off."""
        fences = tuple(self._fences(orders, conflict))
        wait_groups: tuple[str, ...] = ()
        engine = orders.program.operation[conflict.before].engine
        if engine in (Engine.WGMMA, Engine.COPY_OUT):
            wait_groups = (conflict.before,)
        if set(fences) - set(self.made.fences) or set(wait_groups) - set(self.made.wait_groups):
            yield Synchronization((), fences, wait_groups)
        if self._roles(conflict):
            yield Synchronization((self._handoff(conflict),), fences, wait_groups)
        # One role overwrites what it wrote itself: whoever reads in between has to say so.
        for other in self.conflicts if again else ():
            same = (other.after, other.first.allocation) == (
                conflict.after,
                conflict.first.allocation,
            )
            if same and not other.first.write and self._roles(other):
                yield Synchronization((self._handoff(other),), tuple(self._fences(orders, other)))

    def _roles(self, conflict: Conflict) -> bool:
        """Whether a hand-off is possible: two roles have to do with it, or one role and an engine
        that it knows about only through a barrier.
        """
        engine = self.layout.skeleton.operation[conflict.before].engine
        roles = self.layout.role_of[conflict.before], self.layout.role_of[conflict.after]
        return roles[0] != roles[1] or engine in (Engine.TENSOR, Engine.COPY_IN)

    def _fences(self, orders: Orders, conflict: Conflict) -> Iterator[Fenced]:
        for kinds in orders.fences_after(conflict):
            yield Fenced(conflict.before, kinds[0])
        kind = orders.fence_between(conflict)
        if kind is not None:
            outer = conflict.kind in (Kind.OUTER, Kind.TILES)
            in_loop = self.layout.in_loop(conflict.after)
            yield Fenced(conflict.after, kind, FIRST if outer and in_loop else EVERY)

    def _handoff(self, conflict: Conflict) -> Handoff:
        """The target waits for the number that the source gives when it is done."""
        at, slots = self._number(conflict)
        signal = Signal(conflict.before, at, slots)
        wait = at.moved(-conflict.distance * at.scale)
        fills = conflict.first.write and not conflict.second.write
        return Handoff(signal, conflict.after, wait, conflict.first.allocation, fills)

    def _number(self, conflict: Conflict) -> tuple[Number, int]:
        version = conflict.first.version
        slots = self.layout.skeleton.allocation[conflict.first.allocation].slots
        if conflict.kind in (Kind.SAME, Kind.LATER):
            return (Number(), 1) if version.per_tile else (version, slots)
        return (version, slots) if version.per_tile else (Number(per_tile=True), 1)

    # -- reducing -----------------------------------------------------------------------------

    def _meet(self, made: Synchronization) -> None:
        """Adds meetings to ``made``: those within roles, then of several roles in place of what
        these make superfluous, where that costs nothing.
        """
        self.made = meet(self.layout, made)
        for meeting in together(self.layout, self.made):
            joined = made.joined(Synchronization(meetings=(meeting,)))
            fewer = leave_out(self.layout, joined, self.conflicts)
            if not _costs(self._laid_out(self.made), self._laid_out(fewer)):
                made, self.made = fewer, meet(self.layout, fewer)

    def _removals(self, program: Program) -> Iterator[Removal]:
        """The orders between two roles, or of a queue, that have no hand-off of their own."""
        orders = Orders(program)
        direct = {(h.signal.operation, h.target) for h in self.made.handoffs}
        several = (meeting for meeting in self.made.meetings if meeting.among == "roles")
        met = (reason.subjects for meeting in several for reason in meeting.protects)
        direct |= {(before, after) for after, before, _ in met}
        seen: set[tuple[str, str]] = set()
        for conflict in self.conflicts:
            pair = conflict.before, conflict.after
            queued = Engine.THREADS not in {program.operation[name].engine for name in pair}
            if pair in direct | seen or not (self._roles(conflict) or queued):
                continue
            seen.add(pair)
            for way in orders.ordered(conflict) or ():
                yield Removal(*pair, conflict.first.allocation, way.explain())

    def _do_with(
        self, ways: Callable[[Layout, Synchronization], Iterable[Synchronization]]
    ) -> bool:
        """Takes all ``ways`` to do with less that leave all in order; whether there was one."""
        found = False
        options = iter(ways(self.layout, self.made))
        while (fewer := next(options, None)) is not None:
            orders = self._orders(fewer)
            ordered = all(orders.ordered(conflict) is not None for conflict in self.conflicts)
            if ordered and not any(deadlock_findings(orders.graph)):
                self.made, found = fewer, True
                options = iter(ways(self.layout, self.made))
        return found

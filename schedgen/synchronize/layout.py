"""Puts synchronization into role programs: which step stands where.

Every step has a time, that of the schedule: waits and their fences come right before an operation,
arrivals right after it, a wait_group when what it waits for is ready. Sorting by time keeps all
roles in an order in which the schedule itself is an execution.

A wait_group may also come later (`late`): behind the next product of its warpgroup, so that the
tensor cores have the next product when they are done with one, or right before the first operation
that touches what the product touches, so that those which do not go on meanwhile. Then the schedule
need not be an execution, and who asks for such a program has to check that it cannot deadlock.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from schedgen.kernel import Kernel, Operation, Phase, Space
from schedgen.layouts import brought
from schedgen.program.model import (
    EVERY,
    FIRST,
    LAST,
    Action,
    Arrive,
    Barrier,
    Commit,
    Fence,
    FenceKind,
    Guard,
    Program,
    RoleProgram,
    Run,
    Step,
    Wait,
    WaitGroup,
    When,
)
from schedgen.program.operations import Engine, Number, taken
from schedgen.roles import RoleKind
from schedgen.schedule import Schedule
from schedgen.synchronize.build import ProgramError
from schedgen.synchronize.parts import (
    Assignment,
    Handoff,
    Meeting,
    Paced,
    Part,
    Signal,
    Synchronization,
)
from schedgen.synchronize.publishing import fenced_behind_products

Key = tuple[int, int, int, int, int]
"""Shift, time in the turn, operation (wait_groups come first), what it does for it, a counter."""

_ACTIONS = 9
_TOGETHER, _WAIT, _MEET, _FENCE_BEFORE, _EXPECT = range(5)
_RUN, _FENCE_AFTER, _SIGNAL, _READY = range(5, _ACTIONS)


@dataclass
class _Lists:
    """The steps of one role while they are collected."""

    entries: dict[str, list[tuple[tuple[int, ...], Step]]] = field(
        default_factory=lambda: {"before": [], "loop": [], "after": []}
    )
    """Section -> steps with their place: that of `Key` without the shift."""

    def sorted(self, section: str) -> tuple[Step, ...]:
        """The steps in order of time, those of one time as they came; a wait for what was just
        waited for is left out.
        """
        steps: list[Step] = []
        seen: set[object] = set()
        for _, step in sorted(self.entries[section], key=lambda entry: entry[0]):
            same = (step.action, step.shift, step.guard)
            if isinstance(step.action, Wait) and same in seen:
                continue
            seen.add(same)
            steps.append(step)
        return tuple(steps)


class Layout:
    """Where the operations of a schedule stand, and how synchronization is put around them."""

    def __init__(
        self, kernel: Kernel, schedule: Schedule, skeleton: Program, *, late: bool = False
    ) -> None:
        self.kernel = kernel
        self.schedule = schedule
        self.skeleton = skeleton
        self.origin: list[tuple[Step, Part]] = []
        """The steps of the program laid out last, each with the decision that it comes from."""
        self.start = {op.id: op.start for op in schedule.ops}
        self.role_of = {op.id: op.role for op in schedule.ops}
        self._place = {op.name: n for n, op in enumerate(kernel.operations)}
        self._follow = dict(self._boundary())
        for name, follower in self._follow.items():
            self.role_of[name], self.start[name] = self.role_of[follower], self.start[follower]
        self._base = {
            role.name: min((self.start[n] for n in role.operations if self.in_loop(n)), default=0)
            for role in schedule.roles
        }
        self.late = dict(self._later()) if late else {}
        """Product -> the operation that its wait_group comes behind the start of, if that is a
        product, or right before, and how much later that starts; not those whose wait_group comes
        behind the next product anyway, because they take longer.
        """

    def _later(self) -> Iterator[tuple[str, tuple[str, int]]]:
        """Products of the loop, with what their wait_group can wait for."""
        ii = self.schedule.ii_cycles
        for role in self.schedule.roles:
            names = [name for name in role.operations if self.in_loop(name)]
            products = [n for n in names if self.skeleton.operation[n].engine is Engine.WGMMA]
            others = [n for n in names if n not in products]
            for name in products:
                made = set(self.kernel.operation[name].writes)
                if any(made & _pieces(self.kernel.operation[other]) for other in others):
                    yield name, self._first_touch(name, others)
                    continue
                gaps = {n: (self.start[n] - self.start[name]) % ii or ii for n in products}
                following = min(gaps, key=lambda n, gaps=gaps: gaps[n])
                if self._takes(name, following):
                    continue
                if self.done(name) - self.start[name] <= gaps[following]:
                    yield name, (following, gaps[following])

    def _takes(self, product: str, following: str) -> bool:
        """Whether a product needs registers that the one before it keeps until it is complete."""
        one, other = (self.skeleton.operation[name] for name in (product, following))
        spaces = {allocation.name: allocation.space for allocation in self.skeleton.allocations}
        return any(
            spaces[first.allocation] is Space.REGISTERS and taken(one, first, other, second)
            for first, second in itertools.product(one.accesses, other.accesses)
        )

    def _first_touch(self, product: str, others: Sequence[str]) -> tuple[str, int]:
        """The first of ``others`` that touches what ``product`` does when that is complete, and how
        much later it starts.
        """
        touched = _pieces(self.kernel.operation[product])
        ii, took = self.schedule.ii_cycles, self.done(product) - self.start[product]
        gaps: dict[str, int] = {}
        for name in others:
            if touched & _pieces(self.kernel.operation[name]):
                gap = self.start[name] - self.start[product]
                gaps[name] = gap + max(0, -((gap - took) // ii)) * ii
        first = min(gaps, key=lambda name: gaps[name])
        return first, gaps[first]

    def _boundary(self) -> Iterator[tuple[str, str]]:
        """Operations of peeled iterations only, with the one that they come right before: of those
        behind them in the spec that touch what they do, the one that starts first.
        """
        for number, operation in enumerate(self.kernel.operations):
            if not operation.boundary:
                continue
            touched = _pieces(operation)  # of a region other roles may have other bands
            later = (o for o in self.kernel.operations[number + 1 :] if not o.boundary)
            followers = [o for o in later if o.phase is operation.phase and _pieces(o) & touched]
            follower = min(followers, key=lambda o: self.start[o.name], default=None)
            if follower is None:
                raise ProgramError(
                    f"nothing after {operation.name} uses what it writes; put it before what does"
                )
            yield operation.name, follower.name

    def in_loop(self, operation: str) -> bool:
        return self.kernel.operation[operation].phase is Phase.BODY

    def section(self, operation: str) -> str:
        phase = self.kernel.operation[operation].phase
        return "loop" if phase is Phase.BODY else phase.value

    def key(self, operation: str, what: int, count: int = 0) -> Key:
        """Where something that is done for ``operation`` stands."""
        follower = self._follow.get(operation)
        what = what if follower is None else what - _ACTIONS
        shift, time = self._turn(operation, self.start[operation])
        return shift, time, self._place[follower or operation], what, count

    def ready_key(self, operation: str, count: int = 0) -> Key:
        """Where ``operation`` is known to be complete."""
        if operation in self.late:
            following, gap = self.late[operation]
            shift, time = self._turn(operation, self.start[operation] + gap)
            if self.skeleton.operation[following].engine is not Engine.WGMMA:
                return shift, time, -1, self._place[operation], count
            return shift, time, self._place[following], _READY, count
        shift, time = self._turn(operation, self.done(operation))
        return shift, time, -1, self._place[operation], count

    def done(self, operation: str) -> int:
        """Cycle of the schedule at which ``operation`` is complete."""
        latency = next(op.latency for op in self.schedule.ops if op.id == operation)
        return self.start[operation] + latency

    def turn(self, operation: str) -> int:
        """The turn of its role's loop in which iteration 0 of ``operation`` starts."""
        return self._turn(operation, self.start[operation])[0]

    def _turn(self, operation: str, time: int) -> tuple[int, int]:
        if not self.in_loop(operation):
            return 0, time
        return divmod(time - self._base[self.role_of[operation]], self.schedule.ii_cycles)

    def threads(self, operation: str) -> int:
        role = next(r for r in self.schedule.roles if r.name == self.role_of[operation])
        return 1 if role.kind is RoleKind.WARP else 32 * role.warps

    def arrivals(self, signal: Signal) -> int:
        """Arrivals that a signal makes per phase."""
        engine = self.skeleton.operation[signal.operation].engine
        single = engine in (Engine.TENSOR, Engine.COPY_IN, Engine.COPY_OUT)
        return 1 if single else self.threads(signal.operation)

    def loaded_bytes(self, operation: str) -> int:
        """Bytes that a bulk load brings, 0 for other operations."""
        pieces = self.kernel.operation[operation].writes if self.is_load(operation) else ()
        return brought(sum(self.kernel.piece[name].bytes for name in pieces))

    # -- steps ---------------------------------------------------------------------------------

    def lay_out(self, made: Synchronization, assignment: Assignment) -> Program:
        """The program with ``made`` as its synchronization."""
        self.origin.clear()
        lists = {role.name: _Lists() for role in self.schedule.roles}
        signals = made.signals
        carried = {s.operation: s for s in signals if self.is_load(s.operation)}
        for operation in self.kernel.operations:
            self._add_run(lists, operation.name, carried.get(operation.name), assignment)
        for number, handoff in enumerate(made.handoffs):
            self._add_wait(lists, handoff, assignment, number)
        for number, signal in enumerate(signals):
            self._add_signal(lists, signal, assignment, number)
        for fenced in made.fences:
            before = fenced.kind in (FenceKind.TMEM_AFTER, FenceKind.REGISTERS)
            key = self.key(fenced.operation, _FENCE_BEFORE if before else _FENCE_AFTER)
            number = _FENCE_ORDER.index(fenced.kind)
            place = (*key[:4], number)
            self._add(lists, fenced.operation, place, Fence(fenced.kind), fenced.guard, fenced)
        for operation in made.wait_groups:
            key = self.ready_key(operation)
            self._add(lists, operation, key, WaitGroup(operation), EVERY, operation)
        for meeting in made.meetings:
            self._add_meeting(lists, meeting)
        for number, paced in enumerate(made.paces, len(made.handoffs)):
            self._add_pace(lists, paced, number)
        meeting_barriers = (self._meeting_barrier(meeting) for meeting in made.meetings)
        pace_barriers = (self._pace_barrier(paced) for paced in made.paces)
        return replace(
            self.skeleton,
            barriers=(*assignment.barriers, *meeting_barriers, *pace_barriers),
            roles=tuple(
                RoleProgram(
                    role.name,
                    role.warps,
                    role.registers,
                    before=lists[role.name].sorted("before"),
                    loop=fenced_behind_products(lists[role.name].sorted("loop"), self.skeleton),
                    after=lists[role.name].sorted("after"),
                )
                for role in self.schedule.roles
            ),
        )

    def is_load(self, operation: str) -> bool:
        return self.skeleton.operation[operation].engine is Engine.COPY_IN

    def _add(
        self,
        lists: Mapping[str, _Lists],
        operation: str,
        key: Key,
        action: Action,
        guard: Guard,
        part: Part | None = None,
    ) -> None:
        section = self.section(operation)
        if section != "loop":
            guard = EVERY
        shift = key[0] if section == "loop" else 0
        why = part.reason.text if isinstance(part, Handoff) else ""
        if isinstance(part, Paced) and isinstance(action, Wait):
            why = part.reason.text
        if isinstance(part, Meeting) and isinstance(action, Wait):
            role = self.role_of[operation]
            mine = (r for r in part.protects if self.role_of[r.subjects[0]] == role)
            why = "; ".join(reason.text for reason in mine)
        step = Step(action, shift, guard, why)
        if part is not None:
            self.origin.append((step, part))
        lists[self.role_of[operation]].entries[section].append((key[1:], step))

    def _add_run(
        self,
        lists: Mapping[str, _Lists],
        operation: str,
        signal: Signal | None,
        assignment: Assignment,
    ) -> None:
        run, key = Run(operation), self.key(operation, _RUN)
        if signal is not None:
            mapped = assignment.of[signal]
            barrier, number = mapped.barrier, mapped.number(signal.number)
            size = self.loaded_bytes(operation)
            run = Run(operation, barrier, number, size)
            expect = Arrive(barrier, number, 1, size)
            self._add(lists, operation, self.key(operation, _EXPECT), expect, EVERY)
        self._add(lists, operation, key, run, EVERY)

    def _add_wait(
        self,
        lists: Mapping[str, _Lists],
        handoff: Handoff,
        assignment: Assignment,
        number: int,
    ) -> None:
        mapped, given = assignment.of[handoff.signal], handoff.signal.number
        ahead = 0 if given.per_tile else (handoff.number.offset - given.offset) // given.scale
        key = self.key(handoff.target, _WAIT, number)
        for phase in range(ahead):
            # A wait that looks ahead skips the first phases of a tile; somebody has to see them.
            early = Wait(mapped.barrier, mapped.number(given.moved(phase * given.scale)))
            self._add(lists, handoff.target, key, early, Guard(When.FIRST, phase + 1), handoff)
        wait = Wait(mapped.barrier, mapped.number(handoff.number))
        guard = FIRST if handoff.number.per_tile else Guard(When.EVERY, 0, max(ahead, 0))
        self._add(lists, handoff.target, key, wait, guard, handoff)

    def _add_meeting(self, lists: Mapping[str, _Lists], meeting: Meeting) -> None:
        """An arrival and a wait of all threads, which the emitter makes one instruction."""
        name = meeting.name(self.role_of)
        in_turn = self.in_loop(meeting.operation) and meeting.guard == EVERY
        number = Number(per_tile=not in_turn)
        # Several roles meet before other waits of their operations: these keep only their own role.
        place = _TOGETHER if meeting.among == "roles" else _MEET
        for operation in meeting.operations:
            key, threads = self.key(operation, place), self.threads(operation)
            for step in (Arrive(name, number, threads), Wait(name, number)):
                self._add(lists, operation, key, step, meeting.guard, meeting)

    def _meeting_barrier(self, meeting: Meeting) -> Barrier:
        threads = sum(map(self.threads, meeting.operations))
        texts = tuple(reason.text for reason in meeting.protects)
        allocations = tuple(dict.fromkeys(reason.subjects[-1] for reason in meeting.protects))
        name = meeting.name(self.role_of)
        return Barrier(name, meeting.among, 1, threads, 0, (), texts, allocations)

    def _add_pace(self, lists: Mapping[str, _Lists], paced: Paced, number: int) -> None:
        """An arrival of all threads behind what has to come first, and a wait right before what
        comes after it, the last one there.
        """
        wait, arrive = Wait(paced.barrier, Number()), self._pace_arrival(paced)
        for name, lag, what, action in (
            (paced.after, paced.after_lag, _WAIT, wait),
            (paced.before, paced.lag, _SIGNAL, arrive),
        ):
            shift, at = self._turn(name, self.start[name] - lag * self.schedule.ii_cycles)
            key = shift, at, self._place[name], what, number
            self._add(lists, name, key, action, EVERY, paced)

    def _pace_arrival(self, paced: Paced) -> Arrive:
        role = next(r for r in self.schedule.roles if r.name == self.role_of[paced.before])
        return Arrive(paced.barrier, paced.arrives, 32 * role.warps)

    def _pace_barrier(self, paced: Paced) -> Barrier:
        count = self._pace_arrival(paced).count
        protects, of = (paced.reason.text,), (paced.unit,)
        return Barrier(paced.barrier, "pace", 1, count, 0, paced.skipped, protects, of)

    def _add_signal(
        self, lists: Mapping[str, _Lists], signal: Signal, assignment: Assignment, number: int
    ) -> None:
        if self.is_load(signal.operation):
            return  # the copy itself reports to the barrier
        mapped = assignment.of[signal]
        barrier, at = mapped.barrier, mapped.number(signal.number)
        engine = self.skeleton.operation[signal.operation].engine
        action: Action = Arrive(barrier, at, self.arrivals(signal))
        if engine is Engine.TENSOR:
            action = Commit(barrier, at)
        awaited = engine in (Engine.WGMMA, Engine.COPY_OUT)
        key = self.key(signal.operation, _SIGNAL, number)
        if awaited:
            key = self.ready_key(signal.operation, number + 1)
        guard = LAST if signal.number.per_tile else EVERY
        self._add(lists, signal.operation, key, action, guard)


_FENCE_ORDER = list(FenceKind)


def _pieces(operation: Operation) -> set[str]:
    return {*(read.piece for read in operation.reads), *operation.writes}

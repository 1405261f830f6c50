"""Which events must come in which order for the accesses of a case to happen as meant.

Of two conflicting accesses the earlier one ends with an event, and the later one begins with one.
Fences move both: what threads did is done for others only after the fences that follow it, and what
tensor memory held before the last fence of the reader does not count as seen. Registers of a
product belong to it until it is complete, whatever its queue does next.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from schedgen.execution import machine
from schedgen.execution.events import AFTER, BEFORE, LOOP, Case, unroll
from schedgen.kernel import Space
from schedgen.program.model import Fence, FenceKind, Program, Run
from schedgen.program.operations import Access, Allocation, Engine


@dataclass(frozen=True, slots=True)
class Touch:
    """An access as it happens, by the step ``event`` of ``role``."""

    access: Access
    event: int
    role: str
    position: int
    engine: Engine
    tile: int
    number: int
    time: tuple[int, int]
    """Section and iteration."""

    def key(self, by_tile: bool) -> tuple[int, ...]:
        """Sorts the accesses to the same bytes in the order that is meant."""
        if by_tile:
            return (self.tile, *self.time, *self.access.order)
        return (self.tile, self.number, *self.access.order, *self.time)


@dataclass(frozen=True, slots=True)
class Conflict:
    """``later`` must not come before ``earlier``; ``missing`` are the fences that never follow."""

    earlier: Touch
    later: Touch
    missing: str = ""


Conflicts = dict[int, dict[int, list[Conflict]]]
"""Event that begins the later access -> event that ends the earlier one -> what that is about."""


class Setup(machine.Setup):
    """A case whose executions are looked at for races.

    Attributes:
        conflicts: the orders that it needs, with what they are about.
    """

    def __init__(self, program: Program, trips: Sequence[int]) -> None:
        case = unroll(program, trips)
        self.conflicts = conflicts(case)
        super().__init__(case, self.conflicts)


def conflicts(case: Case) -> Conflicts:
    """All orders that the case needs. The number of events stands for one that never happens."""
    fences = _Fences(case)
    found: Conflicts = defaultdict(lambda: defaultdict(list))
    for (name, _), touches in _touches(case).items():
        allocation = case.program.allocation[name]
        for one, two in combinations(touches, 2):
            if one.event == two.event or not (one.access.write or two.access.write):
                continue
            if not one.access.overlaps(two.access):
                continue
            by_tile = one.access.version.per_tile or two.access.version.per_tile
            if one.key(by_tile) == two.key(by_tile):
                continue  # one operation, by two parts of its role: no order is meant
            earlier, later = sorted((one, two), key=lambda touch: touch.key(by_tile))
            begin, end, missing = fences.order(allocation, earlier, later)
            found[begin][end].append(Conflict(earlier, later, missing))
    return {begin: dict(ends) for begin, ends in found.items()}


def _touches(case: Case) -> dict[tuple[str, int], list[Touch]]:
    """The accesses of the case for each slot of each allocation."""
    found: dict[tuple[str, int], list[Touch]] = defaultdict(list)
    for role, steps in case.roles.items():
        for index in steps:
            event = case.events[index]
            if not isinstance(event.action, Run):
                continue
            instance = event.instance
            engine = case.operation(index).engine
            for access in _happening(case, index):
                number = instance.number(access.version)
                time = (event.section, instance.iteration)
                slot = number % case.program.allocation[access.allocation].slots
                found[access.allocation, slot].append(
                    Touch(access, index, role, event.position, engine, instance.tile, number, time)
                )
    return found


def _happening(case: Case, index: int) -> Iterator[Access]:
    """The accesses of a run, without those that use initial values there."""
    event = case.events[index]
    done = {
        BEFORE: 0,
        LOOP: event.instance.iteration,
        AFTER: case.trips[event.instance.tile],
    }[event.section]
    return (access for access in case.operation(index).accesses if done >= access.initial)


class _Fences:
    """Where the fences of each role are."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.never = len(case.events)
        self.places: dict[tuple[str, FenceKind], list[int]] = defaultdict(list)
        for role, steps in case.roles.items():
            for index in steps:
                action = case.events[index].action
                if isinstance(action, Fence):
                    self.places[role, action.kind].append(case.events[index].position)

    def order(self, allocation: Allocation, earlier: Touch, later: Touch) -> tuple[int, int, str]:
        """The event that begins the later access, the one that ends the earlier one, and which
        fence does not exist at all.
        """
        same_role = earlier.role == later.role
        same_engine = earlier.engine is later.engine
        if earlier.engine is later.engine is Engine.TENSOR:
            return later.event, earlier.event, ""  # one queue for all roles, in order of issue
        own_threads = same_role and earlier.engine is later.engine is Engine.THREADS
        if own_threads and allocation.space is Space.TMEM:
            # Even for the thread that issues them, loads and stores end at their waits only.
            kind = FenceKind.TMEM_STORED if earlier.access.write else FenceKind.TMEM_LOADED
            end = self._next(earlier.role, kind, earlier.position)
            return later.event, end, kind if end == self.never else ""
        if same_role and same_engine and earlier.engine is not Engine.COPY_IN:
            # Program order, or the role's own queue; registers of a product are not free before
            # threads know that it is complete.
            taken = allocation.space is Space.REGISTERS and not self._accumulate(earlier, later)
            if taken and earlier.engine is Engine.WGMMA:
                return later.event, self.case.completion[earlier.event], ""
            return later.event, earlier.event, ""
        begin = later.event
        if not same_role and _publishing(allocation.space, earlier, later) == _BEHIND:
            # Threads of two parts of a role: those of the later one have the fence before it.
            begin = self._last(later.role, FenceKind.REGISTERS, later.position)
            return begin, earlier.event, FenceKind.REGISTERS if begin == self.never else ""
        end = self._end(allocation, earlier, later)
        if allocation.space is Space.TMEM and later.engine in (Engine.THREADS, Engine.TENSOR):
            begin = self._last(later.role, FenceKind.TMEM_AFTER, later.position)
        if begin == self.never:
            return later.event, self.never, FenceKind.TMEM_AFTER
        return begin, end[0], end[1]

    def _accumulate(self, earlier: Touch, later: Touch) -> bool:
        """Whether two products have their results in the same tile."""
        written = [
            {access.buffer for access in self.case.operation(touch.event).accesses if access.write}
            for touch in (earlier, later)
        ]
        tiles = {earlier.access.buffer, later.access.buffer}
        return len(tiles) == 1 and tiles <= written[0] & written[1]

    def _end(self, allocation: Allocation, earlier: Touch, later: Touch) -> tuple[int, str]:
        if earlier.engine.asynchronous:
            return self.case.completion[earlier.event], ""
        end, place = earlier.event, earlier.position
        for kind in _publishing(allocation.space, earlier, later):
            end = self._next(earlier.role, kind, place)
            if end == self.never:
                return end, kind
            place = self.case.events[end].position
        return end, ""

    def _next(self, role: str, kind: FenceKind, after: int) -> int:
        places = self.places[role, kind]
        index = bisect_right(places, after)
        return self.never if index == len(places) else self.case.roles[role][places[index]]

    def _last(self, role: str, kind: FenceKind, before: int) -> int:
        places = self.places[role, kind]
        index = bisect_left(places, before)
        return self.never if index == 0 else self.case.roles[role][places[index - 1]]


_BEHIND = (FenceKind.REGISTERS,)


def _publishing(space: Space, earlier: Touch, later: Touch) -> tuple[FenceKind, ...]:
    """The fences, in order, that an access of threads needs before others may follow it."""
    if space is Space.SMEM and later.engine.asynchronous:
        return (FenceKind.ASYNC_PROXY,)
    if space is Space.TMEM:
        done = FenceKind.TMEM_STORED if earlier.access.write else FenceKind.TMEM_LOADED
        return (done, FenceKind.TMEM_BEFORE)
    if space is Space.REGISTERS and later.engine is Engine.WGMMA:
        return (FenceKind.REGISTERS,)
    return ()

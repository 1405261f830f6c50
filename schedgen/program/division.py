"""Divides roles of a program into parts: some of their threads, and the others.

`schedgen.program.warps` says which roles, and into what.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from schedgen.kernel import Space
from schedgen.program.model import (
    Action,
    Arrive,
    Barrier,
    Commit,
    Program,
    RoleProgram,
    Run,
    Step,
    Wait,
    WaitGroup,
)
from schedgen.program.operations import Access, Allocation, Engine, TileOperation
from schedgen.program.threads import WARPS

SINGLE = (Engine.TENSOR, Engine.COPY_IN, Engine.COPY_OUT)
"""Engines that one thread of a role gives work to."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some threads of a role of four warps: ``each_warp`` of them if one of each warp is asked for.

    ``suffix`` follows the name of the role, of an operation or of an allocation in registers.
    """

    suffix: str
    threads: int
    each_warp: int
    first_warp: bool


_OTHERS = Part(" by the other warps", 96, 3, first_warp=False)
BY_WARPS = (Part(" by one warp", 32, 1, first_warp=True), _OTHERS)
BY_THREADS = (
    Part(" by one thread", 1, 1, first_warp=True),
    Part(" by the rest of its warp", 31, 0, first_warp=True),
    _OTHERS,
)
Parts = tuple[Part, ...]


def operations_of(role: RoleProgram) -> list[str]:
    """The operations of ``role``, one for each step that runs one."""
    return [step.action.operation for step in role.steps if isinstance(step.action, Run)]


def alike(role: RoleProgram, count: int) -> bool:
    """Whether that many arrivals are all threads of ``role``, or one of each warp."""
    return count in (role.warps, 32 * role.warps)


# -- what is touched ---------------------------------------------------------------------------


def shares(
    operation: TileOperation, access: Access, parts: Parts, *, alone: bool
) -> list[list[Access]]:
    """What each of ``parts`` touches of ``access``.

    ``alone``: all threads keep to elements of their own in it. Which ones they are is no
    rectangle; one row of a warp stands for those of one thread, and the others for the rest.
    """
    if operation.engine in SINGLE:
        return [[access], *([] for _ in parts[1:])]
    if operation.engine is not Engine.THREADS or access.spread is None:
        return [[replace(access, spread=None)] for _ in parts]
    warp, others = list(_strips(access, one=True)), list(_strips(access, one=False))
    if parts != BY_THREADS:
        return [warp, others]
    if not alone:
        return [warp, warp, others]
    return [[_rows(s, first=True) for s in warp], [_rows(s, first=False) for s in warp], others]


def alone_in(program: Program, role: RoleProgram, allocation: str) -> bool:
    """Whether every access of threads of ``role`` gives an element of ``allocation`` to one and the
    same thread of them.
    """
    spreads = {
        access.spread
        for name in operations_of(role)
        if program.operation[name].engine is Engine.THREADS
        for access in program.operation[name].accesses
        if access.allocation == allocation
    }
    return len(spreads) < 2 and None not in spreads


def _rows(strip: Access, *, first: bool) -> Access:
    low, high = strip.rows
    if high - low < 2:
        return strip
    return replace(strip, rows=(low, low + 1) if first else (low + 1, high))


def _strips(access: Access, *, one: bool) -> Iterator[Access]:
    """What the first warp touches, or what the others do."""
    spread = access.spread
    assert spread is not None
    low, high = access.rows if spread.axis == "rows" else access.bytes
    width = spread.per_warp
    at = low
    while at < high:
        mine = at // width % WARPS == 0
        end = at // width * width + width
        while not mine and end // width % WARPS:
            end += width
        strip = (at, min(end, high))
        if mine == one:
            yield (
                replace(access, rows=strip)
                if spread.axis == "rows"
                else replace(access, bytes=strip)
            )
        at = end


# -- the divided program -----------------------------------------------------------------------


def divided(program: Program, parts: Mapping[str, Parts]) -> Program:
    """``program`` with some of its roles in parts: name of a role -> what it becomes.

    Registers and warps are not meaningful in the result; count them in ``program``.
    """
    program = _meeting_at_numbered(program, parts)
    made = [
        _Division(program, role, parts[role.name]) for role in program.roles if role.name in parts
    ]
    mine = {name for one in made for name in operations_of(one.role)}
    narrow = {name for one in made for name in one.meetings}
    instead = {one.role.name: tuple(one.roles()) for one in made}
    return replace(
        program,
        allocations=(*program.allocations, *(s for one in made for s in one.allocations())),
        operations=(
            *(o for o in program.operations if o.name not in mine),
            *(o for one in made for o in one.operations()),
        ),
        barriers=tuple(
            replace(b, arrivals=b.arrivals // WARPS) if b.name in narrow else b
            for b in program.barriers
        ),
        roles=tuple(r for role in program.roles for r in instead.get(role.name, (role,))),
    )


def _meeting_at_numbered(program: Program, parts: Mapping[str, Parts]) -> Program:
    """``program`` with what a numbered barrier has the warps of a role do that waits there: none
    goes on before all have come (PTX ISA, bar.sync).
    """
    numbered = {barrier.name for barrier in program.barriers if barrier.kind == "pace"}
    barriers: dict[str, Barrier] = {}

    def met(role: RoleProgram, steps: tuple[Step, ...]) -> Iterator[Step]:
        for step in steps:
            action = step.action
            if isinstance(action, Wait) and action.barrier in numbered:
                threads = 32 * role.warps
                meets = Barrier(f"{role.name} meets at {action.barrier}", "role", 1, threads, 0)
                barriers[meets.name] = meets
                number = action.number
                yield replace(step, action=Arrive(meets.name, number, threads), why="")
                yield replace(step, action=Wait(meets.name, number), why="")
            yield step

    roles = tuple(
        replace(
            role,
            before=tuple(met(role, role.before)),
            loop=tuple(met(role, role.loop)),
            after=tuple(met(role, role.after)),
        )
        if role.name in parts and numbered
        else role
        for role in program.roles
    )
    return replace(program, roles=roles, barriers=(*program.barriers, *barriers.values()))


class _Division:
    """One role, in parts."""

    def __init__(self, program: Program, role: RoleProgram, parts: Parts) -> None:
        self.program, self.role, self.parts = program, role, parts
        self.meetings = {
            step.action.barrier
            for step in role.steps
            if isinstance(step.action, Wait) and self._in_warps(step.action)
        }
        """Where the threads of each warp meet: the barrier becomes that of the first warp."""
        allocations = {
            a.allocation for n in operations_of(role) for a in program.operation[n].accesses
        }
        self._alone = {
            allocation: alone_in(program, role, allocation) for allocation in allocations
        }

    def _in_warps(self, action: Arrive | Wait) -> bool:
        return self.program.barrier[action.barrier].kind == "warp"

    def allocations(self) -> Iterator[Allocation]:
        """Each part has registers of its own."""
        names = {
            access.allocation: None
            for name in operations_of(self.role)
            for access in self.program.operation[name].accesses
            if self._in_registers(access)
        }
        for part in self.parts:
            for name in names:
                yield replace(self.program.allocation[name], name=name + part.suffix)

    def operations(self) -> Iterator[TileOperation]:
        """Each operation by the parts that execute it."""
        for number, part in enumerate(self.parts):
            for name in dict.fromkeys(operations_of(self.role)):
                operation = self.program.operation[name]
                if number == 0 or operation.engine not in SINGLE:
                    accesses = tuple(self._accesses(operation, number))
                    yield replace(operation, name=name + part.suffix, accesses=accesses)

    def roles(self) -> Iterator[RoleProgram]:
        for part in self.parts:
            before, loop, after = (
                self._steps(steps, part)
                for steps in (self.role.before, self.role.loop, self.role.after)
            )
            yield replace(
                self.role,
                name=self.role.name + part.suffix,
                warps=part.each_warp,
                before=before,
                loop=loop,
                after=after,
            )

    def _in_registers(self, access: Access) -> bool:
        return self.program.allocation[access.allocation].space is Space.REGISTERS

    def _accesses(self, operation: TileOperation, number: int) -> Iterator[Access]:
        for access in operation.accesses:
            if self._in_registers(access):
                yield replace(access, allocation=access.allocation + self.parts[number].suffix)
            else:
                alone = self._alone[access.allocation]
                yield from shares(operation, access, self.parts, alone=alone)[number]

    def _steps(self, steps: Sequence[Step], part: Part) -> tuple[Step, ...]:
        return tuple(
            replace(step, action=self._action(step.action, part))
            for step in steps
            if self._takes_part(step.action, part)
        )

    def _takes_part(self, action: Action, part: Part) -> bool:
        """Whether threads of ``part`` do it."""
        first = part == self.parts[0]
        match action:
            case Run(operation) | WaitGroup(operation):
                return first or self.program.operation[operation].engine not in SINGLE
            case Arrive() | Wait() if self._in_warps(action) and not part.first_warp:
                return False
            case Arrive(_, _, count):
                return first or (alike(self.role, count) and self._count(count, part) > 0)
            case _:
                return first or not isinstance(action, Commit)

    def _count(self, count: int, part: Part) -> int:
        """How many of ``count`` arrivals, which are alike, are those of ``part``."""
        return part.each_warp if count == self.role.warps else part.threads

    def _action(self, action: Action, part: Part) -> Action:
        match action:
            case Run(operation) | WaitGroup(operation):
                return replace(action, operation=operation + part.suffix)
            case Arrive(_, _, count) if alike(self.role, count):
                return replace(action, count=self._count(count, part))
            case _:
                return action

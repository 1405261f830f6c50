"""Roles as the warps that they are.

A role is one list of steps, but four warps execute it, each at its own pace. What one warp wrote,
another one sees only if something made them meet. Where the warps of a role touch bytes of each
other, the role becomes two: one of its warps, and the other three. Both execute all of its steps,
on what their threads touch, and arrive as often as they have threads. All that is proven of the
result is proven of the warps; a role whose warps keep to bytes of their own, and arrive together,
needs no such division, because each of its warps is in the same position.

Bulk copies and tcgen05 are issued by a single thread, so they belong to the one warp, and so does
an arrival that is not as many for each warp.

One warp and the rest are enough: the warps of a role are interchangeable, as each access covers
whole rounds of all four of them (`schedgen.program.threads`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from schedgen.kernel import Space
from schedgen.program.model import (
    Access,
    Action,
    Arrive,
    Commit,
    Drain,
    Engine,
    Program,
    RoleProgram,
    Run,
    Step,
    Store,
    TileOperation,
)

WARPS = 4
SINGLE = (Engine.TENSOR, Engine.COPY_IN, Engine.COPY_OUT)
"""Engines that one thread of a role gives work to."""
PARTS = (" by one warp", " by the other warps")
"""What follows the name of a role, an operation or a store of registers in the two parts."""


def by_warps(program: Program) -> Program:
    """``program`` with the roles divided whose warps touch bytes of each other.

    The same program if there are none. Registers and warps are counted in what was divided.
    """
    divided = [role for role in program.roles if _uneven(program, role) or crossings(program, role)]
    if not divided:
        return program
    made = _Division(program, divided)
    return replace(
        program,
        stores=(*program.stores, *made.stores),
        operations=tuple(made.operations),
        roles=tuple(made.roles),
    )


def part_of(name: str) -> tuple[str, str]:
    """The name before the division, and which part it is, '' if it is not divided."""
    for part in PARTS:
        if name.endswith(part):
            return name.removesuffix(part), part
    return name, ""


def _uneven(program: Program, role: RoleProgram) -> bool:
    """Whether not all threads of ``role``, which all have work to do, arrive alike."""
    if role.warps != WARPS:
        return False
    engines = {program.operation[name].engine for name in _operations(role)}
    counts = (step.action.count for step in role.steps if isinstance(step.action, Arrive))
    return bool(engines - {*SINGLE}) and not all(_alike(role, count) for count in counts)


def _alike(role: RoleProgram, count: int) -> bool:
    """Whether that many arrivals are all threads, or one of each warp."""
    return count in (role.warps, 32 * role.warps)


def crossings(program: Program, role: RoleProgram) -> list[tuple[str, str, str]]:
    """Pairs of operations of ``role`` of which one warp touches bytes that another warp touches for
    the other one, at least one of them writing: (one, other, store).
    """
    if role.warps != WARPS:
        return []
    touched = _touched(program, role)
    found: dict[tuple[str, str, str], None] = {}
    for accesses in touched.values():
        parts = [
            (name, access, *_both(program.operation[name], access)) for name, access in accesses
        ]
        for (one, x, mine, _), (other, y, _, theirs) in product(parts, parts):
            if (x.write or y.write) and any(p.overlaps(q) for p, q in product(mine, theirs)):
                found[one, other, x.store] = None
    return list(found)


def _touched(program: Program, role: RoleProgram) -> dict[str, list[tuple[str, Access]]]:
    """Store that warps share -> (operation, access) of ``role``."""
    found: dict[str, list[tuple[str, Access]]] = defaultdict(list)
    for name in _operations(role):
        operation = program.operation[name]
        for access in operation.accesses:
            if program.store[access.store].space is not Space.REGISTERS:
                found[access.store].append((name, _known(program, role, operation, access)))
    return found


def _operations(role: RoleProgram) -> list[str]:
    return [step.action.operation for step in role.steps if isinstance(step.action, Run)]


def _known(program: Program, role: RoleProgram, operation: TileOperation, access: Access) -> Access:
    """``access`` without its spread, if that does not say which threads can meet there.

    Engines are not divided as threads are. And where two accesses to a store give the elements of a
    warp to different threads of it, the warp has to meet as well, like any other threads.
    """
    if operation.engine is not Engine.THREADS:
        return replace(access, spread=None)
    mine = access.spread
    others = (
        other.spread
        for name in _operations(role)
        if program.operation[name].engine is Engine.THREADS
        for other in program.operation[name].accesses
        if other.store == access.store
    )
    if mine is None or any(
        other is not None
        and (other.axis, other.per_warp) == (mine.axis, mine.per_warp)
        and other.lanes != mine.lanes
        for other in others
    ):
        return replace(access, spread=None)
    return access


def _both(operation: TileOperation, access: Access) -> tuple[list[Access], list[Access]]:
    """What one warp touches of ``access``, and what the others do."""
    if operation.engine in SINGLE:
        return [access], []
    if access.spread is None:
        return [access], [access]
    return list(_strips(access, one=True)), list(_strips(access, one=False))


def _strips(access: Access, *, one: bool) -> Iterator[Access]:
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


class _Division:
    """The parts of some roles, and everything else as it is."""

    def __init__(self, program: Program, divided: list[RoleProgram]) -> None:
        self.program = program
        self.stores: list[Store] = []
        self.operations: list[TileOperation] = []
        self.roles: list[RoleProgram] = []
        names = {role.name for role in divided}
        mine = {name for role in divided for name in _operations(role)}
        self.operations += [o for o in program.operations if o.name not in mine]
        for role in program.roles:
            if role.name in names:
                self._divide(role)
            else:
                self.roles.append(role)

    def _divide(self, role: RoleProgram) -> None:
        for number, part in enumerate(PARTS):
            self._registers(role, part)
            for name in dict.fromkeys(_operations(role)):
                operation = self.program.operation[name]
                if number == 0 or operation.engine not in SINGLE:
                    self._operation(role, operation, number)
            warps = (1, role.warps - 1)[number]
            self.roles.append(
                replace(
                    role,
                    name=role.name + part,
                    warps=warps,
                    before=self._steps(role, role.before, number),
                    loop=self._steps(role, role.loop, number),
                    after=self._steps(role, role.after, number),
                )
            )

    def _registers(self, role: RoleProgram, part: str) -> None:
        """Each part has registers of its own."""
        known = {store.name for store in self.stores}
        for name in _operations(role):
            for access in self.program.operation[name].accesses:
                store = self.program.store[access.store]
                if store.space is Space.REGISTERS and store.name + part not in known:
                    known.add(store.name + part)
                    self.stores.append(replace(store, name=store.name + part))

    def _operation(self, role: RoleProgram, operation: TileOperation, number: int) -> None:
        accesses: list[Access] = []
        for access in operation.accesses:
            if self.program.store[access.store].space is Space.REGISTERS:
                accesses.append(replace(access, store=access.store + PARTS[number]))
            else:
                known = _known(self.program, role, operation, access)
                accesses += _both(operation, known)[number]
        name = operation.name + PARTS[number]
        self.operations.append(replace(operation, name=name, accesses=tuple(accesses)))

    def _steps(self, role: RoleProgram, steps: tuple[Step, ...], number: int) -> tuple[Step, ...]:
        return tuple(
            replace(step, action=self._action(role, step.action, number))
            for step in steps
            if number == 0 or not self._single(role, step.action)
        )

    def _single(self, role: RoleProgram, action: Action) -> bool:
        """Whether only one thread of the role does it."""
        match action:
            case Run(operation) | Drain(operation):
                return self.program.operation[operation].engine in SINGLE
            case Arrive(_, _, count):
                return not _alike(role, count)
            case _:
                return isinstance(action, Commit)

    def _action(self, role: RoleProgram, action: Action, number: int) -> Action:
        match action:
            case Run(operation) | Drain(operation):
                return replace(action, operation=operation + PARTS[number])
            case Arrive(_, _, count) if _alike(role, count):
                each = count // role.warps
                return replace(action, count=each if number == 0 else count - each)
            case _:
                return action

"""The instances of a program's operations for given trip counts, ready to be executed often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, islice, pairwise
from typing import NamedTuple, TypeAlias

import torch

from schedgen.interpret.pieces import initial_tile, part
from schedgen.interpret.problem import InterpretationError, Problem
from schedgen.interpret.storage import Cells
from schedgen.interpret.tiles import CURRENT, Moment, execute, positional, reads_of
from schedgen.kernel import Operation, Phase, Read
from schedgen.program.model import Program
from schedgen.program.operations import Access, TileOperation

Result: TypeAlias = tuple[tuple[int, ...], torch.Tensor | None]
"""Contents of all cells written, in order; the tile that goes to global memory."""


class _Touch(NamedTuple):
    """A cell that an instance reads, or writes as its ``number``-th one; sorted as is meant."""

    order: tuple[int, ...]
    cell: int
    write: bool
    instance: Instance
    number: int


@dataclass(eq=False, slots=True)
class Instance:
    """An operation in one iteration of one tile.

    ``reads`` and ``writes`` are cells; ``uses`` says for each cell written how often that content
    is read before it is written over. ``known`` has the results for contents met so far.
    """

    number: int
    operation: TileOperation
    moment: Moment
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    known: dict[tuple[int, ...], Result]
    compute: Callable[[tuple[int, ...]], Result]
    uses: list[int] = field(default_factory=list[int])


@dataclass(frozen=True, slots=True)
class _Plan:
    """An operation with the access through which each of its reads happens."""

    what: Operation
    operation: TileOperation
    reads: tuple[tuple[Read, Access], ...]
    writes: tuple[Access, ...]
    positional: bool


@dataclass(frozen=True, slots=True)
class _Stored:
    """A read that goes to storage, at its cells."""

    read: Read
    access: Access
    cells: tuple[int, ...]


class Instances:
    """Makes instances, and remembers what they compute across runs and trip counts."""

    def __init__(self, program: Program, problem: Problem) -> None:
        self.problem = problem
        self.kernel = problem.kernel
        self.cells = Cells(program, self.kernel)
        self._place = {o.name: n for n, o in enumerate(self.kernel.operations)}
        self._known: dict[tuple[object, ...], dict[tuple[int, ...], Result]] = {}
        self._plans = [self._plan(operation) for operation in program.operations]

    def make(self, trips: Sequence[int]) -> dict[tuple[str, int, int], Instance]:
        """All instances of tiles with these trip counts, by name, tile and iteration."""
        made: dict[tuple[str, int, int], Instance] = {}
        touched: list[_Touch] = []
        for tile, (start, count) in enumerate(
            zip(accumulate(trips, initial=0), trips, strict=False)
        ):
            for plan in self._plans:
                looped = plan.what.phase is Phase.BODY
                for iteration in range(count if looped else 1):
                    new = {r for r, _ in plan.reads if self._is_new(plan.what, r, iteration, count)}
                    instance = self._instance(len(made), plan, tile, iteration, start, new, touched)
                    made[plan.what.name, tile, iteration] = instance
        _count_uses(touched)
        return made

    def _plan(self, operation: TileOperation) -> _Plan:
        what = self.kernel.operation.get(operation.name)
        if what is None:
            message = f"operation '{operation.name}' is not one of kernel '{self.kernel.name}'"
            raise InterpretationError(message)
        taken: set[Access] = set()
        reads: list[tuple[Read, Access]] = []
        for read in reads_of(what):
            # What a skipped operation leaves is where it would have written.
            wanted = read.distance == CURRENT
            fitting = [
                a for a in operation.accesses if a.buffer == read.piece and a.write is wanted
            ]
            if not fitting:
                message = f"operation '{operation.name}' has no access to '{read.piece}'"
                raise InterpretationError(message)
            access = next((a for a in fitting if a not in taken), fitting[0])
            taken.add(access)
            reads.append((read, access))
        writes = tuple(access for access in operation.accesses if access.write)
        return _Plan(what, operation, tuple(reads), writes, positional(what, self.kernel))

    def _instance(
        self,
        number: int,
        plan: _Plan,
        tile: int,
        iteration: int,
        start: int,
        new: set[Read],
        touched: list[_Touch],
    ) -> Instance:
        def cells(access: Access) -> tuple[int, ...]:
            return self.cells.cells(access, access.version.at(tile, start + iteration))

        stored = [_Stored(r, access, cells(access)) for r, access in plan.reads if r not in new]
        moment = Moment(self.problem.tiles[tile], iteration)
        where = (tile, iteration) if plan.positional else ()
        instance = Instance(
            number,
            plan.operation,
            moment,
            tuple(cell for each in stored for cell in each.cells),
            tuple(cell for access in plan.writes for cell in cells(access)),
            self._known.setdefault((plan.what.name, frozenset(new), where), {}),
            partial(self._compute, plan, stored, new, moment),
        )
        section = (Phase.BEFORE, Phase.BODY, Phase.AFTER).index(plan.what.phase)
        number = 0
        for access, write in (
            *((each.access, False) for each in stored),
            *((access, True) for access in plan.writes),
        ):
            version = access.version.at(tile, start + iteration)
            slot = (section, iteration) if access.version.per_tile else (0, version)
            order = (tile, *slot, *access.order, int(write))
            for cell in cells(access):
                touched.append(_Touch(order, cell, write, instance, number))
                number += write
        return instance

    def _compute(
        self,
        plan: _Plan,
        stored: Sequence[_Stored],
        new: set[Read],
        moment: Moment,
        contents: tuple[int, ...],
    ) -> Result:
        """Execute an operation on what the cells that it reads hold."""
        values: dict[Read, torch.Tensor] = {}
        for read in new:
            tile = initial_tile(self.kernel.region_of(read.piece))
            values[read] = part(self.kernel, read.piece, tile)
        rest = iter(contents)
        for each in stored:
            values[each.read] = self.cells.tile(each.access, list(islice(rest, len(each.cells))))
        found = execute(self.problem, plan.what, values, moment)
        numbers = [n for a in plan.writes for n in self.cells.numbers(a, found[a.buffer])]
        return tuple(numbers), found.get("")

    def _is_new(self, what: Operation, read: Read, iteration: int, trips: int) -> bool:
        """Whether a read finds the initial value, which nothing has put into storage."""
        if self.kernel.region_of(read.piece).initial is None:
            return False
        if read.distance > 0:
            return iteration < read.distance
        for other in self.kernel.operations:
            if read.piece in other.writes and not other.boundary:
                earlier = self._place[other.name] < self._place[what.name]
                looped = other.phase is Phase.BODY
                rounds = iteration if what.phase is Phase.BODY else trips
                if (looped and rounds > 0) or (
                    earlier and (not looped or what.phase is other.phase)
                ):
                    return False
        return True


def _count_uses(
    touched: Sequence[_Touch],
) -> None:
    """Note for each cell written how many reads follow before the next write, as is meant."""
    by_cell: dict[int, list[_Touch]] = {}
    for touch in touched:
        by_cell.setdefault(touch.cell, []).append(touch)
        if touch.write:
            touch.instance.uses = touch.instance.uses or [0] * len(touch.instance.writes)
    for events in by_cell.values():
        events.sort(key=lambda touch: touch.order)
        writes = [number for number, touch in enumerate(events) if touch.write]
        for begin, end in pairwise([*writes, len(events)]):
            events[begin].instance.uses[events[begin].number] = end - begin - 1

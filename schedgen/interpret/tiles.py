"""What each kind of operation computes, on tiles in the data types of their buffers.

Both interpreters call `execute`, so that their results agree bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from schedgen.elements import elements, tile_numbers
from schedgen.expressions import Expression, Name, references
from schedgen.interpret.formulas import compute
from schedgen.interpret.pieces import assemble, cast, split, unpacked, whole, whole_halves
from schedgen.interpret.problem import Coordinates, InterpretationError, Problem
from schedgen.kernel import Kernel, Operation, Read
from schedgen.layouts import PACKED
from schedgen.operations import KINDS, Condition
from schedgen.tensors import PARTLY

CURRENT = -1
"""The distance of a read that means what the buffer holds at the moment."""

_COORDINATES = {"row", "column", PARTLY}


@dataclass(frozen=True)
class Moment:
    """The output tile and the iteration that an operation belongs to."""

    coordinates: Coordinates
    iteration: int = 0


def reads_of(operation: Operation) -> tuple[Read, ...]:
    """All that `execute` needs: what is read, and what an operation that may be skipped leaves."""
    if operation.when is None or not _of_elements(operation):
        return operation.reads
    known = {read.piece for read in operation.reads}
    kept = [Read(piece, CURRENT) for piece in operation.writes if piece not in known]
    return (*operation.reads, *kept)


def _of_elements(operation: Operation) -> bool:
    """Whether its condition is one of elements, which keep their values where it is false."""
    return KINDS[operation.kind].CONDITION is Condition.ELEMENTS


def positional(operation: Operation, kernel: Kernel) -> bool:
    """Whether the result depends on the tile or the iteration, beside on what is read."""
    formulas = [formula for _, formula in operation.formulas]
    if operation.when is not None:
        formulas.append(operation.when)
    names = {name.name for formula in formulas for name in references(formula)}
    of_tile = _COORDINATES | {argument.name for argument in elements(kernel)}
    of_tile |= tile_numbers(kernel).keys()
    return operation.tensor is not None or bool(names & of_tile)


def execute(
    problem: Problem,
    operation: Operation,
    values: Mapping[Read, torch.Tensor],
    moment: Moment,
) -> dict[str, torch.Tensor]:
    """The pieces that ``operation`` writes, from the pieces that it reads.

    A piece is a tensor [rows, columns] in the data type of its buffer. A store returns the tile for
    global memory as the piece "", or nothing if it is not to happen.
    """
    return _Execution(problem, operation, values, moment).run()


class _Execution:
    """One execution of an operation; ``done`` has the outputs computed so far, by operand."""

    def __init__(
        self,
        problem: Problem,
        operation: Operation,
        values: Mapping[Read, torch.Tensor],
        moment: Moment,
    ) -> None:
        self.problem = problem
        self.kernel = problem.kernel
        self.operation = operation
        self.values = values
        self.moment = moment
        self.operands = dict(operation.operands)
        self.formulas = dict(operation.formulas)
        self.done: dict[str, torch.Tensor] = {}
        self.happens: torch.Tensor | None = None
        self.stored: torch.Tensor | None = None

    def run(self) -> dict[str, torch.Tensor]:
        operation = self.operation
        if operation.when is not None and _of_elements(operation):
            self.happens = self.formula(operation.when)  # of values from before the operation
        KINDS[operation.kind].compute(self)
        return {"": self.stored} if self.stored is not None else self._pieces()

    # -- what kinds of operations ask ----------------------------------------------------------

    def tile(self, operand: str) -> torch.Tensor:
        """What an operand reads, in the data type of its buffer."""
        return self._operand(operand)

    def factor(self, operand: str) -> torch.Tensor:
        """An operand of a product as float32, which holds each 16-bit product exactly."""
        if self._dtype(operand) in PACKED:
            return unpacked(self._operand(operand))
        tile = self._operand(operand).to(torch.float32, copy=True)
        if self._dtype(operand) == "tf32":
            bits = tile.view(torch.int32)
            tile = ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
        return tile.contiguous()

    def make(self, operand: str, value: torch.Tensor) -> None:
        """Note what an operand becomes, cast to the data type of its buffer."""
        row0, row1, column0, column1 = whole(self.kernel, self.operands[operand])
        made = cast(value, self._dtype(operand))
        self.done[operand] = made.broadcast_to(row1 - row0, column1 - column0)

    def loaded(self) -> torch.Tensor:
        """The tile of a load."""
        at = self.moment
        return self.problem.load(self.operation, at.coordinates, at.iteration)

    def store(self, tile: torch.Tensor) -> None:
        """Note the tile for global memory."""
        self.stored = tile

    def holds(self) -> bool:
        """Whether a load or a store happens: conditions of the output tile, or of scalars."""
        when = self.operation.when
        if when is None:
            return True
        if KINDS[self.operation.kind].CONDITION is Condition.TILE:
            return self.problem.holds(when, self.moment.coordinates)
        return bool(self.formula(when))

    def formula(self, formula: Expression) -> torch.Tensor:
        """The value of a formula over operands, scalars and coordinates."""
        return compute(formula, self._look)

    # -- operands ------------------------------------------------------------------------------

    def _dtype(self, operand: str) -> str:
        return self.kernel.region_of(self.operands[operand][0]).dtype

    def _operand(self, operand: str, distance: int | None = None) -> torch.Tensor:
        """The tile that an operand reads; ``distance`` None is the only one there is."""
        pieces = self.operands[operand]
        found: list[torch.Tensor] = []
        for piece in pieces:
            if distance is None:
                distances = [r.distance for r in self.operation.reads if r.piece == piece]
                distance = distances[0]
            found.append(self.values[Read(piece, distance)])
        return assemble(self.kernel, pieces, found)

    def _pieces(self) -> dict[str, torch.Tensor]:
        """The outputs by piece, with what was there before where the condition is false."""
        found: dict[str, torch.Tensor] = {}
        for name, tile in self.done.items():
            pieces = self.operands[name]
            made = split(self.kernel, pieces, tile)
            if self.happens is None:
                found |= {piece: part.contiguous() for piece, part in made.items()}
                continue
            happens = split(self.kernel, pieces, self.happens.broadcast_to(tile.shape))
            for piece, part in made.items():
                found[piece] = torch.where(happens[piece], part, self._before(piece))
        return found

    def _before(self, piece: str) -> torch.Tensor:
        distances = [r.distance for r in self.operation.reads if r.piece == piece]
        return self.values[Read(piece, distances[0] if distances else CURRENT)]

    # -- formulas ------------------------------------------------------------------------------

    def _look(self, name: Name) -> torch.Tensor:
        if name.name in self.operands:
            if name.distance == 0 and (made := self._made(name.name)) is not None:
                return made.to(torch.float32)
            found = self._operand(name.name, name.distance)
            packed = self._dtype(name.name) in PACKED
            found = whole_halves(found) if packed else found.to(torch.float32)
            return found.repeat_interleave(self._block(found.shape), 1)
        if name.name in ("row", "column"):
            return self._axis(name.name)
        if (extent := tile_numbers(self.kernel).get(name.name)) is not None:
            return torch.tensor(float(self.moment.coordinates.get(extent, 0)))
        if name.name == PARTLY:
            partly = self.problem.partly(self.moment.coordinates, self.moment.iteration)
            return torch.tensor(float(partly))
        if name.name in self.problem.names:
            return self.problem.names[name.name]
        return self.problem.element(name.name, self.moment.coordinates)

    def _block(self, shape: Sequence[int]) -> int:
        """Columns that a value of an operand stands for: more than 1 in a row of fewer values."""
        rows, columns = shape
        if rows > 1 or columns == 1:
            return 1
        boxes = [whole(self.kernel, pieces) for pieces in self.operands.values()]
        return max(column1 - column0 for _, _, column0, column1 in boxes) // columns

    def _made(self, name: str) -> torch.Tensor | None:
        """The value of an operand that this operation has computed a moment ago."""
        for done, tile in self.done.items():
            if self.operands[done] == self.operands[name]:
                return tile
        return None

    def _axis(self, name: str) -> torch.Tensor:
        """The coordinates of the rows or columns of the output in the global tensor."""
        if not self.operation.places:
            message = f"'{self.operation.name}' uses '{name}', but nothing says where its tile lies"
            raise InterpretationError(message)
        place = self.operation.places[name == "column"]
        start = self.problem.start(place, self.moment.coordinates, self.moment.iteration)
        axis = torch.arange(start, start + place.size, dtype=torch.float32)
        return axis[:, None] if name == "row" else axis[None, :]

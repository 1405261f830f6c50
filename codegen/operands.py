"""What names in the formulas of an operation stand for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from schedgen.codegen.errors import EmitError
from schedgen.codegen.names import identifier
from schedgen.codegen.plan import Part, Plan
from schedgen.exchanges import kept_as_results
from schedgen.expressions import Expression
from schedgen.kernel import Kind, Operation, Space
from schedgen.layouts import PACKED
from schedgen.operations import KINDS


class Shape(Enum):
    """What an operand has a value for."""

    TILE = "each element"
    ROWS = "each row"
    COLUMNS = "each column"


@dataclass(frozen=True, slots=True)
class Operand:
    """A part of a region under the name of a parameter.

    ``given``: it was loaded under this condition, and is zero otherwise; None: it is there.
    ``as_results``: a product takes its columns in the order in which threads have results.
    """

    name: str
    parameter: str
    part: Part
    shape: Shape
    given: Expression | None = None
    as_results: bool = False

    @property
    def space(self) -> Space:
        return self.part.region.space

    @property
    def in_registers(self) -> bool:
        return self.space is Space.REGISTERS

    @property
    def dtype(self) -> str:
        return self.part.region.dtype

    @property
    def numbers(self) -> int:
        """Numbers in an element."""
        return PACKED.get(self.dtype, 1)


def operands_of(plan: Plan, operation: Operation) -> dict[str, Operand]:
    """Name in the spec -> operand; names of the same part share a parameter."""
    found: dict[str, Operand] = {}
    given: dict[Part, str] = {}
    as_results = kept_as_results(plan.kernel)
    for name, _ in operation.operands:
        part = plan.part(operation, name)
        if part not in given:
            base = identifier(part.region.base)
            taken = {*given.values(), *plan.extents, *plan.scalars}
            given[part] = base if base not in taken else f"x_{base}_{len(given)}"
        kept = part.region.name in as_results
        loaded = _loaded(plan, operation, name)
        found[name] = Operand(name, given[part], part, shape_of(part), loaded, kept)
    return found


def _loaded(plan: Plan, operation: Operation, operand: str) -> Expression | None:
    """The condition under which what an operand reads was loaded."""
    pieces = dict(operation.operands)[operand]
    found = {plan.loaded_if.get((operation.name, piece)) for piece in pieces}
    if len(found) > 1:
        raise EmitError(
            f"{operation.name}: parts of '{operand}' are loaded on different conditions",
            operation,
            rule="conditions-of-parts",
            fix="give their loads the same 'when'",
        )
    return found.pop()


def rows_of(operation: Operation, operands: dict[str, Operand]) -> int:
    """Rows of the tiles, and values of the vectors of a value per row, that an operation works on.

    Raises:
        EmitError: they differ.
    """
    found = {
        operand.part.columns if _turned(operation, operand) else operand.part.rows
        for operand in operands.values()
        if operand.shape is not Shape.COLUMNS
    }
    if len(found) > 1:
        raise EmitError(f"{operation.name}: its tiles have different numbers of rows", operation)
    return found.pop() if found else 0


def band_of(operation: Operation, operand: Operand, rows: int, band: int) -> Operand:
    """What an operation has of an operand in the band of ``rows`` rows with that number."""
    part = operand.part
    if operand.shape is Shape.COLUMNS:
        return operand
    if _turned(operation, operand):
        first = part.column0 + rows * band
        return replace(operand, part=replace(part, column0=first, column1=first + rows))
    first = part.row0 + rows * band
    return replace(operand, part=replace(part, row0=first, row1=first + rows))


def _turned(operation: Operation, operand: Operand) -> bool:
    """Whether an operand has the operation's rows as its columns."""
    return operation.turned == operand.name and operand.shape is Shape.TILE


def columns_of(operation: Operation, operands: dict[str, Operand]) -> int:
    """Columns of the tiles that an operation works on; 0 if it only has values per row.

    A row of fewer values has one for each block of these columns.
    """
    computes = operation.kind is Kind.MAP  # with the numbers that elements consist of
    found = {
        operand.part.rows
        if _turned(operation, operand)
        else operand.part.columns * (operand.numbers if computes else 1)
        for operand in operands.values()
        if operand.shape is Shape.TILE
    }
    if len(found) > 1:
        raise EmitError(f"{operation.name}: its tiles have different numbers of columns")
    rows = (one.part.columns for one in operands.values() if one.shape is Shape.COLUMNS)
    return found.pop() if found else max(rows, default=0)


def shape_of(part: Part) -> Shape:
    """What the part of a region has a value for."""
    if len(part.region.shape) == 1:
        return Shape.ROWS
    return Shape.COLUMNS if part.region.shape[0] == 1 else Shape.TILE


def written(operation: Operation) -> tuple[str, ...]:
    """Names of the operands that an operation of threads writes."""
    return KINDS[operation.kind].outputs(operation)

"""What all kinds of operations of threads write their functions with."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from schedgen.codegen.elements import Elements, Formulas
from schedgen.codegen.errors import EmitError
from schedgen.codegen.formulas import code, library_functions
from schedgen.codegen.fragment import Fragment
from schedgen.codegen.operands import Operand, Shape, columns_of, operands_of
from schedgen.codegen.pieces import Pieces
from schedgen.codegen.plan import Plan
from schedgen.codegen.source import Source
from schedgen.expressions import Call, Expression, Name, Number, references
from schedgen.kernel import Operation, Space


class Body:
    """The function of one operation under construction.

    ``span`` columns of tiles outside of registers are in registers at a time; operands in
    ``initial`` have their initial value as long as the parameter ``fresh`` is true.
    """

    def __init__(
        self, plan: Plan, fragment: Fragment, operation: Operation, span: int, initial: set[str]
    ) -> None:
        self.plan, self.fragment, self.operation = plan, fragment, operation
        self.operands = operands_of(plan, operation)
        self.columns = columns_of(operation, self.operands)
        self.source = Source()
        fresh = {self.operands[name].parameter for name in initial}
        self.elements = Elements(fragment, operation, self.operands, fresh, self.source)
        self.pieces = Pieces(self.elements, self.columns, span)

    def write_formulas(self, formulas: list[tuple[str, Expression]]) -> None:
        """Outputs in the order of the formulas; a later one sees what earlier ones made."""
        rows = {name for name in self.operands if self.operands[name].shape is Shape.ROWS}
        self.load_rows(formulas)
        groups: list[list[tuple[str, Expression]]] = []
        for output, formula in formulas:
            if not groups or (groups[-1][0][0] in rows) != (output in rows):
                groups.append([])
            groups[-1].append((output, formula))
        for group in groups:
            if group[0][0] in rows:
                self._rows(group)
            else:
                self.pieces.write(group)

    # -- values per row ------------------------------------------------------------------------

    def load_rows(self, formulas: Formulas) -> None:
        """Values per row that lie in shared memory."""
        for operand in self.elements.read(formulas):
            if operand.shape is Shape.ROWS and not operand.in_registers:
                self._check_space(operand)
                name = operand.parameter
                self.source.uses("rows_of")
                self.source.add(f"in_{name} = rows_of({name}, {self.elements.thread()})")

    def _rows(self, formulas: Formulas) -> None:
        outside = self.elements.outputs_outside(formulas, self.fragment.values)
        mostly = None if outside else self.mostly(formulas)
        if mostly is None:
            self.each_row(formulas)
        else:
            with self.seldom(mostly):
                self.each_row(formulas)
        self.store_rows(outside)

    def each_row(self, formulas: Formulas) -> None:
        """Values of registers, for each of a thread's rows."""
        with self.source.block(f"for v in cutlass.range_constexpr({self.fragment.values}):"):
            self.elements.coordinates(formulas, rows=True)
            self.elements.write(formulas, rows=True)

    def mostly(self, formulas: Formulas) -> Mostly | None:
        """What these come to unless something happens, None if there is nothing, or no way to ask
        for it that is worth it.
        """
        return _mostly(formulas) if self.fragment.seldom else None

    @contextmanager
    def seldom(self, mostly: Mostly, unsure: Sequence[str] = ()) -> Generator[None]:
        """For lines that are only executed where a condition does not hold for all rows of a warp,
        or, with ``unsure``, conditions of all rows, where one of these holds; they are for all rows
        then. Otherwise outputs are simple ones.
        """
        value_of, rows = self.elements.value_of, range(self.fragment.values)
        known = [code(mostly.unless, partial(value_of, rows=True, v=str(v))) for v in rows]
        asked = " | ".join([*unsure, *(f"(not {one})" for one in known)])
        self.source.uses(self.fragment.seldom, *library_functions(mostly.unless))
        with self.source.block(f"if {self.fragment.seldom}({asked}):"):
            yield
        if mostly.simple:
            with self.source.block("else:"):
                self.each_row(mostly.simple)

    def store_rows(self, outside: list[Operand]) -> None:
        for operand in outside:
            self._check_space(operand)
            arguments = [f"out_{operand.parameter}", operand.parameter, self.elements.thread()]
            self.source.uses("store_rows")
            self.source.call("store_rows", arguments)

    def _check_space(self, operand: Operand) -> None:
        if operand.space is not Space.SMEM:
            raise EmitError(
                f"{self.operation.name}: '{operand.name}' has values per row in {operand.space}",
                rule="space-of-rows",
                fix="put them into registers or smem",
            )

    def in_registers(self, source: Operand) -> str:
        """The registers of a tile, which is brought there first if it is elsewhere."""
        if source.shape is not Shape.TILE or source.parameter in self.elements.initial:
            raise EmitError(
                f"{self.operation.name}: '{source.parameter}' is no tile that can be reduced where "
                "it is",
                rule="operand-of-reduction",
                fix="copy it to a tile in registers, and reduce that",
            )
        if source.in_registers:
            return source.parameter
        self.pieces.bring(source)
        return f"in_{source.parameter}"


@dataclass(frozen=True, slots=True)
class Mostly:
    """Outputs that are ``simple`` numbers, or what they were, unless a condition does not hold."""

    unless: Expression
    simple: Formulas


def _mostly(formulas: Formulas) -> Mostly | None:
    """None if there is no such condition, or if it is about what is made here."""
    conditions: set[Expression] = set()
    numbers: list[tuple[str, Expression]] = []
    for output, formula in formulas:
        if not isinstance(formula, Call) or formula.function != "where":
            return None
        condition, simple, _ = formula.arguments
        conditions.add(condition)
        if isinstance(simple, Number):
            numbers.append((output, simple))
        elif simple != Name(output, distance=1):
            return None
    made = {Name(output) for output, _ in formulas}
    if len(conditions) != 1 or any(made.intersection(references(one)) for one in conditions):
        return None
    return Mostly(conditions.pop(), numbers)

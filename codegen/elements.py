"""Formulas of an operation, element by element, as lines of its function."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from schedgen.codegen.dtypes import DTYPES
from schedgen.codegen.errors import EmitError
from schedgen.codegen.formulas import LOG2_E, code, library_functions
from schedgen.codegen.fragment import Fragment
from schedgen.codegen.operands import Operand, Shape, written
from schedgen.codegen.registers import initial_value
from schedgen.codegen.source import Source
from schedgen.expressions import Call, Expression, Name, counters, references
from schedgen.expressions.nodes import walk
from schedgen.kernel import Operation, Space

Formulas = Sequence[tuple[str, Expression]]
"""Outputs with what they become."""


class Elements:
    """Writes formulas over the registers of a thread.

    Attributes:
        source: the lines of the function.
        uses: its parameters beside operands: ``thread``, ``row_0``, scalars, extents.
        initial: parameters that have their initial values as long as ``fresh`` is true there.
        fresh: whether the lines are for that time.
        absent: parameters that were not loaded where the lines are for.
        made: parameter -> the variable with what it has become; with ``@``, with what it was.
    """

    def __init__(
        self,
        fragment: Fragment,
        operation: Operation,
        operands: dict[str, Operand],
        initial: set[str],
        source: Source,
    ) -> None:
        self.fragment, self.operation, self.operands = fragment, operation, operands
        self.initial, self.source = initial, source
        self.uses: set[str] = set()
        self.fresh = False
        self.absent: set[str] = set()
        self.made: dict[str, str] = {}

    @property
    def polynomial(self) -> Fraction:
        """The share of exponentials of tiles that FMA units compute."""
        return self.operation.polynomial

    @property
    def in_part(self) -> list[str]:
        """Which elements they are, as arguments of a function of the library."""
        share = self.polynomial
        return ["v", str(share.numerator), str(share.denominator)] if share else []

    @property
    def _functions(self) -> dict[str, str]:
        """Functions whose elements are not all computed in the same way."""
        if not self.polynomial:
            return {}
        more = ", ".join(self.in_part)
        return {
            "exp2": f"exp2_in_part({{0}}, {more})",
            "exp": f"exp2_in_part(({{0}} * {LOG2_E}), {more})",
        }

    def _use_functions(self, formula: Expression, *, rows: bool) -> None:
        """Says which functions of the library the code of a formula calls."""
        self.source.uses(*library_functions(formula))
        calls = {node.function for node in walk(formula) if isinstance(node, Call)}
        if not rows and calls & set(self._functions):
            self.source.uses("exp2_in_part")

    def read(self, formulas: Formulas) -> list[Operand]:
        """Operands that formulas and the condition read from before this operation."""
        made: set[str] = set()
        found: dict[str, Operand] = {}
        some = [] if self.operation.when is None else [("", self.operation.when)]
        for output, formula in [*some, *formulas]:
            for name in sorted(references(formula), key=str):
                operand = self.operands.get(name.name)
                if operand and (name.distance or operand.parameter not in made):
                    found[operand.parameter] = operand
            if output in self.operands:
                made.add(self.operands[output].parameter)
        if some:  # what the condition leaves as it is
            found |= {o.parameter: o for o in (self.operands[name] for name, _ in formulas)}
        return list(found.values())

    def outputs_outside(self, formulas: Formulas, count: int) -> list[Operand]:
        """Arrays ``out_X`` for outputs that cannot be written element by element."""
        found = [
            operand
            for operand in (self.operands[name] for name, _ in formulas)
            if not operand.in_registers
            or (operand.dtype != "f32" and operand.shape is not Shape.ROWS)
        ]
        for operand in found:
            dtype = DTYPES[operand.dtype] if operand.shape is Shape.ROWS else "Float32"
            self.source.add(f"out_{operand.parameter} = cute.make_rmem_tensor({count}, {dtype})")
        return found

    def write(
        self, formulas: Formulas, *, rows: bool, at: str = "v", remember: bool = True
    ) -> None:
        """One element of each output; made values go through ``new_X``."""
        if remember:
            self.remember(formulas, rows=rows, at=at)
        self.use_names(formulas)

        def look(name: Name) -> str:
            return self.value_of(name, rows=rows, at=at)

        when = self.operation.when
        for place, (output, formula) in enumerate(formulas):
            operand = self.operands[output]
            text = code(formula, look, None if rows else self._functions)
            self._use_functions(formula, rows=rows)
            if when is not None:
                self.source.uses(*library_functions(when))
                kept = self.value_of(Name(output), rows=rows, at=at)
                text = f"Float32({text}) if {code(when, look)} else Float32({kept})"
            parts = {
                self.operands[n.name].part
                for _, f in formulas[place + 1 :]
                for n in references(f)
                if n.name in self.operands
            }
            self.assign(operand, text, keep=operand.part in parts, rows=rows, at=at)
        self.made.clear()

    def remember(self, formulas: Formulas, *, rows: bool, at: str = "v") -> None:
        """``old_X``: values of the iteration before that outputs of this one write over."""
        outputs = {self.operands[n].parameter for n in written(self.operation)}
        before = {n for _, formula in formulas for n in references(formula) if n.distance}
        for name in sorted(before, key=str):
            operand = self.operands[name.name]
            if operand.in_registers and operand.parameter in outputs:
                old = f"old_{operand.parameter}"
                value = self.value_of(Name(name.name), rows=rows, at=at)
                self.source.add(f"{old} = {value}")
                self.made[f"{operand.parameter}@"] = old

    def assign(self, operand: Operand, text: str, *, keep: bool, rows: bool, at: str = "v") -> None:
        target = self.target(operand, rows=rows, at=at)
        if keep:
            value = f"new_{operand.parameter}"
            if operand.dtype != "f32":  # later formulas read it as it is stored
                text = f"Float32({text}).to({DTYPES[operand.dtype]})"
            self.source.add(f"{value} = Float32({text})")
            self.made[operand.parameter] = text = value
        if rows and operand.dtype != "f32":
            text = f"Float32({text}).to({DTYPES[operand.dtype]})"
        self.source.add(f"{target} = {text}")

    def target(self, operand: Operand, *, rows: bool, at: str = "v", v: str = "v") -> str:
        """Where an output's element ``v`` goes, number ``at`` of its registers."""
        outside = not operand.in_registers or (operand.dtype != "f32" and not rows)
        return f"out_{operand.parameter}[{v}]" if outside else f"{operand.parameter}[{at}]"

    def value_of(self, name: Name, *, rows: bool, at: str = "v", v: str = "v") -> str:
        """Element ``v`` of what a name means, as float32; in registers it is number ``at``."""
        operand = self.operands.get(name.name)
        if operand is None:
            return name.name
        if operand.numbers > 1 and operand.space is not Space.SMEM:
            raise EmitError(
                f"{self.operation.name}: '{name.name}' is in {operand.space}, and its elements are "
                f"{operand.numbers} numbers each",
                rule="space-of-pairs",
                fix="read it where it is in smem",
            )
        parameter = operand.parameter
        made = self.made.get(f"{parameter}@" if name.distance else parameter)
        if made is not None:
            return made
        if self.fresh and parameter in self.initial:
            return initial_value(operand.part.region.initial or "0")
        if parameter in self.absent:
            return "Float32(0.0)"
        if operand.shape is Shape.ROWS:
            index = v if rows else self.fragment.row
        else:
            index = at if operand.in_registers else v
        text = f"{parameter}[{index}]" if operand.in_registers else f"in_{parameter}[{index}]"
        return text if operand.dtype == "f32" else f"Float32({text})"

    # -- what else a function takes ------------------------------------------------------------

    def thread(self) -> str:
        self.uses.add("thread")
        return "thread"

    def use_names(self, formulas: Formulas) -> None:
        when = [] if self.operation.when is None else [("", self.operation.when)]
        for _, formula in [*formulas, *when]:
            names = {name.name for name in references(formula)} - set(self.operands)
            self.uses |= names - {"row", "column"}

    def coordinates(self, formulas: Formulas, first: str = "", *, rows: bool = False) -> None:
        """``row`` and ``column`` in the tensor of element v, or of row v, where formulas ask."""
        names = {name.name for _, formula in formulas for name in references(formula)}
        counted = {name.name for _, formula in formulas for name in counters(formula)}
        row = self.fragment.row_at("v") if rows else self.fragment.element_row
        column = self.fragment.element_column
        if "column" in counted:  # neighbours share what random numbers are made of
            column = self.fragment.paired_column
        for name, at in (("row", row), ("column", column)):
            if name in names and name not in self.operands:
                self.uses |= {f"{name}_0", self.thread()}
                more = f"{first} + " if first and name == "column" else ""
                self.source.add(f"{name} = {name}_0 + {more}{at}")

"""Reductions of the columns of a tile to a value per row."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from schedgen.kernel import Operation, Work
from schedgen.operations.base import Operand, OperationBase, size
from schedgen.operations.contexts import Alignment, Draft, Execution, Path, Shapes
from schedgen.operations.fields import Formula, Identifier


class Reduce(OperationBase):
    """Reduces the columns of a tile into a value per row."""

    KEYS: ClassVar[str] = "`op` (`max`, `sum`), `from` operand, `carry`, `to` buffer, `then`"
    MEANING: ClassVar[str] = (
        "to[i] = op over the columns j of from[i, j], combined by `op` with the formula `carry` if "
        "there is one, which reads what `to` was before: `carry: x, to: x` adds to it. `then`: "
        "further vectors computed from the result by formula, in order; in them the name of `to` "
        "is the new value"
    )

    kind: Literal["reduce"]
    op: Literal["max", "sum"]
    source: Operand = Field(alias="from", description="tile that is reduced")
    carry: Formula | None = Field(
        None,
        description="value per row that takes part in the reduction",
        examples=["m@1", "l@1 * alpha"],
    )
    to: Identifier = Field(description="vector of the result")
    then: dict[Identifier, Formula] = Field(
        default_factory=dict[Identifier, Formula],
        description="vectors computed from the result, by formula",
        examples=[{"alpha": "exp2(m@1 - m)"}],
    )

    def note(self, draft: Draft, path: Path) -> str | None:
        draft.read(self.source, "from", (*path, "from"))
        draft.write(self.to, "to", (*path, "to"))
        if self.carry is not None:
            draft.formula(self.carry, (*path, "carry"), output="carry", before=True)
        for name, text in self.then.items():
            draft.output(name, text, (*path, "then", name))
        if self.then:  # which call the result by its name
            draft.write(self.to, self.to, (*path, "to"))

    def attributes(self) -> dict[str, Any]:
        return {"reduction": self.op}

    def fits(self, shapes: Shapes) -> bool:
        source, to = shapes.shape("from"), shapes.shape("to")
        if shapes.is_vector("from"):
            message = f"'{self.source}' is a vector and has no columns to reduce"
            return shapes.fail("shape-mismatch", message, "from", "reduce a tile, or use a map")
        if to != (source[0], 1):
            message = f"reducing {size(source)} gives {source[0]} values, '{self.to}' is {size(to)}"
            return shapes.fail("shape-mismatch", message, "to", f"make its shape [{source[0]}]")
        if self.carry is not None and not shapes.formula_fits(
            "carry", "to", (*shapes.path, "carry")
        ):
            return False
        return all(
            shapes.formula_fits(name, name, (*shapes.path, "then", name))
            and self._per_row(name, source[0], shapes)
            for name in self.then
        )

    def _per_row(self, name: str, rows: int, shapes: Shapes) -> bool:
        if shapes.shape(name) == (rows, 1):
            return True
        message = f"a reduction computes {rows} values, and '{name}' is {size(shapes.shape(name))}"
        fix = f"make its shape [{rows}], or use a map"
        return shapes.fail("shape-mismatch", message, "then", fix, at_key=name)

    def work(self, shapes: Shapes) -> Work | None:
        rows, columns = shapes.shape("from")
        lanes = rows * columns
        work = Work(
            rows=rows,
            columns=columns,
            alu=lanes if self.op == "max" else 0,
            fma=lanes if self.op == "sum" else 0,
            row_steps=sum(shapes.counts(name).row_steps for name in self.then),
        )
        return shapes.traffic(shapes.widened(work))

    @staticmethod
    def align(alignment: Alignment, operation: Operation) -> None:
        found = alignment.formulas(operation, alignment.of(operation, "from").rows)
        alignment.note(operation, "to", found)
        alignment.computed[operation.name] = found.rows, found.columns

    @staticmethod
    def compute(execution: Execution) -> None:
        tile = execution.tile("from").float()
        largest = execution.operation.reduction == "max"
        value = tile.amax(1, keepdim=True) if largest else tile.sum(1, keepdim=True)
        if "carry" in execution.formulas:
            carry = execution.formula(execution.formulas["carry"])
            value = carry.maximum(value) if largest else carry + value
        execution.make("to", value)
        for name, formula in execution.operation.formulas:
            if name != "carry":
                execution.make(name, execution.formula(formula))

    @staticmethod
    def outputs(operation: Operation) -> tuple[str, ...]:
        return ("to", *(name for name, _ in operation.formulas if name != "carry"))

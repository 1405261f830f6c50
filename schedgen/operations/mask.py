"""Masks: elements of a tile that become a constant."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from schedgen.kernel import Operation, Work
from schedgen.operations.base import OperationBase
from schedgen.operations.contexts import Alignment, Draft, Execution, Path, Shapes
from schedgen.operations.fields import Formula, Identifier


class Mask(OperationBase):
    """Sets elements of a tile, in place, to ``value`` where ``keep`` is false."""

    KEYS: ClassVar[str] = "`to` buffer, `keep` condition, `value`"
    MEANING: ClassVar[str] = (
        "sets elements where `keep` is false to `value` (default `-inf`), in place. In `keep`, "
        "`row` and `column` are coordinates in the global tensor"
    )

    kind: Literal["mask"]
    to: Identifier = Field(description="buffer that is masked")
    keep: Formula = Field(
        description="condition; row and column are coordinates in the global tensor",
        examples=["column < seq_k"],
    )
    value: Formula = Field("-inf", description="number, inf or -inf")

    def note(self, draft: Draft, path: Path) -> str | None:
        draft.read(self.to, "from", (*path, "to"))
        draft.formula(self.keep, (*path, "keep"), output="keep", condition=True)
        draft.write(self.to, "to", (*path, "to"))

    def attributes(self) -> dict[str, Any]:
        return {"fill": self.value}

    def fits(self, shapes: Shapes) -> bool:
        return shapes.formula_fits("keep", "to", (*shapes.path, "keep"))

    def work(self, shapes: Shapes) -> Work | None:
        rows, columns = shapes.shape("to")
        return shapes.traffic(Work(rows=rows, columns=columns, alu=2 * rows * columns))

    @staticmethod
    def align(alignment: Alignment, operation: Operation) -> None:
        found = alignment.of(operation, "to")
        alignment.computed[operation.name] = found.rows, found.columns

    @staticmethod
    def compute(execution: Execution) -> None:
        tile, keep = execution.tile("from"), execution.formula(execution.formulas["keep"])
        fill = tile.new_tensor(float(execution.operation.fill or "-inf"))
        execution.make("to", tile.where(keep, fill))

"""Copies of tiles to shared memory by threads, which take each row where an array says it lies."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from schedgen.kernel import Operation, Space, Work
from schedgen.operations.base import OperationBase
from schedgen.operations.bulk import bulk_work
from schedgen.operations.contexts import Alignment, Draft, Execution, Path, Shapes
from schedgen.operations.fields import Identifier


class Gather(OperationBase):
    """Rows of a global tensor that an array lists, one behind the other in shared memory."""

    KEYS: ClassVar[str] = "`from` argument, `index` argument, `to` buffer"
    MEANING: ClassVar[str] = (
        "copies a tile to shared memory row by row, by threads: the first extent of `from` becomes "
        "that of `index`, an `i32` argument of one extent, and row i of the tensor that this makes "
        "is row index[i] of `from`; 0 if `from` has no such row. Data types must agree. The copies "
        "are on their way until a `land` of the same buffer"
    )

    kind: Literal["gather"]
    source: Identifier = Field(alias="from", description="argument whose rows are read")
    index: Identifier = Field(description="i32 argument: which row of it each row is")
    to: Identifier = Field(description="buffer in shared memory that is written")

    def note(self, draft: Draft, path: Path) -> str | None:
        draft.write(self.to, "to", (*path, "to"))
        return draft.tensor(self.source, "to", (*path, "from"))

    def fits(self, shapes: Shapes) -> bool:
        if shapes.space("to") is not Space.SMEM:
            message = f"rows are gathered into shared memory, and '{self.to}' is in "
            message += shapes.space("to")
            return shapes.fail("wrong-space", message, "to", "make it 'space: smem', and copy")
        if shapes.is_vector("to") or shapes.shape("to")[0] == 1:
            message = f"'{self.to}' is no matrix whose rows could be gathered"
            return shapes.fail("shape-mismatch", message, "to", "give it rows and columns")
        return True

    def work(self, shapes: Shapes) -> Work | None:
        return shapes.traffic(bulk_work(shapes, "to"))

    @staticmethod
    def align(alignment: Alignment, operation: Operation) -> None:
        alignment.note(operation, "to", alignment.lies(operation))

    @staticmethod
    def compute(execution: Execution) -> None:
        execution.make("to", execution.loaded())

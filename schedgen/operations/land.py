"""The end of copies by threads: what they gathered is there."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from schedgen.kernel import Operation, Work
from schedgen.operations.base import OperationBase
from schedgen.operations.contexts import Alignment, Draft, Execution, Path, Shapes
from schedgen.operations.fields import Identifier


class Land(OperationBase):
    """Waits until the rows that a `gather` of the same role began to copy are there."""

    KEYS: ClassVar[str] = "`to` buffer"
    MEANING: ClassVar[str] = (
        "waits for the rows that a `gather` copies to this buffer, which stands before it in the "
        "same list and has the same `role`; nothing touches the buffer in between"
    )

    kind: Literal["land"]
    to: Identifier = Field(description="buffer that a gather of the same role fills")

    def note(self, draft: Draft, path: Path) -> str | None:
        draft.read(self.to, "from", (*path, "to"))
        draft.write(self.to, "to", (*path, "to"))

    def fits(self, shapes: Shapes) -> bool:
        return bool(shapes.shape("to"))

    def work(self, shapes: Shapes) -> Work | None:
        rows, columns = shapes.shape("to")
        return Work(rows=rows, columns=columns)

    @staticmethod
    def align(alignment: Alignment, operation: Operation) -> None:
        found = alignment.of(operation, "to")
        alignment.computed[operation.name] = found.rows, found.columns

    @staticmethod
    def compute(execution: Execution) -> None:
        execution.make("to", execution.tile("from"))

"""Bulk copies of tiles from global tensors to shared memory."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from schedgen.kernel import Operation, Work
from schedgen.operations.base import Condition, OperationBase
from schedgen.operations.bulk import bulk_work, in_shared_memory
from schedgen.operations.contexts import Alignment, Draft, Execution, Path, Shapes
from schedgen.operations.fields import Identifier


class Load(OperationBase):
    """Bulk tensor copy from a global tensor into shared memory."""

    CONDITION: ClassVar[Condition] = Condition.SCALARS
    KEYS: ClassVar[str] = "`from` argument, `to` buffer"
    MEANING: ClassVar[str] = (
        "copies a tile of the tensor to shared memory, in bulk. Data types must agree"
    )

    kind: Literal["load"]
    source: Identifier = Field(alias="from", description="argument that is read")
    to: Identifier = Field(description="buffer in shared memory that is written")

    def note(self, draft: Draft, path: Path) -> str | None:
        draft.write(self.to, "to", (*path, "to"))
        return draft.tensor(self.source, "to", (*path, "from"))

    def fits(self, shapes: Shapes) -> bool:
        return in_shared_memory(shapes, "to", self.to)

    def work(self, shapes: Shapes) -> Work | None:
        return bulk_work(shapes, "to")

    @staticmethod
    def align(alignment: Alignment, operation: Operation) -> None:
        alignment.note(operation, "to", alignment.lies(operation))

    @staticmethod
    def compute(execution: Execution) -> None:
        tile = execution.loaded()
        execution.make("to", tile if execution.holds() else tile.new_zeros(tile.shape))

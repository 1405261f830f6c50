"""Bulk copies of tiles from shared memory to global tensors."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from schedgen.kernel import Operation, Work
from schedgen.operations.base import Condition, OperationBase
from schedgen.operations.bulk import bulk_work, in_shared_memory
from schedgen.operations.contexts import Alignment, Draft, Execution, Path, Shapes
from schedgen.operations.fields import Identifier


class Store(OperationBase):
    """Bulk tensor copy from shared memory into a global tensor."""

    CONDITION: ClassVar[Condition] = Condition.TILE
    KEYS: ClassVar[str] = "`from` buffer, `to` argument, `transposed`"
    MEANING: ClassVar[str] = (
        "copies a tile from shared memory to the tensor, in bulk. `transposed`: to the transposed "
        "place of the tensor. The buffer holds the tile as it is stored; the data is not "
        "transposed on the way"
    )

    kind: Literal["store"]
    source: Identifier = Field(alias="from", description="buffer in shared memory that is read")
    to: Identifier = Field(description="argument that is written")
    transposed: bool = Field(False, description="store to the transposed place of the tensor")

    def note(self, draft: Draft, path: Path) -> str | None:
        draft.read(self.source, "from", (*path, "from"))
        return draft.tensor(self.to, "from", (*path, "to"))

    def attributes(self) -> dict[str, Any]:
        return {"transposed": self.transposed}

    def fits(self, shapes: Shapes) -> bool:
        return in_shared_memory(shapes, "from", self.source)

    def work(self, shapes: Shapes) -> Work | None:
        return bulk_work(shapes, "from")

    @staticmethod
    def align(alignment: Alignment, operation: Operation) -> None:
        lies = alignment.lies(operation)
        alignment.agree(operation, "from", alignment.of(operation, "from"), lies)

    @staticmethod
    def compute(execution: Execution) -> None:
        if execution.holds():
            execution.store(execution.tile("from"))

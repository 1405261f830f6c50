"""Bulk copies of tiles from shared memory to global tensors, and sums of tiles there."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from schedgen.kernel import Operation, Work
from schedgen.operations.base import Condition, OperationBase
from schedgen.operations.bulk import bulk_work, in_shared_memory
from schedgen.operations.contexts import Alignment, Draft, Execution, Path, Shapes
from schedgen.operations.fields import Arithmetic, Identifier


class Store(OperationBase):
    """Bulk tensor copy from shared memory into a global tensor, or a sum with what is there."""

    CONDITION: ClassVar[Condition] = Condition.TILE
    KEYS: ClassVar[str] = (
        "`from` buffer, `to` argument, `transposed`, `reduce` (`add`), `unordered`, `ordered`"
    )
    MEANING: ClassVar[str] = (
        "copies a tile from shared memory to the tensor, in bulk. `transposed`: to the transposed "
        "place of the tensor. The buffer holds the tile as it is stored; the data is not "
        "transposed on the way. `reduce: add`: each element is added to what the tensor holds, in "
        "f32, as part of the copy. `unordered: true` (an expression) says that such sums may be "
        "in any order, and have other bits in each run; `ordered` names an `i32` argument with "
        "zeros, in which output tiles tell each other whose turn it is (section 2.11)"
    )

    kind: Literal["store"]
    source: Identifier = Field(alias="from", description="buffer in shared memory that is read")
    to: Identifier = Field(description="argument that is written")
    transposed: bool = Field(False, description="store to the transposed place of the tensor")
    reduce: Literal["add"] | None = Field(
        None, description="add to what the tensor holds, instead of writing over it"
    )
    unordered: Arithmetic = Field(
        False, description="sums of several tiles in any order: their bits may differ between runs"
    )

    ordered: Identifier | None = Field(
        None,
        description="i32 argument of one extent, with zeros: output tiles add in the order of "
        "their numbers, and say there that they have",
    )

    def note(self, draft: Draft, path: Path) -> str | None:
        draft.read(self.source, "from", (*path, "from"))
        return draft.tensor(self.to, "from", (*path, "to"))

    def attributes(self) -> dict[str, Any]:
        return {
            "transposed": self.transposed,
            "reduction": self.reduce,
            "unordered": self.unordered is True,
            "turns": self.ordered or "",
        }

    def fits(self, shapes: Shapes) -> bool:
        return in_shared_memory(shapes, "from", self.source) and self._can_be_added(shapes)

    def _can_be_added(self, shapes: Shapes) -> bool:
        """Whether a sum is one of float32, and says so of its order only if it is one."""
        said = [] if self.unordered is not True else ["unordered"]
        said += [] if self.ordered is None else ["ordered"]
        if self.reduce is None:
            if not said:
                return True
            message = f"'{self.id}' writes over what '{self.to}' holds: there is no order of sums"
            fix = "remove it, or add with 'reduce: add'"
            return shapes.fail("bad-reduction", message, said[0], fix, at_key=said[0])
        if len(said) > 1:
            message = f"'{self.id}' adds in any order, and in that of output tiles"
            return shapes.fail("bad-reduction", message, "ordered", "remove one of them")
        if shapes.dtype("from") == "f32":
            return True
        message = (
            f"'{self.id}' adds up tiles of {shapes.dtype('from')} in global memory, where each "
            "addition would round to it"
        )
        fix = (
            f"make '{self.source}' and '{self.to}' f32, and convert the sum in a kernel of its own"
        )
        return shapes.fail("bad-reduction", message, "from", fix)

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

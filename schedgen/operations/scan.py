"""Running sums along the rows of a tile."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from schedgen.kernel import Operation, Work
from schedgen.operations.base import Operand, OperationBase, size
from schedgen.operations.contexts import Alignment, Draft, Execution, Path, Shapes
from schedgen.operations.fields import Identifier


class Scan(OperationBase):
    """Inclusive sums along the rows of a tile."""

    KEYS: ClassVar[str] = "`op` (`sum`), `from` operand, `to` buffer"
    MEANING: ClassVar[str] = (
        "to[i, j] = the sum of from[i, 0] to from[i, j], in f32 and cast to the data type of `to`. "
        "Both tiles have one shape, and may be one"
    )

    kind: Literal["scan"]
    op: Literal["sum"] = Field(description="what is running")
    source: Operand = Field(alias="from", description="tile that is added up")
    to: Identifier = Field(description="tile of the sums; may be the same buffer")

    def note(self, draft: Draft, path: Path) -> str | None:
        draft.read(self.source, "from", (*path, "from"))
        draft.write(self.to, "to", (*path, "to"))

    def fits(self, shapes: Shapes) -> bool:
        source, to = shapes.shape("from"), shapes.shape("to")
        if shapes.is_vector("from"):
            message = f"'{self.source}' is a vector and has no columns to add up"
            return shapes.fail("shape-mismatch", message, "from", "give it two extents")
        if source != to or shapes.is_vector("to"):
            message = f"sums of {size(source)} are {size(source)}, '{self.to}' is {size(to)}"
            fix = f"make the shape of '{self.to}' {list(source)}"
            return shapes.fail("shape-mismatch", message, "to", fix)
        return True

    def work(self, shapes: Shapes) -> Work | None:
        rows, columns = shapes.shape("from")
        # An addition for each element, and its share of what the threads of a row exchange.
        work = Work(rows=rows, columns=columns, fma=2 * rows * columns)
        return shapes.traffic(shapes.widened(work))

    @staticmethod
    def align(alignment: Alignment, operation: Operation) -> None:
        source = alignment.of(operation, "from")
        alignment.note(operation, "to", source)
        alignment.computed[operation.name] = source.rows, source.columns

    @staticmethod
    def compute(execution: Execution) -> None:
        execution.make("to", execution.tile("from").float().cumsum(1))

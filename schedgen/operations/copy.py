"""Copies of tiles between memory spaces."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from schedgen.kernel import Operation, Space, Work
from schedgen.operations.base import Operand, OperationBase, size
from schedgen.operations.contexts import Alignment, Draft, Execution, Path, Shapes
from schedgen.operations.fields import Identifier


class Copy(OperationBase):
    """Moves a tile between memory spaces; within one space it disappears, both buffers are one."""

    KEYS: ClassVar[str] = "`from` operand, `to` buffer, `transposed`"
    MEANING: ClassVar[str] = (
        "moves a tile to another memory space; data types agree. Within one space it disappears "
        "(2.4). `transposed`: rows become columns"
    )

    kind: Literal["copy"]
    source: Operand = Field(alias="from", description="buffer that is read")
    to: Identifier = Field(description="buffer that is written")
    transposed: bool = Field(False, description="rows become columns")

    def note(self, draft: Draft, path: Path) -> str | None:
        draft.read(self.source, "from", (*path, "from"))
        draft.write(self.to, "to", (*path, "to"))

    def attributes(self) -> dict[str, Any]:
        return {"transposed": self.transposed}

    def fits(self, shapes: Shapes) -> bool:
        source, to = shapes.shape("from"), shapes.shape("to")
        wanted = (source[1], source[0]) if self.transposed else source
        if wanted != to:
            message = f"'{self.source}' is {size(source)}, '{self.to}' is {size(to)}"
            if self.transposed:
                message = f"{message}, and rows become columns"
            fix = f"make the shape of '{self.to}' {list(wanted)}"
            return shapes.fail("shape-mismatch", message, "to", fix)
        if shapes.dtype("from") != shapes.dtype("to"):
            message = f"a copy does not convert {shapes.dtype('from')} to {shapes.dtype('to')}"
            return shapes.fail("dtype-mismatch", message, "to", "use a map to cast")
        if set(shapes.pieces("from")) & set(shapes.pieces("to")):
            message = f"'{self.to}' would be copied to itself"
            return shapes.fail("wrong-operand", message, "to", "copy to another buffer")
        if self.transposed and Space.SMEM not in (shapes.space("from"), shapes.space("to")):
            message = f"threads cannot transpose '{self.source}' in {shapes.space('from')} to "
            message += f"'{self.to}' in {shapes.space('to')}: each has rows of its own"
            fix = "copy it to shared memory and from there, one of them transposed"
            return shapes.fail("wrong-space", message, "to", fix)
        return True

    def work(self, shapes: Shapes) -> Work | None:
        rows, columns = shapes.shape("to")
        return shapes.traffic(Work(rows=rows, columns=columns))

    @staticmethod
    def align(alignment: Alignment, operation: Operation) -> None:
        source = alignment.of(operation, "from")
        alignment.note(operation, "to", source.turned if operation.transposed else source)

    @staticmethod
    def compute(execution: Execution) -> None:
        tile = execution.tile("from")
        execution.make("to", tile.T.contiguous() if execution.operation.transposed else tile)

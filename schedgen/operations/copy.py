"""Copies of tiles between memory spaces."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from schedgen.kernel import Operation, Space, Work
from schedgen.layouts import SCALE_BYTES, SCALE_LANES
from schedgen.operations.base import Operand, OperationBase, size
from schedgen.operations.contexts import Alignment, Draft, Execution, Path, Shapes
from schedgen.operations.fields import Arithmetic, Identifier


class Copy(OperationBase):
    """Moves a tile between memory spaces; within one space it disappears, both buffers are one."""

    KEYS: ClassVar[str] = "`from` operand, `to` buffer, `transposed`, `interleave`"
    MEANING: ClassVar[str] = (
        "moves a tile to another memory space; data types agree. Within one space it disappears "
        "(2.4). `transposed`: rows become columns. `interleave: n`: factors for a product, from "
        "shared to tensor memory: n parts with as many groups of 32 rows of 16 bytes each become "
        "one group of lanes, with the first group of each part, then the second ones"
    )

    kind: Literal["copy"]
    source: Operand = Field(alias="from", description="buffer that is read")
    to: Identifier = Field(description="buffer that is written")
    transposed: bool = Field(False, description="rows become columns")
    interleave: Arithmetic | None = Field(
        None, description="parts whose groups of 32 rows take turns side by side, in tensor memory"
    )

    def note(self, draft: Draft, path: Path) -> str | None:
        draft.read(self.source, "from", (*path, "from"))
        draft.write(self.to, "to", (*path, "to"))

    def attributes(self) -> dict[str, Any]:
        return {"transposed": self.transposed, "interleave": int(self.interleave or 0)}

    def fits(self, shapes: Shapes) -> bool:
        fit = self._shapes_fit(shapes) if self.interleave is None else self._factors_fit(shapes)
        if not fit:
            return False
        if shapes.dtype("from") != shapes.dtype("to"):
            message = f"a copy does not convert {shapes.dtype('from')} to {shapes.dtype('to')}"
            return shapes.fail("dtype-mismatch", message, "to", "use a map to cast")
        if set(shapes.pieces("from")) & set(shapes.pieces("to")):
            message = f"'{self.to}' would be copied to itself"
            return shapes.fail("wrong-operand", message, "to", "copy to another buffer")
        return self._spaces_fit(shapes)

    def _shapes_fit(self, shapes: Shapes) -> bool:
        source, to = shapes.shape("from"), shapes.shape("to")
        wanted = (source[1], source[0]) if self.transposed else source
        if wanted == to:
            return True
        message = f"'{self.source}' is {size(source)}, '{self.to}' is {size(to)}"
        if self.transposed:
            message = f"{message}, and rows become columns"
        fix = f"make the shape of '{self.to}' {list(wanted)}"
        return shapes.fail("shape-mismatch", message, "to", fix)

    def _factors_fit(self, shapes: Shapes) -> bool:
        """Shapes of factors whose groups are interleaved."""
        parts, (rows, columns) = int(self.interleave or 0), shapes.shape("from")
        groups = rows // SCALE_LANES
        if columns != SCALE_BYTES or rows % SCALE_LANES or parts < 1 or groups % parts:
            message = f"'{self.source}' is {size((rows, columns))}, which are no {parts} parts of "
            message += f"groups of {SCALE_LANES} x {SCALE_BYTES}"
            fix = f"give each part a multiple of {SCALE_LANES} rows of {SCALE_BYTES} bytes"
            return shapes.fail("shape-mismatch", message, "from", fix)
        if shapes.shape("to") != (wanted := (SCALE_LANES, SCALE_BYTES * groups)):
            message = f"'{self.to}' is {size(shapes.shape('to'))}"
            fix = f"make its shape {list(wanted)}: the groups of '{self.source}' side by side"
            return shapes.fail("shape-mismatch", message, "to", fix)
        return True

    def _spaces_fit(self, shapes: Shapes) -> bool:
        source, to = shapes.space("from"), shapes.space("to")
        if ((source, to) == (Space.SMEM, Space.TMEM)) != (self.interleave is not None):
            if self.interleave is None:
                message = f"'{self.source}' is in {source}, '{self.to}' in {to}, and only factors "
                message += "of products are copied so"
                fix = "copy it to registers, and from there; or say how factors 'interleave'"
            else:
                message = f"it goes from {source} to {to}"
                fix = "interleave from shared to tensor memory, where products read factors"
            return shapes.fail("wrong-space", message, "to", fix)
        if self.transposed and Space.SMEM not in (source, to):
            message = f"threads cannot transpose '{self.source}' in {source} to "
            message += f"'{self.to}' in {to}: each has rows of its own"
            fix = "copy it to shared memory and from there, one of them transposed"
            return shapes.fail("wrong-space", message, "to", fix)
        return True

    def work(self, shapes: Shapes) -> Work | None:
        rows, columns = shapes.shape("to")
        return shapes.traffic(Work(rows=rows, columns=columns))

    @staticmethod
    def align(alignment: Alignment, operation: Operation) -> None:
        if operation.interleave:
            return  # lanes and bytes of factors lie along no extent of a result
        source = alignment.of(operation, "from")
        alignment.note(operation, "to", source.turned if operation.transposed else source)

    @staticmethod
    def compute(execution: Execution) -> None:
        tile, parts = execution.tile("from"), execution.operation.interleave
        if parts:
            groups = tile.reshape(parts, -1, SCALE_LANES, SCALE_BYTES)
            execution.make("to", groups.permute(2, 1, 0, 3).reshape(SCALE_LANES, -1))
            return
        execution.make("to", tile.T.contiguous() if execution.operation.transposed else tile)

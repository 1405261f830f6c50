"""Products on tensor cores."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from schedgen.exchanges import RESULT_COLUMNS, order_of_results
from schedgen.kernel import Operation, Space, Work
from schedgen.layouts import DTYPE_BITS, WHOLE
from schedgen.operations.base import Operand, OperationBase, size
from schedgen.operations.contexts import Alignment, Draft, Execution, Path, Shapes
from schedgen.operations.fields import Arithmetic, Identifier
from schedgen.operations.scales import scaled, scales_fit


class Mma(OperationBase):
    """Tensor-core product d = a * b, or d += a * b with ``accumulate``.

    a is [m, k], or [k, m] with ``transpose_a``; b is [k, n], or [n, k] with ``transpose_b``; d is
    [m, n].
    """

    KEYS: ClassVar[str] = (
        "`a`, `b` operands, `d` buffer, `transpose_a`, `transpose_b`, `accumulate`, `scale_a`, "
        "`scale_b` operands, `as_results`"
    )
    MEANING: ClassVar[str] = (
        "d = a·b, or d += a·b. a is [m, k], or [k, m] with `transpose_a`; b is [k, n], or [n, k] "
        "with `transpose_b` (both are expressions); d is [m, n]. a and b have one data type, not "
        "f32 (tf32 is one); d is f32 or fp16. b is in shared memory, and so is an a of [k, m]; d "
        "is in tensor memory or registers. `accumulate` adds to the "
        "value that this iteration wrote before, else to the value of the iteration before. With "
        "`scale_a` and `scale_b`, each block of 16 or 32 numbers along k has a factor for its row "
        "of a, and of b as [n, k]: tiles of 32 rows in tensor memory, with 16 bytes for 128 rows "
        "and 4 blocks, those of further rows beside them, and then further blocks. `as_results` "
        "(an expression), for an a of 8 bits in registers: number 4 t + 2 h + l of each 16 along k "
        "is number 8 h + 2 t + l of a's columns (t < 4, h and l < 2), as threads have results of "
        "products, so that none has to send bytes to another; rows of b lie in that order"
    )

    kind: Literal["mma"]
    a: Operand
    b: Operand
    d: Identifier = Field(description="buffer of the result")
    transpose_a: Arithmetic = Field(False, description="a is [k, m]")
    transpose_b: Arithmetic = Field(False, description="b is [n, k]")
    accumulate: bool = Field(False, description="add to what d holds")
    as_results: Arithmetic = Field(
        False, description="columns of a are taken in the order in which threads have results"
    )
    scale_a: Operand | None = Field(None, description="factors of blocks of rows of a")
    scale_b: Operand | None = Field(None, description="the same of b")

    def note(self, draft: Draft, path: Path) -> str | None:
        draft.read(self.a, "a", (*path, "a"))
        draft.read(self.b, "b", (*path, "b"))
        for name, scale in self._scales:
            draft.read(scale, name, (*path, name))
        draft.write(self.d, "d", (*path, "d"))
        if self.accumulate:
            draft.accumulate("d", (*path, "d"))

    def attributes(self) -> dict[str, Any]:
        return {
            "transpose_a": self.transpose_a is True,
            "transpose_b": self.transpose_b is True,
            "accumulate": self.accumulate,
            "as_results": self.as_results is True,
        }

    def fits(self, shapes: Shapes) -> bool:
        fit = self._shapes_fit(shapes) and self._types_fit(shapes)
        along_k = {"a": self.transpose_a is not True, "b": self.transpose_b is True}
        return fit and scales_fit(shapes, [name for name, _ in self._scales], along_k)

    @property
    def _scales(self) -> list[tuple[str, Operand]]:
        given = (("scale_a", self.scale_a), ("scale_b", self.scale_b))
        return [(name, scale) for name, scale in given if scale is not None]

    def work(self, shapes: Shapes) -> Work | None:
        (m, k), (_, n) = self._left(shapes), shapes.shape("d")
        read = {s: shapes.bytes(s) if shapes.space(s) is Space.SMEM else 0 for s in ("a", "b")}
        return Work(
            rows=m,
            columns=n,
            m=m,
            n=n,
            k=k,
            a_bytes=read["a"],
            b_bytes=read["b"],
            element_bytes=DTYPE_BITS[shapes.dtype("a")] // 8,
        )

    @staticmethod
    def align(alignment: Alignment, operation: Operation) -> None:
        alignment.product(operation)

    @staticmethod
    def compute(execution: Execution) -> None:
        a, b = execution.factor("a"), execution.factor("b")
        if execution.operation.transpose_a:
            a = a.T
        if execution.operation.as_results:
            a = a[:, order_of_results(a.shape[1])]
        if execution.operation.scaled:
            a, b = (
                scaled(factor, execution.factor(f"scale_{name}"))
                for name, factor in (("a", a), ("b", b))
            )
        product = a @ (b.T if execution.operation.transpose_b else b)
        if execution.operation.accumulate:
            product = execution.tile("d").float() + product
        execution.make("d", product)

    @staticmethod
    def outputs(operation: Operation) -> tuple[str, ...]:
        del operation
        return ("d",)

    def _left(self, shapes: Shapes) -> tuple[int, int]:
        """m and k, as a has them."""
        rows, columns = shapes.shape("a")
        return (columns, rows) if self.transpose_a else (rows, columns)

    def _shapes_fit(self, shapes: Shapes) -> bool:
        for operand, name in (("a", self.a), ("b", self.b), ("d", self.d)):
            if shapes.is_vector(operand):
                message = f"'{name}' is a vector, and a product needs tiles"
                fix = "use a buffer with two extents"
                return shapes.fail("shape-mismatch", message, operand, fix)
        a, b, d = shapes.shape("a"), shapes.shape("b"), shapes.shape("d")
        (m, k), (n, inner) = self._left(shapes), (b if self.transpose_b else (b[1], b[0]))
        if inner != k:
            of_a, of_b = (", transposed" * bool(t) for t in (self.transpose_a, self.transpose_b))
            message = f"the inner extents differ: a is {size(a)}{of_a}, b is {size(b)}{of_b}"
            at, fix = "b", f"give b an inner extent of {k}"
            if m == inner and (n != k or d == (k, n)):
                at, fix = "a", _other_way("transpose_a", self.transpose_a)
            elif n == k:
                fix = _other_way("transpose_b", self.transpose_b)
            return shapes.fail("shape-mismatch", message, at, fix)
        if d != (m, n):
            message = f"the product is {m} x {n}, but '{self.d}' is {size(d)}"
            return shapes.fail("shape-mismatch", message, "d", f"make its shape [{m}, {n}]")
        return True

    def _types_fit(self, shapes: Shapes) -> bool:
        a, b, d = shapes.dtype("a"), shapes.dtype("b"), shapes.dtype("d")
        if a == "f32":
            message = f"tensor cores do not multiply f32, and '{self.a}' is f32"
            fix = "use tf32, or 16-bit or 8-bit operands"
            return shapes.fail("dtype-mismatch", message, "a", fix)
        if a in WHOLE:
            message = f"'{self.a}' is {a}, whose products are whole numbers of 32 bits, which no "
            message += "buffer has"
            fix = "convert it to bf16 or fp16 in a map, and multiply that"
            return shapes.fail("dtype-mismatch", message, "a", fix)
        if a != b:
            return shapes.fail("dtype-mismatch", f"a is {a} and b is {b}", "b", f"make both {a}")
        if d not in ("f32", "fp16"):
            message = f"tensor cores do not accumulate in {d}, and '{self.d}' is {d}"
            return shapes.fail("dtype-mismatch", message, "d", "make it f32, and cast in a map")
        if shapes.space("b") is not Space.SMEM:
            message = f"b must be in shared memory, and '{self.b}' is in {shapes.space('b')}"
            return shapes.fail("wrong-space", message, "b", "use 'space: smem'")
        if self.as_results and not self._keeps_results(shapes):
            return False
        if self.transpose_a and shapes.space("a") is not Space.SMEM:
            message = f"an a of [k, m] must be in shared memory, and '{self.a}' is in "
            fix = "use 'space: smem', or load a as [m, k], without 'transpose_a'"
            return shapes.fail("wrong-space", f"{message}{shapes.space('a')}", "a", fix)
        if shapes.space("d") is Space.SMEM:
            message = f"products go to tensor memory or registers, and '{self.d}' is in smem"
            fix = "use 'space: tmem' or registers, and copy"
            return shapes.fail("wrong-space", message, "d", fix)
        if set(shapes.pieces("d")) & {*shapes.pieces("a"), *shapes.pieces("b")}:
            message = f"'{self.d}' is both an operand and the result"
            fix = "write the product to another buffer"
            return shapes.fail("wrong-operand", message, "d", fix)
        return True

    def _keeps_results(self, shapes: Shapes) -> bool:
        """Whether a left operand can be taken in the order of results."""
        columns, bits = shapes.shape("a")[1], DTYPE_BITS[shapes.dtype("a")]
        if shapes.space("a") is not Space.REGISTERS or bits != 8:
            message = f"'{self.a}' has {bits} bits in {shapes.space('a')}, and only left operands "
            message += "of 8 bits in registers lie in another order than results"
            fix = "remove 'as_results'"
            return shapes.fail("wrong-operand", message, "a", fix)
        if columns % RESULT_COLUMNS:
            message = f"'{self.a}' has {columns} columns, and {RESULT_COLUMNS} change places"
            fix = f"make it a multiple of {RESULT_COLUMNS} columns"
            return shapes.fail("shape-mismatch", message, "a", fix)
        return True


def _other_way(key: str, given: object) -> str:
    """The fix that has an operand the other way round."""
    return f"remove '{key}'" if given else f"add '{key}: true'"

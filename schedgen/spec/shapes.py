"""Whether the operands of an operation fit together: shapes, data types, memory spaces."""

from __future__ import annotations

from schedgen.expressions import references
from schedgen.kernel import DTYPE_BITS, Space
from schedgen.spec import entries
from schedgen.spec.draft import Draft
from schedgen.spec.layout import Layout
from schedgen.spec.values import Path, Place


class Shapes:
    """What the operands of a draft look like, and where to report that they do not fit."""

    def __init__(self, draft: Draft, layout: Layout, path: Path) -> None:
        self.draft = draft
        self.layout = layout
        self.path = path

    def shape(self, operand: str) -> tuple[int, int]:
        """Return the rows and columns that the pieces of an operand make up together."""
        pieces = self.draft.operands[operand]
        rows = max(p.row1 for p in pieces) - min(p.row0 for p in pieces)
        width = max(p.byte1 for p in pieces) - min(p.byte0 for p in pieces)
        return rows, width * 8 // DTYPE_BITS[self.dtype(operand)]

    def bytes(self, operand: str) -> int:
        """Return the bytes of an operand."""
        return sum(piece.bytes for piece in self.draft.operands[operand])

    def row_bytes(self, operand: str) -> int:
        """Return the bytes of a row of the buffer that an operand is in."""
        return self.layout.regions[self.draft.operands[operand][0].region].row_bytes

    def space(self, operand: str) -> Space:
        """Return the memory space of an operand."""
        return self.layout.regions[self.draft.operands[operand][0].region].space

    def dtype(self, operand: str) -> str:
        """Return the data type of an operand."""
        return self.layout.regions[self.draft.operands[operand][0].region].dtype

    def is_vector(self, operand: str) -> bool:
        """Whether an operand is a value per row."""
        return len(self.layout.regions[self.draft.operands[operand][0].region].shape) == 1

    def fail(self, rule: str, message: str, key: str, fix: str) -> bool:
        """Report that the value of ``key`` does not fit, and return False."""
        self.draft.error(rule, message, (*self.path, key), fix=fix)
        return False

    def formula_fits(self, formula: str, output: str, path: Path) -> bool:
        """Whether what a formula reads has the shape of its output, or a row or column of it."""
        shape = self.shape(output)
        for name in references(self.draft.formulas[formula]):
            at = Place(path).of(name)
            if name.name == "column" and self.is_vector(output):
                message = "'column' has no meaning where a value per row is computed"
                self.draft.error("shape-mismatch", message, at, fix="compute a tile instead")
                return False
            if name.name not in self.draft.operands:
                continue
            other = self.shape(name.name)
            if other[0] not in (1, shape[0]) or other[1] not in (1, shape[1]):
                message = f"'{name.name}' is {_size(other)}, what is computed is {_size(shape)}"
                fix = "make the shapes equal, or broadcast one row or one column"
                self.draft.error("shape-mismatch", message, at, fix=fix)
                return False
        return True


def fits(entry: entries.Operation, shapes: Shapes) -> bool:
    """Whether the operands of one instance fit together; reports the first that does not."""
    match entry:
        case entries.Load():
            return _transfer(shapes, "to", entry.to)
        case entries.Store():
            return _transfer(shapes, "from", entry.source)
        case entries.Mma():
            return _product_shapes(entry, shapes) and _product_types(entry, shapes)
        case entries.Reduce():
            return _reduction(entry, shapes)
        case entries.Map():
            return all(
                shapes.formula_fits(name, name, (*shapes.path, "to", name)) for name in entry.to
            )
        case entries.Copy():
            return _copy(entry, shapes)
        case entries.Mask():
            return shapes.formula_fits("keep", "to", (*shapes.path, "keep"))


def _transfer(shapes: Shapes, operand: str, name: str) -> bool:
    if shapes.space(operand) is Space.SMEM:
        return True
    message = f"bulk copies move tiles of shared memory, and '{name}' is in {shapes.space(operand)}"
    fix = "load or store a buffer with 'space: smem', and copy"
    return shapes.fail("wrong-space", message, operand, fix)


def _product_shapes(entry: entries.Mma, shapes: Shapes) -> bool:
    for operand, name in (("a", entry.a), ("b", entry.b), ("d", entry.d)):
        if shapes.is_vector(operand):
            message = f"'{name}' is a vector, and a product needs tiles"
            return shapes.fail("shape-mismatch", message, operand, "use a buffer with two extents")
    a, b, d = shapes.shape("a"), shapes.shape("b"), shapes.shape("d")
    (m, k), (n, inner) = a, (b if entry.transpose_b else (b[1], b[0]))
    if inner != k:
        message = f"the inner extents differ: a is {_size(a)}, b is {_size(b)}"
        if entry.transpose_b:
            message = f"{message}, transposed"
        fix = "remove 'transpose_b'" if entry.transpose_b else "add 'transpose_b: true'"
        if b[0 if entry.transpose_b else 1] != k:
            fix = f"give b an inner extent of {k}"
        return shapes.fail("shape-mismatch", message, "b", fix)
    if d != (m, n):
        message = f"the product is {m} x {n}, but '{entry.d}' is {_size(d)}"
        return shapes.fail("shape-mismatch", message, "d", f"make its shape [{m}, {n}]")
    return True


def _product_types(entry: entries.Mma, shapes: Shapes) -> bool:
    a, b, d = shapes.dtype("a"), shapes.dtype("b"), shapes.dtype("d")
    if a == "f32":
        message = f"tensor cores do not multiply f32, and '{entry.a}' is f32"
        return shapes.fail("dtype-mismatch", message, "a", "use tf32, or 16-bit or 8-bit operands")
    if a != b:
        return shapes.fail("dtype-mismatch", f"a is {a} and b is {b}", "b", f"make both {a}")
    if d not in ("f32", "fp16"):
        message = f"tensor cores do not accumulate in {d}, and '{entry.d}' is {d}"
        return shapes.fail("dtype-mismatch", message, "d", "make it f32, and cast in a map")
    if shapes.space("b") is not Space.SMEM:
        message = f"b must be in shared memory, and '{entry.b}' is in {shapes.space('b')}"
        return shapes.fail("wrong-space", message, "b", "use 'space: smem'")
    if shapes.space("d") is Space.SMEM:
        message = f"products go to tensor memory or registers, and '{entry.d}' is in smem"
        return shapes.fail("wrong-space", message, "d", "use 'space: tmem' or registers, and copy")
    if set(shapes.draft.operands["d"]) & {*shapes.draft.operands["a"], *shapes.draft.operands["b"]}:
        message = f"'{entry.d}' is both an operand and the result"
        return shapes.fail("wrong-operand", message, "d", "write the product to another buffer")
    return True


def _reduction(entry: entries.Reduce, shapes: Shapes) -> bool:
    source, to = shapes.shape("from"), shapes.shape("to")
    if shapes.is_vector("from"):
        message = f"'{entry.source}' is a vector and has no columns to reduce"
        return shapes.fail("shape-mismatch", message, "from", "reduce a tile, or use a map")
    if to != (source[0], 1):
        message = f"reducing {_size(source)} gives {source[0]} values, '{entry.to}' is {_size(to)}"
        return shapes.fail("shape-mismatch", message, "to", f"make its shape [{source[0]}]")
    if entry.carry is not None and not shapes.formula_fits("carry", "to", (*shapes.path, "carry")):
        return False
    return all(
        shapes.formula_fits(name, name, (*shapes.path, "then", name))
        and _per_row(name, source[0], shapes)
        for name in entry.then
    )


def _per_row(name: str, rows: int, shapes: Shapes) -> bool:
    if shapes.shape(name) == (rows, 1):
        return True
    message = f"a reduction computes {rows} values, and '{name}' is {_size(shapes.shape(name))}"
    at = Place((*shapes.path, "then", name), key=True)
    shapes.draft.error("shape-mismatch", message, at, fix=f"make its shape [{rows}], or use a map")
    return False


def _copy(entry: entries.Copy, shapes: Shapes) -> bool:
    source, to = shapes.shape("from"), shapes.shape("to")
    wanted = (source[1], source[0]) if entry.transposed else source
    if wanted != to:
        message = f"'{entry.source}' is {_size(source)}, '{entry.to}' is {_size(to)}"
        if entry.transposed:
            message = f"{message}, and rows become columns"
        fix = f"make the shape of '{entry.to}' {list(wanted)}"
        return shapes.fail("shape-mismatch", message, "to", fix)
    if shapes.dtype("from") != shapes.dtype("to"):
        message = f"a copy does not convert {shapes.dtype('from')} to {shapes.dtype('to')}"
        return shapes.fail("dtype-mismatch", message, "to", "use a map to cast")
    if set(shapes.draft.operands["from"]) & set(shapes.draft.operands["to"]):
        message = f"'{entry.to}' would be copied to itself"
        return shapes.fail("wrong-operand", message, "to", "copy to another buffer")
    if entry.transposed and Space.SMEM not in (shapes.space("from"), shapes.space("to")):
        message = f"threads cannot transpose '{entry.source}' in {shapes.space('from')} to "
        message += f"'{entry.to}' in {shapes.space('to')}: each has rows of its own"
        fix = "copy it to shared memory and from there, one of them transposed"
        return shapes.fail("wrong-space", message, "to", fix)
    return True


def _size(shape: tuple[int, int]) -> str:
    return f"{shape[0]} x {shape[1]}"

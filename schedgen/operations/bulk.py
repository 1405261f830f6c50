"""What loads and stores have in common."""

from __future__ import annotations

from schedgen.kernel import Space, Work
from schedgen.operations.contexts import Shapes


def in_shared_memory(shapes: Shapes, operand: str, name: str) -> bool:
    """Whether the tile of a bulk copy is where bulk copies reach it."""
    if shapes.space(operand) is Space.SMEM:
        return True
    message = f"bulk copies move tiles of shared memory, and '{name}' is in {shapes.space(operand)}"
    fix = "load or store a buffer with 'space: smem', and copy"
    return shapes.fail("wrong-space", message, operand, fix)


def bulk_work(shapes: Shapes, operand: str) -> Work:
    """Bytes, and how they lie."""
    rows, columns = shapes.shape(operand)
    return Work(
        rows=rows,
        columns=columns,
        bytes=shapes.bytes(operand),
        row_bytes=shapes.row_bytes(operand),
    )

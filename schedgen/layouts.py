"""Data types of elements, and how tiles of them lie in memory."""

from __future__ import annotations

DTYPE_BITS = {
    "f32": 32,
    "tf32": 32,
    "bf16": 16,
    "fp16": 16,
    "e4m3": 8,
    "e5m2": 8,
    "e8m0": 8,
    "e2m1x2": 8,
    "i8": 8,
    "i4x2": 8,
}
"""Bits of an element. Elements of e2m1x2 are pairs of numbers of 4 bits, the first one in the lower
half (OCP Microscaling Formats), those of i4x2 pairs of whole numbers from -8 to 7 in two's
complement, in the same order; i8 are whole numbers from -128 to 127."""
PACKED = {"e2m1x2": 2, "i4x2": 2}
"""Numbers in an element, where these are more than one."""
WHOLE = frozenset({"i8", "i4x2"})
"""Data types of whole numbers: they are loaded, moved, and read by formulas, as float32."""

SCALED_ROWS, SCALE_LANES, SCALE_BYTES = 128, 32, 16
"""Scale factors of 128 rows and 4 blocks along k are a tile of 32 lanes and 16 bytes: byte 4 c + j
of lane i is for row 32 c + i and block j (PTX ISA, scale factors of tcgen05.mma)."""

PANEL_BYTES = (128, 64, 32, 16)
"""Bytes of a row in shared memory that are swizzled together (PTX ISA, modes of tensor maps)."""

TMEM_LANES = 128
"""Rows that tensor memory has (PTX ISA, tensor memory addressing)."""


BULK_BYTES = 16
"""Bulk copies bring multiples of so many bytes (PTX ISA, cp.async.bulk.tensor: boxes of maps)."""


def brought(size: int) -> int:
    """Bytes that a bulk copy brings of a tile of ``size`` bytes: what lies behind it comes, too."""
    return -(-size // BULK_BYTES) * BULK_BYTES


def panel_bytes(row_bytes: int) -> int:
    """Bytes of a row that lie together: rows are cut into panels of the widest swizzle that they
    are a multiple of, and a tile is one panel behind the other. Rows of vectors are not cut.
    """
    return next((span for span in PANEL_BYTES if row_bytes % span == 0), row_bytes)

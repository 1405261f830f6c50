"""Pieces and regions of a kernel as torch tensors [rows, columns] in their data types."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from schedgen.kernel import Kernel, Region
from schedgen.layouts import DTYPE_BITS

TORCH = {
    "f32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "e8m0": torch.float8_e8m0fnu,
    "e2m1x2": torch.uint8,
    "i8": torch.int8,
    "i4x2": torch.uint8,
    "i32": torch.int32,
}
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Magnitudes of numbers of 4 bits by their lower three; the fourth is the sign."""
POISON = 0xFF
"""Bytes of storage that nothing has written: not a number in every data type."""


def cast(values: torch.Tensor, dtype: str) -> torch.Tensor:
    """float32 numbers in a data type of specs: to factors of blocks they are rounded up."""
    if dtype != "e8m0":
        return values.to(TORCH[dtype])
    bits = values.to(torch.float32).abs().view(torch.int32)
    exponent = (bits >> 23) + ((bits & 0x7FFFFF) != 0).to(torch.int32)
    # Subnormal numbers above 2^-127 have the exponent 2^-126 and anything less the least one.
    exponent = torch.where(bits <= 1 << 22, 0, exponent).clamp(max=254)
    codes = torch.where(values.isnan(), 255, exponent).to(torch.uint8)
    return codes.view(TORCH[dtype])


def span(kernel: Kernel, name: str) -> tuple[int, int, int, int]:
    """Rows [begin, end) and columns [begin, end) of a piece within its region."""
    piece = kernel.piece[name]
    bits = DTYPE_BITS[kernel.region[piece.region].dtype]
    return piece.row0, piece.row1, piece.byte0 * 8 // bits, piece.byte1 * 8 // bits


def whole(kernel: Kernel, pieces: Sequence[str]) -> tuple[int, int, int, int]:
    """Rows and columns that ``pieces`` of one region make up together."""
    spans = [span(kernel, piece) for piece in pieces]
    row, column = min(s[0] for s in spans), min(s[2] for s in spans)
    return row, max(s[1] for s in spans), column, max(s[3] for s in spans)


def assemble(kernel: Kernel, pieces: Sequence[str], values: Sequence[torch.Tensor]) -> torch.Tensor:
    """The tile that ``pieces`` make up together."""
    if len(pieces) == 1:
        return values[0]
    row, bottom, column, right = whole(kernel, pieces)
    tile = torch.empty(bottom - row, right - column, dtype=values[0].dtype)
    for piece, value in zip(pieces, values, strict=True):
        row0, row1, column0, column1 = span(kernel, piece)
        tile[row0 - row : row1 - row, column0 - column : column1 - column] = value
    return tile


def split(kernel: Kernel, pieces: Sequence[str], tile: torch.Tensor) -> dict[str, torch.Tensor]:
    """The parts of ``tile`` that are each of the ``pieces`` which make it up."""
    row, _, column, _ = whole(kernel, pieces)
    parts: dict[str, torch.Tensor] = {}
    for piece in pieces:
        row0, row1, column0, column1 = span(kernel, piece)
        parts[piece] = tile[row0 - row : row1 - row, column0 - column : column1 - column]
    return parts


def part(kernel: Kernel, piece: str, region: torch.Tensor) -> torch.Tensor:
    """The view of a piece in the tensor of its whole region."""
    row0, row1, column0, column1 = span(kernel, piece)
    return region[row0:row1, column0:column1]


def initial_tile(region: Region) -> torch.Tensor:
    """The initial value of a region, poison if it has none."""
    columns = region.shape[1] if len(region.shape) > 1 else 1
    if region.initial is None:
        content = torch.full((region.rows, region.row_bytes), POISON, dtype=torch.uint8)
        return content.view(TORCH[region.dtype])
    number, _, divisor = region.initial.partition("/")
    value = float(number) / float(divisor or 1)
    return torch.full((region.rows, columns), value, dtype=TORCH[region.dtype])


def unpacked(pairs: torch.Tensor) -> torch.Tensor:
    """Pairs of numbers of 4 bits [rows, columns] as float32, lower halves first."""
    return torch.tensor((*E2M1, *(-value for value in E2M1)))[_codes(pairs)]


def whole_halves(pairs: torch.Tensor) -> torch.Tensor:
    """The same of whole numbers in two's complement."""
    return (((_codes(pairs) + 8) & 15) - 8).to(torch.float32)


def _codes(pairs: torch.Tensor) -> torch.Tensor:
    return torch.stack((pairs & 15, pairs >> 4), dim=-1).reshape(pairs.shape[0], -1).long()

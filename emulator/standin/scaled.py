"""Products of operands with a scale factor for each block of k, which torch has for GPUs only.

Scale factors are in the order that cuBLAS asks for ("1D block scaling factors layout"): tiles of
128 rows by 4 blocks, in each of which rows 32 apart are neighbours.
"""

# torch has no types that would say something here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

import torch

_BLOCKS = {torch.float8_e4m3fn: 16, torch.float8_e8m0fnu: 32}
"""Elements along k that share a scale factor, by its type."""
_ROWS, _COLUMNS, _LANES = 128, 4, 32
_FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def block_scaled(scale: Any) -> bool:
    """Whether scale factors are of such a type."""
    return isinstance(scale, torch.Tensor) and scale.dtype in _BLOCKS


def scaled_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_result: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> torch.Tensor:
    """``torch._scaled_mm`` of a (m, k) and b (k, n), added in float32."""
    del use_fast_accum
    found = _scaled(a, scale_a) @ _scaled(b.t(), scale_b).t()
    if scale_result is not None:
        found = found * scale_result
    if bias is not None:
        found = found + bias.float()
    return found.to(out_dtype or torch.bfloat16)


def _scaled(matrix: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """(rows, k) in float32."""
    values = _values(matrix)
    rows, k = values.shape
    block = _BLOCKS[scale.dtype]
    factors = unblocked(scale.float(), rows, -(-k // block))
    return values * factors.repeat_interleave(block, 1)[:, :k]


def _values(matrix: torch.Tensor) -> torch.Tensor:
    if matrix.dtype != torch.float4_e2m1fn_x2:
        return matrix.float()
    pairs = matrix.contiguous().view(torch.uint8)
    codes = torch.stack((pairs & 15, pairs >> 4), -1).flatten(-2)  # the low half comes first
    table = torch.tensor([*_FP4, *(-one for one in _FP4)])
    return table[codes.long()]


def unblocked(scale: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Scale factors as a matrix (rows, columns)."""
    down, across = -(-rows // _ROWS), -(-columns // _COLUMNS)
    tiles = scale.flatten()[: down * across * _ROWS * _COLUMNS]
    tiles = tiles.view(down, across, _LANES, _ROWS // _LANES, _COLUMNS)
    matrix = tiles.permute(0, 3, 2, 1, 4).reshape(down * _ROWS, across * _COLUMNS)
    return matrix[:rows, :columns]

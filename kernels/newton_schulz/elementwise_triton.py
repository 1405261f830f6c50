"""Triton kernels of `elementwise`. Importing this needs Triton, which only comes with CUDA."""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_MOST_PARTS = 512
"""Partial sums of a matrix: enough programs to fill a GPU, few enough to add up again."""

_READ = (4, 1024)
"""Rows and columns of a tile that is only read, whose rows are contiguous: with 16 x 256 sums of
squares took 14 to 40 % longer (H200, shapes of `benchmarks/polar.py`; no command repeats it)."""


@triton.jit
def _tile(index, columns, row_block: tl.constexpr, column_block: tl.constexpr):
    """Rows and columns of a tile, as vectors."""
    across = tl.cdiv(columns, column_block)
    rows = (index // across) * row_block + tl.arange(0, row_block)
    return rows[:, None], (index % across) * column_block + tl.arange(0, column_block)[None, :]


@triton.jit
def _squares(
    x, parts, tiles, rows, columns, batch_stride, row_stride, column_stride,
    row_block: tl.constexpr, column_block: tl.constexpr,
):  # fmt: skip
    """parts[batch, program]: the sum of the squares of every n-th tile of a matrix."""
    part, count, batch = tl.program_id(0), tl.num_programs(0), tl.program_id(1)
    x += batch.to(tl.int64) * batch_stride
    total = tl.zeros((row_block, column_block), tl.float64)
    for index in range(part, tiles, count):
        r, c = _tile(index, columns, row_block, column_block)
        inside = (r < rows) & (c < columns)
        places = r.to(tl.int64) * row_stride + c.to(tl.int64) * column_stride
        value = tl.load(x + places, mask=inside, other=0.0).to(tl.float64)
        total += value * value
    tl.store(parts + batch * count + part, tl.sum(total))


@triton.jit
def _normalize(
    x, parts, out, count, rows, columns, batch_stride, row_stride, column_stride,
    out_batch, out_row, out_column,
    row_block: tl.constexpr, column_block: tl.constexpr, most: tl.constexpr,
):  # fmt: skip
    """A tile of x over the norm, which every program adds up for itself."""
    index, batch = tl.program_id(0), tl.program_id(1)
    n = tl.arange(0, most)
    square = tl.sum(tl.load(parts + batch * count + n, mask=n < count, other=0.0))
    inverse = tl.where(square == 0.0, 0.0, 1.0 / tl.sqrt(square))
    r, c = _tile(index, columns, row_block, column_block)
    inside = (r < rows) & (c < columns)
    places = r.to(tl.int64) * row_stride + c.to(tl.int64) * column_stride
    value = tl.load(x + batch.to(tl.int64) * batch_stride + places, mask=inside, other=0.0)
    places = r.to(tl.int64) * out_row + c.to(tl.int64) * out_column
    value = (value.to(tl.float64) * inverse).to(tl.float32).to(out.dtype.element_ty)
    tl.store(out + batch.to(tl.int64) * out_batch + places, value, mask=inside)


@triton.jit
def _convert(
    x, out, shift, rows, columns, batch_stride, row_stride, column_stride,
    out_batch, out_row, out_column,
    row_block: tl.constexpr, column_block: tl.constexpr,
):  # fmt: skip
    """A tile of x, with ``shift`` added on the diagonal, in the type of ``out``."""
    index, batch = tl.program_id(0), tl.program_id(1)
    r, c = _tile(index, columns, row_block, column_block)
    inside = (r < rows) & (c < columns)
    places = r.to(tl.int64) * row_stride + c.to(tl.int64) * column_stride
    value = tl.load(x + batch.to(tl.int64) * batch_stride + places, mask=inside, other=0.0)
    value = value.to(tl.float32) + tl.where(r == c, shift, 0.0)
    places = r.to(tl.int64) * out_row + c.to(tl.int64) * out_column
    value = value.to(out.dtype.element_ty)
    tl.store(out + batch.to(tl.int64) * out_batch + places, value, mask=inside)


def normalize(x: Tensor, out: Tensor) -> None:
    """out = x / ||x||, each of (batch, n, m) by itself; any strides."""
    batch, rows, columns = x.shape
    blocks = _blocks(x, out)
    tiles = triton.cdiv(rows, blocks[0]) * triton.cdiv(columns, blocks[1])
    read = _READ if x.stride(-1) == 1 else _READ[::-1]
    reads = triton.cdiv(rows, read[0]) * triton.cdiv(columns, read[1])
    count = min(reads, _MOST_PARTS)
    parts = torch.empty(batch, count, dtype=torch.float64, device=x.device)
    sizes, strides = (rows, columns), (*x.stride(), *out.stride())
    with torch.cuda.device_of(x):
        _run(_squares, (count, batch), x, parts, reads, *sizes, *x.stride(), *read)
        most = triton.next_power_of_2(count)
        _run(_normalize, (tiles, batch), x, parts, out, count, *sizes, *strides, *blocks, most)


def convert(x: Tensor, out: Tensor, shift: float) -> None:
    """out = x + shift I in the type of ``out``; both (batch, n, m), any strides."""
    batch, rows, columns = x.shape
    blocks = _blocks(x, out)
    tiles = triton.cdiv(rows, blocks[0]) * triton.cdiv(columns, blocks[1])
    strides = (*x.stride(), *out.stride())
    with torch.cuda.device_of(x):
        _run(_convert, (tiles, batch), x, out, shift, rows, columns, *strides, *blocks)


def _blocks(x: Tensor, out: Tensor) -> tuple[int, int]:
    """Rows and columns of a tile: square where rows of one tensor are columns of the other."""
    along_rows = x.stride(-1) == 1, out.stride(-1) == 1
    return (16, 256) if all(along_rows) else (256, 16) if not any(along_rows) else (64, 64)


def _run(kernel: Any, grid: tuple[int, int], *arguments: object) -> None:
    kernel[grid](*arguments)

"""A transposition through shared memory: a tile of 32 x 32 numbers whose columns lie in one bank.

schedgen race --banks transpose.py
schedgen race --banks transpose.py --padded
"""

import sys

import cutlass
import torch
from cutlass import cute
from cutlass.cute.runtime import from_dlpack

PITCH = 33 if "--padded" in sys.argv[1:] else 32


@cute.kernel
def transpose(a: cute.Tensor, b: cute.Tensor):
    column, row, _ = cute.arch.thread_idx()
    layout = cute.make_layout((32, 32), stride=(PITCH, 1))
    tile = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, layout)
    for below in cutlass.range_constexpr(0, 32, 8):
        tile[row + below, column] = a[row + below, column]
    cute.arch.sync_threads()
    for below in cutlass.range_constexpr(0, 32, 8):
        b[row + below, column] = tile[column, row + below]


@cute.jit
def launch(a: cute.Tensor, b: cute.Tensor):
    transpose(a, b).launch(grid=(1, 1, 1), block=(32, 8, 1))


a = torch.randn(32, 32, device="cuda")
b = torch.empty_like(a)
launch(from_dlpack(a), from_dlpack(b))
assert b.equal(a.T)

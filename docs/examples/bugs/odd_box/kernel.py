"""A tensor copy whose box begins at column 1 of int32: 4 bytes behind a multiple of 16.

schedgen race kernel.py           the columns go to memory as one box
schedgen race kernel.py --fixed   each thread stores its own
python kernel.py --times 1000     on a GPU: an illegal instruction
"""

import sys

import cutlass
import torch
from cutlass import cute
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import from_dlpack

FIXED = "--fixed" in sys.argv[1:]
TIMES = int(sys.argv[sys.argv.index("--times") + 1]) if "--times" in sys.argv else 1
SIDE, FIRST = 32, 1


@cute.kernel
def copied(
    source: cute.Tensor,
    result: cute.Tensor,
    atom: cute.CopyAtom,
    boxes: cute.Tensor,
    fixed: cutlass.Constexpr,
):
    row, _, _ = cute.arch.thread_idx()
    layout = cute.make_layout((SIDE, SIDE), stride=(SIDE, 1))
    tile = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Int32, layout, 128)
    for column in cutlass.range(SIDE):
        tile[row, column] = source[row, column]
    cute.arch.fence_proxy("async.shared", space="cta")
    cute.arch.sync_threads()
    if fixed:
        for column in cutlass.range(SIDE):
            result[row, FIRST + column] = tile[row, column]
    else:
        box = cute.local_tile(cute.domain_offset((0, FIRST), boxes), (SIDE, SIDE), (0, 0))
        ours, theirs = cpasync.tma_partition(
            atom, 0, cute.make_layout(1), cute.group_modes(tile, 0, 2), cute.group_modes(box, 0, 2)
        )
        if row == 0:
            cute.copy(atom, ours, theirs)
            cute.arch.cp_async_bulk_commit_group()
            cute.arch.cp_async_bulk_wait_group(0)


@cute.jit
def launch(source: cute.Tensor, result: cute.Tensor, fixed: cutlass.Constexpr):
    layout = cute.make_layout((SIDE, SIDE), stride=(SIDE, 1))
    store = cpasync.CopyBulkTensorTileS2GOp()
    atom, boxes = cpasync.make_tiled_tma_atom(store, result, layout, (SIDE, SIDE))
    copied(source, result, atom, boxes, fixed).launch(grid=[1, 1, 1], block=[SIDE, 1, 1])


source = torch.arange(SIDE * SIDE, dtype=torch.int32, device="cuda").reshape(SIDE, SIDE)
result = torch.zeros(SIDE, 2 * SIDE, dtype=torch.int32, device="cuda")
program = cute.compile(launch, from_dlpack(source), from_dlpack(result), FIXED)
wrong = 0
for _ in range(TIMES):
    result.zero_()
    program(from_dlpack(source), from_dlpack(result))
    wrong += not result.cpu()[:, FIRST : FIRST + SIDE].equal(source.cpu())
print(f"wrong in {wrong} of {TIMES} launches")
assert not wrong

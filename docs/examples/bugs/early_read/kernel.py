"""A kernel that may begin early reads what the kernel in front of it writes.

schedgen race kernel.py           the wait is missing on one of two paths
schedgen race kernel.py --fixed
"""

import sys

import cuda.bindings.driver as cuda
import cutlass
import torch
from cutlass import cute
from cutlass.cute.runtime import from_dlpack

FIXED = "--fixed" in sys.argv[1:]
SPARSE = True


@cute.kernel
def preprocess(gradient: cute.Tensor, lse: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    cute.arch.griddepcontrol_launch_dependents()
    lse[thread] = gradient[thread] * 2.0


@cute.kernel
def backward(
    lse: cute.Tensor, result: cute.Tensor, sparse: cutlass.Constexpr, fixed: cutlass.Constexpr
):
    thread, _, _ = cute.arch.thread_idx()
    if sparse:
        if fixed:
            cute.arch.griddepcontrol_wait()
    else:
        cute.arch.griddepcontrol_wait()
    result[thread] = lse[thread] + 1.0


@cute.jit
def both(
    gradient: cute.Tensor,
    lse: cute.Tensor,
    result: cute.Tensor,
    sparse: cutlass.Constexpr,
    fixed: cutlass.Constexpr,
    stream: cuda.CUstream,
):
    size = [32, 1, 1]
    preprocess(gradient, lse).launch(grid=[1, 1, 1], block=size, stream=stream, use_pdl=True)
    backward(lse, result, sparse, fixed).launch(
        grid=[1, 1, 1], block=size, stream=stream, use_pdl=True
    )


gradient, lse, result = (torch.ones(32, device="cuda") for _ in range(3))
stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
tensors = [from_dlpack(one) for one in (gradient, lse, result)]
both(*tensors, SPARSE, FIXED, stream)
torch.cuda.synchronize()
assert result.cpu().eq(3).all()

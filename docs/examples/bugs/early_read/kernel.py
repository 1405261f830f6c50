"""A kernel that may begin early reads what the kernel in front of it writes.

schedgen race kernel.py           the wait is missing on one of two paths
schedgen race kernel.py --fixed
python kernel.py --late --times 1000    on a GPU: how often it is wrong, if the first kernel is slow
"""

import sys

import cuda.bindings.driver as cuda
import cutlass
import torch
from cutlass import cute
from cutlass.cute.runtime import from_dlpack

FIXED = "--fixed" in sys.argv[1:]
LATE = "--late" in sys.argv[1:]
TIMES = int(sys.argv[sys.argv.index("--times") + 1]) if "--times" in sys.argv else 1
SPARSE = True


@cute.kernel
def preprocess(gradient: cute.Tensor, lse: cute.Tensor, late: cutlass.Constexpr):
    thread, _, _ = cute.arch.thread_idx()
    cute.arch.griddepcontrol_launch_dependents()
    value = gradient[thread] * 2.0
    if late:
        for _ in cutlass.range(20000):
            value = value * gradient[thread]  # which is 1
    lse[thread] = value


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
    late: cutlass.Constexpr,
    stream: cuda.CUstream,
):
    size = [32, 1, 1]
    preprocess(gradient, lse, late).launch(grid=[1, 1, 1], block=size, stream=stream, use_pdl=True)
    backward(lse, result, sparse, fixed).launch(
        grid=[1, 1, 1], block=size, stream=stream, use_pdl=True
    )


gradient, lse, result = (torch.ones(32, device="cuda") for _ in range(3))
stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
tensors = [from_dlpack(one) for one in (gradient, lse, result)]
program = cute.compile(both, *tensors, SPARSE, FIXED, LATE, stream)
wrong = 0
for _ in range(TIMES):
    lse.zero_()
    program(*tensors, stream)
    wrong += not result.cpu().eq(3).all()
print(f"wrong in {wrong} of {TIMES} launches")
assert not wrong

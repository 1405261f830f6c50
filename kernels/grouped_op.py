"""Products of groups of rows on generated kernels: ``torch.ops.schedgen.grouped_gemm``.

Where groups end is read on the GPU, by the kernel itself: nothing waits for it, and nothing is
made of it first (docs/adr/0027).
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from schedgen.kernels import checks, choosing, layouts
from schedgen.kernels import gemm_arguments as arguments
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from schedgen.kernels.operators import Operator


def grouped_gemm(a: Tensor, b: Tensor, offsets: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Rows of each group of ``a`` times the matrix of the group: experts, and their tokens.

    The result's rows from ``offsets[g - 1]`` (0 for the first group) to ``offsets[g]`` are those
    rows of a @ b[g], accumulated in float32 and rounded once, as ``torch._grouped_mm(a, b,
    offsets)`` has it for two and three dimensions. Groups may be empty. Rows behind the last group
    are undefined. Each b[g] is read along k or along n, as it lies; other layouts are copied first.
    There is no backward pass.

    Args:
        a: (rows, k), bfloat16; groups one behind the other.
        b: (groups, k, n), of the same type. Weights (groups, n, k) are passed as ``weights.mT``.
        offsets: (groups,), int32, on the same GPU: where the rows of each group end, so none is
            smaller than the one before, and the last one is no more than the rows of ``a``. Nobody
            looks at that before the kernel: other numbers give results that mean nothing, but no
            access outside of the tensors.
        out: where the result is written; of the same type and the result's shape. It may share no
            memory with the operands.

    Returns:
        (rows, n) of the same type, contiguous; or ``out``.

    Raises:
        ArgumentValueError: a ValueError; shapes or devices that do not fit.
        ArgumentTypeError: a TypeError; a data type that does not fit.
        DeviceError: no kernel for this GPU, or no toolchain.
    """
    if out is None:
        return _grouped_gemm(a, b, offsets)
    arguments.refuse_gradients(a, b, out)
    _grouped_gemm_out(a, b, offsets, out)
    return out


def _shape(a: Tensor, b: Tensor, offsets: Tensor) -> tuple[int, int]:
    """Shape of the result. Raises ArgumentValueError, ArgumentTypeError."""
    checks.dtypes(a=a, b=b)
    if a.dtype is not torch.bfloat16:  # of others there are no shipped kernels, but the spec
        got, fix = f"its dtype is {a.dtype}", "a.bfloat16()"
        raise ArgumentTypeError("a", got, "torch.bfloat16", fix)
    checks.dimensions("a", a, 2, "(rows, k)")
    checks.dimensions("b", b, 3, "(groups, k, n)")
    if b.shape[1] != a.shape[1]:
        got, fix = f"its shape is {tuple(b.shape)}", "pass weights (groups, n, k) as weights.mT"
        allowed = f"(groups, {a.shape[1]}, n), as a is {tuple(a.shape)}"
        raise ArgumentValueError("b", got, allowed, fix)
    if offsets.dtype is not torch.int32:
        got, fix = f"its dtype is {offsets.dtype}", "offsets.int()"
        raise ArgumentTypeError("offsets", got, "torch.int32", fix)
    if offsets.shape != b.shape[:1]:
        got, fix = f"its shape is {tuple(offsets.shape)}", "pass where each group ends: no first 0"
        allowed = f"({b.shape[0]},), a number for each matrix of b"
        raise ArgumentValueError("offsets", got, allowed, fix)
    return a.shape[0], b.shape[2]


def _compute(device: torch.device, a: Tensor, b: Tensor, offsets: Tensor, out: Tensor) -> None:
    """Writes the result into ``out``; all arguments fit together."""
    groups = b.shape[0]
    if not (out.numel() and groups):
        return
    if not a.shape[1]:
        out.zero_()  # empty sums
        return
    right, b_layout = _right(b)
    (rows, k), n = a.shape, b.shape[2]
    # Tiles are chosen as if all groups had as many rows: how many they have nobody knows here.
    shape = (groups, -(-rows // groups), n, k)
    _, run = _kernel(device, out.dtype, shape, b_layout=b_layout, grouped=True)
    direct = layouts.problem(out) is None
    target = out if direct else layouts.room(out, out.shape)
    ends = layouts.accessible(offsets.contiguous())
    run.launch((layouts.accessible(a), right, ends, target), ())
    if not direct:
        out.copy_(target)


def _right(b: Tensor) -> tuple[Tensor, str]:
    """``b`` as a kernel reads it, along k or along n, and which of both; a copy along k if there is
    no other way.
    """
    if layouts.problem(b.mT) is not None and layouts.problem(b) is None:
        return b, "kn"
    return layouts.accessible(b.mT), "nk"


_kernel = lru_cache(1024)(choosing.fused)


# -- operators ------------------------------------------------------------------------------------


def _fake(a: Tensor, b: Tensor, offsets: Tensor) -> Tensor:
    return a.new_empty(_shape(a, b, offsets))


def _run(a: Tensor, b: Tensor, offsets: Tensor) -> Tensor:
    out = _fake(a, b, offsets)
    _compute(checks.devices(a=a, b=b, offsets=offsets), a, b, offsets, out)
    return out


def _fake_out(a: Tensor, b: Tensor, offsets: Tensor, out: Tensor) -> None:
    arguments.check_out(out, torch.Size(_shape(a, b, offsets)), a.dtype)


def _run_out(a: Tensor, b: Tensor, offsets: Tensor, out: Tensor) -> None:
    _fake_out(a, b, offsets, out)
    device = checks.devices(a=a, b=b, offsets=offsets, out=out)
    if out.numel() and not out.is_meta:  # where calls are planned, each is looked at again
        arguments.check_apart(out, a=a, b=b)
    _compute(device, a, b, offsets, out)


_TAKES = "Tensor a, Tensor b, Tensor offsets"
_grouped_gemm = Operator(f"grouped_gemm({_TAKES}) -> Tensor", _run, _fake)
_grouped_gemm_out = Operator(
    f"grouped_gemm_out({_TAKES}, Tensor(a!) out) -> ()", _run_out, _fake_out
)

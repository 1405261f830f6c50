"""Products of groups on generated kernels: ``torch.ops.schedgen.grouped_gemm``. Groups are rows of
the left operand, or what is added up along: rows of both.

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
    """Rows of each group of ``a`` times the matrix of the group: experts, and their tokens. Or, of
    two matrices, the product of each group of columns of ``a`` and rows of ``b``: gradients of the
    experts' matrices.

    The result's rows from ``offsets[g - 1]`` (0 for the first group) to ``offsets[g]`` are those
    rows of a @ b[g], accumulated in float32 and rounded once, as ``torch._grouped_mm(a, b,
    offsets)`` has it for two and three dimensions. Groups may be empty. Rows behind the last group
    are undefined. Each b[g] is read along k or along n, as it lies; other layouts are copied first.

    If ``b`` has two dimensions, result g is a[:, begin:end] @ b[begin:end] for these ends, again as
    in torch; 0 for an empty group. What is behind the last group has no part in it. ``a`` is read
    along its columns, as the transposed view of rows lies, and ``b`` along its rows; other layouts
    are copied first.

    Gradients are products of groups again (`gemm_gradients`); those of rows behind the last group
    are 0.

    Args:
        a: (rows, k), bfloat16; groups one behind the other. With two matrices (m, rows).
        b: (groups, k, n), of the same type. Weights (groups, n, k) are passed as ``weights.mT``.
            Or (rows, n).
        offsets: (groups,), int32, on the same GPU: where the rows of each group end, so none is
            smaller than the one before, and the last one is no more than the rows there are. Nobody
            looks at that before the kernel: other numbers give results that mean nothing, but no
            access outside of the tensors.
        out: where the result is written; of the same type and the result's shape. It may share no
            memory with the operands.

    Returns:
        (rows, n), or (groups, m, n), of the same type, contiguous; or ``out``.

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


def _shape(a: Tensor, b: Tensor, offsets: Tensor) -> tuple[int, ...]:
    """Shape of the result. Raises ArgumentValueError, ArgumentTypeError."""
    checks.dtypes(a=a, b=b)
    if a.dtype is not torch.bfloat16:  # of others there are no shipped kernels, but the spec
        got, fix = f"its dtype is {a.dtype}", "a.bfloat16()"
        raise ArgumentTypeError("a", got, "torch.bfloat16", fix)
    along_k = b.dim() == 2
    checks.dimensions("a", a, 2, "(m, rows)" if along_k else "(rows, k)")
    if not along_k:
        checks.dimensions("b", b, 3, "(groups, k, n), or (rows, n)")
    if b.shape[-2] != a.shape[1]:
        got, fix = f"its shape is {tuple(b.shape)}", "pass weights (groups, n, k) as weights.mT"
        allowed = f"(groups, {a.shape[1]}, n), as a is {tuple(a.shape)}"
        if along_k:
            fix, allowed = "pass a of (rows, m) as a.mT", allowed.replace("groups, ", "")
        raise ArgumentValueError("b", got, allowed, fix)
    if offsets.dtype is not torch.int32:
        got, fix = f"its dtype is {offsets.dtype}", "offsets.int()"
        raise ArgumentTypeError("offsets", got, "torch.int32", fix)
    if offsets.dim() != 1 or not (along_k or offsets.shape == b.shape[:1]):
        got, fix = f"its shape is {tuple(offsets.shape)}", "pass where each group ends: no first 0"
        allowed = f"({b.shape[0]},), a number for each matrix of b"
        raise ArgumentValueError("offsets", got, "(groups,)" if along_k else allowed, fix)
    if along_k:
        return offsets.shape[0], a.shape[0], b.shape[1]
    return a.shape[0], b.shape[2]


def _compute(device: torch.device, a: Tensor, b: Tensor, offsets: Tensor, out: Tensor) -> None:
    """Writes the result into ``out``; all arguments fit together."""
    if not (out.numel() and offsets.numel()):
        return
    if not a.shape[1]:
        out.zero_()  # empty sums
        return
    direct = layouts.problem(out) is None
    target = out if direct else layouts.room(out, out.shape)
    ends = layouts.accessible(offsets.contiguous())
    if b.dim() == 2:
        _along_k(device, a, b, ends, target)
    else:
        _of_rows(device, a, b, ends, target)
    if not direct:
        out.copy_(target)


def _along_k(device: torch.device, a: Tensor, b: Tensor, ends: Tensor, out: Tensor) -> None:
    """(m, rows) and (rows, n) to (groups, m, n)."""
    groups, m, n = out.shape
    run = _kernel_along_k(device, out.dtype, (groups, m, n, -(-len(b) // groups)))
    run.launch((layouts.accessible(a.mT), layouts.accessible(b), ends, out), ())


def _of_rows(device: torch.device, a: Tensor, b: Tensor, ends: Tensor, out: Tensor) -> None:
    """(rows, k) and (groups, k, n) to (rows, n)."""
    groups = b.shape[0]
    right, b_layout = _right(b)
    (rows, k), n = a.shape, b.shape[2]
    # Tiles are chosen as if all groups had as many rows: how many they have nobody knows here.
    shape = (groups, -(-rows // groups), n, k)
    _, run = _kernel(device, out.dtype, shape, b_layout=b_layout, grouped=True)
    run.launch((layouts.accessible(a), right, ends, out), ())


def _right(b: Tensor) -> tuple[Tensor, str]:
    """``b`` as a kernel reads it, along k or along n, and which of both; a copy along k if there is
    no other way.
    """
    if layouts.problem(b.mT) is not None and layouts.problem(b) is None:
        return b, "kn"
    return layouts.accessible(b.mT), "nk"


_kernel = lru_cache(1024)(choosing.fused)
_kernel_along_k = lru_cache(1024)(choosing.of_groups)


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
GROUPED = _grouped_gemm
"""The operator that returns its result."""

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
from schedgen.kernels import grouped_arguments as groups
from schedgen.kernels.gathered_op import gathered_gemm
from schedgen.kernels.operators import Operator


def grouped_gemm(
    a: Tensor,
    b: Tensor,
    offsets: Tensor,
    *,
    rows: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
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

    With ``rows``, row i of the groups is a[rows[i]], of a matrix with other rows, such as tokens
    that several experts share: the kernel takes each where it lies. A number that is not among the
    rows of ``a`` stands for a row of zeros. For groups of rows only.

    Gradients are products of groups again (`gemm_gradients`); those of rows behind the last group
    are 0. What several rows give one of ``a`` is added up by torch.

    Args:
        a: (rows, k), bfloat16; groups one behind the other. With two matrices (m, rows), and with
            ``rows`` any number of rows.
        b: (groups, k, n), of the same type. Weights (groups, n, k) are passed as ``weights.mT``.
            Or (rows, n).
        offsets: (groups,), int32, on the same GPU: where the rows of each group end, so none is
            smaller than the one before, and the last one is no more than the rows there are. Nobody
            looks at that before the kernel: other numbers give results that mean nothing, but no
            access outside of the tensors.
        rows: (rows,), int32, on the same GPU: which row of ``a`` each row of the result is made of.
            A row may be taken any number of times.
        out: where the result is written; of the same type and the result's shape. It may share no
            memory with the operands.

    Returns:
        (rows, n), or (groups, m, n), of the same type, contiguous; or ``out``.

    Raises:
        ArgumentValueError: a ValueError; shapes or devices that do not fit.
        ArgumentTypeError: a TypeError; a data type that does not fit.
        DeviceError: no kernel for this GPU, or no toolchain.
    """
    if rows is not None:
        return gathered_gemm(a, b, offsets, rows, out)
    if out is None:
        return _grouped_gemm(a, b, offsets)
    arguments.refuse_gradients(a, b, out)
    _grouped_gemm_out(a, b, offsets, out)
    return out


def _shape(a: Tensor, b: Tensor, offsets: Tensor) -> tuple[int, ...]:
    """Shape of the result. Raises ArgumentValueError, ArgumentTypeError."""
    groups.check_operands(a, b)
    along_k = b.dim() == 2
    checks.dimensions("a", a, 2, "(m, rows)" if along_k else "(rows, k)")
    if not along_k:
        checks.dimensions("b", b, 3, "(groups, k, n), or (rows, n)")
    groups.check_matrices(a, b)
    groups.check_offsets(offsets, b)
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
    count, m, n = out.shape
    run = _kernel_along_k(device, out.dtype, (count, m, n, -(-len(b) // count)))
    run.launch((layouts.accessible(a.mT), layouts.accessible(b), ends, out), ())


def _of_rows(device: torch.device, a: Tensor, b: Tensor, ends: Tensor, out: Tensor) -> None:
    """(rows, k) and (groups, k, n) to (rows, n)."""
    right, b_layout = groups.right(b)
    (rows, k), n = a.shape, b.shape[2]
    # Tiles are chosen as if all groups had as many rows: how many they have nobody knows here.
    shape = (len(b), -(-rows // len(b)), n, k)
    _, run = _kernel(device, out.dtype, shape, b_layout=b_layout, grouped=True)
    run.launch((layouts.accessible(a), right, ends, out), ())


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

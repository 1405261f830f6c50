"""Cross entropy of a product: ``torch.ops.schedgen.linear_cross_entropy``.

Logits of a vocabulary are the largest tensor of a language model and of no use but for this. Here
they never leave the SM that computes them: each output tile leaves, for each row, the logarithm of
its sum of exponentials and the target's logit if it has it, which are added up behind.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from schedgen.kernels import checks, layouts, library
from schedgen.kernels import gemm_arguments as arguments
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from schedgen.kernels.launcher import architecture
from schedgen.kernels.operators import Operator

SPEC = "gemm_lse"
MOST = 1 << 24
"""Columns up to which float32 has the number of each."""
COLUMNS = {"sm_90a": 256, "sm_100a": 128}
"""Columns of an output tile."""
LOG2_E = math.log2(math.e)


def linear_cross_entropy(
    a: Tensor,
    b: Tensor,
    target: Tensor,
    *,
    scale: float = 1.0,
    ignore_index: int = -100,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Minus the logarithm of softmax(scale a @ b) at the target of each row, in float32.

    The logits are not stored, and are not rounded: they are float32. There is no backward pass.

    Args:
        a: (..., m, k), bfloat16 or float16.
        b: (k, n), of the same type: n is the vocabulary, at most 2^24; the transposed view of a
            row-major weight is not copied.
        target: (..., m), int64 or int32: a column for each row.
        scale: of logits, above 0, such as 1 / temperature.
        ignore_index: rows with this target have a loss of 0.
        return_lse: also return the logarithms of the sums of exponentials.

    Returns:
        (..., m), float32; with ``return_lse`` that and the logarithms, of the same shape.

    Raises:
        ArgumentValueError: a ValueError; shapes, devices or numbers that do not fit.
        ArgumentTypeError: a TypeError; a data type that does not fit.
        DeviceError: no kernel for this GPU, or no toolchain.
    """
    loss, lse = _linear_cross_entropy(a, b, target, scale, ignore_index)
    return (loss, lse) if return_lse else loss


def _compute(
    device: torch.device, a: Tensor, b: Tensor, target: Tensor, scale: float, shape: torch.Size
) -> tuple[Tensor, Tensor]:
    """Logarithms of sums and logits of targets, of ``shape``; all arguments fit together."""
    if not (shape.numel() and a.shape[-1]):
        return torch.full(shape, math.log(b.shape[-1]), device=a.device), torch.zeros(
            shape, device=a.device
        )
    kernel = library.launcher(device, SPEC, dtype=checks.DTYPES[a.dtype])
    tiles = -(-b.shape[-1] // COLUMNS[architecture(device)])
    rows = layouts.accessible(a.reshape(1, -1, a.shape[-1]))
    columns = layouts.accessible(b.mT.unsqueeze(0))
    wanted = layouts.accessible(target.reshape(1, -1).float())
    like = wanted.new_empty(1)
    lse, logit = (layouts.room(like, (1, tiles, rows.shape[1])) for _ in range(2))
    kernel.launch((rows, columns, wanted, lse, logit), (scale * LOG2_E,))
    return lse.logsumexp(1).view(shape), logit.sum(1).view(shape)


def _shape(a: Tensor, b: Tensor, target: Tensor, scale: float) -> torch.Size:
    """Of the result. Raises ArgumentValueError, ArgumentTypeError: arguments do not fit."""
    shape = arguments.result_shape(a, b, None, 1.0, 1.0, False)
    if b.dim() != 2 or not 0 < b.shape[-1] <= MOST:
        got, fix = f"its shape is {tuple(b.shape)}", "multiply by one weight, head.weight.mT"
        raise ArgumentValueError("b", got, f"(k, n) with n from 1 to {MOST}", fix)
    if target.dtype not in (torch.int64, torch.int32):
        got = f"its dtype is {target.dtype}"
        raise ArgumentTypeError("target", got, "torch.int64, torch.int32", "pass column numbers")
    if target.shape != shape[:-1]:
        got, allowed = (
            f"its shape is {tuple(target.shape)}",
            f"{tuple(shape[:-1])}, one for each row",
        )
        raise ArgumentValueError("target", got, allowed, "reshape it")
    checks.number("scale", scale, positive=True)
    return shape[:-1]


def _fake(
    a: Tensor, b: Tensor, target: Tensor, scale: float, ignore_index: int
) -> tuple[Tensor, Tensor]:
    shape = _shape(a, b, target, scale)
    return a.new_empty(shape, dtype=torch.float32), a.new_empty(shape, dtype=torch.float32)


def _run(
    a: Tensor, b: Tensor, target: Tensor, scale: float, ignore_index: int
) -> tuple[Tensor, Tensor]:
    shape = _shape(a, b, target, scale)
    device = checks.devices(a=a, b=b, target=target)
    lse, logit = _compute(device, a, b, target, scale, shape)
    return torch.where(target == ignore_index, 0.0, lse - logit), lse


_linear_cross_entropy = Operator(
    "linear_cross_entropy(Tensor a, Tensor b, Tensor target, float scale, int ignore_index)"
    " -> (Tensor, Tensor)",
    _run,
    _fake,
)
CROSS_ENTROPY = _linear_cross_entropy
"""The operator."""

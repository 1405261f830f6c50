"""Products with 8-bit results and a factor for each block: ``torch.ops.schedgen.quantized_gemm``.

What a network of 8-bit products computes is quantized before the next one reads it. Here that is
part of the epilogue: the sums of an output tile are read twice, for the largest magnitude of each
row's block and for the numbers themselves, and never leave the SM as 16-bit numbers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from schedgen.kernels import checks, library, operands
from schedgen.kernels import gemm_arguments as arguments
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from schedgen.kernels.operators import Operator

SPEC = "gemm_quantized"
COLUMNS = 128
"""Numbers of a row that share a factor, as `scaled_gemm` takes them."""
OUTPUTS = {torch.float8_e4m3fn: "e4m3"}
"""Data types of results, and what the specs call them."""


def quantized_gemm(
    a: Tensor, b: Tensor, *, least: float = 1e-4, dtype: torch.dtype = torch.float8_e4m3fn
) -> tuple[Tensor, Tensor]:
    """d and factors so that d times the factors of its blocks of 128 columns is a @ b.

    A factor is the largest magnitude of its row's block, or ``least``, over the largest number of
    ``dtype``; accumulators are float32 and rounded once. Both results are what `scaled_gemm` takes
    as ``a`` and ``scale_a``:

        d, factors = quantized_gemm(x, w_up.mT)
        y = scaled_gemm(d, w_down.mT, factors, scale_down)

    Args:
        a: (..., m, k), bfloat16 or float16.
        b: (..., k, n), of the same type; the transposed view of a row-major matrix is not copied.
        least: above 0: what magnitudes below it count as.
        dtype: of d; float8_e4m3fn.

    Returns:
        d: (..., m, n), contiguous.
        factors: (..., m, ceil(n / 128)), float32; those of one block lie along m.

    Raises:
        ArgumentValueError: a ValueError; shapes, devices or numbers that do not fit.
        ArgumentTypeError: a TypeError; a data type that does not fit.
        DeviceError: no kernel for this GPU, or no toolchain.
    """
    if dtype not in OUTPUTS:
        known = ", ".join(map(str, OUTPUTS))
        raise ArgumentTypeError("dtype", f"it is {dtype}", known, "convert the result of gemm")
    d, factors = _quantized_gemm(a, b, least)
    return d, factors


def _compute(
    device: torch.device, a: Tensor, b: Tensor, least: float, d: Tensor, made: Tensor
) -> None:
    """Writes the results into ``d`` and ``made``, factors (batch, blocks, rows); all arguments fit
    together."""
    if not d.numel():
        return
    if not a.shape[-1]:  # an empty sum
        d.zero_()
        made.fill_(least / torch.finfo(d.dtype).max)
        return
    found = operands.operands(a, [b], d)
    settings = {"dtype": checks.DTYPES[a.dtype], "out": OUTPUTS[d.dtype]}
    kernel = library.launcher(device, SPEC, **settings)
    kernel.launch((found.a, *found.right, found.out, made), (least,))
    found.give(d)


def _results(a: Tensor, b: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """Memory of the result, and of factors (batch, blocks, rows) as the kernel writes them: rows of
    all batches of a follow each other where b has none."""
    *outer, m, n = arguments.result_shape(a, b, None, 1.0, 1.0, False)
    if not (math.isfinite(least) and least > 0):
        got, fix = f"it is {least}", "pass what is as good as nothing, such as 1e-4"
        raise ArgumentValueError("least", got, "finite numbers above 0", fix)
    batch, rows = (1, math.prod(outer) * m) if b.dim() == 2 else (math.prod(outer), m)
    padded = -(-rows // 4) * 4  # for bulk copies
    made = a.new_empty((batch, -(-n // COLUMNS), padded), dtype=torch.float32)
    made = made.narrow(-1, 0, rows)  # an index would ask for the device
    return a.new_empty((*outer, m, n), dtype=torch.float8_e4m3fn), made


def _as_seen(made: Tensor, shape: torch.Size) -> Tensor:
    """(..., m, blocks) of factors, of the same memory, for a result of ``shape``."""
    *outer, m, _ = shape
    if not outer:
        return made.squeeze(0).mT
    if made.shape[-1] == m and len(made) == math.prod(outer):
        return made.view(*outer, *made.shape[1:]).mT
    return made.view(made.shape[1], *outer, m).movedim(0, -1)


def _fake(a: Tensor, b: Tensor, least: float) -> tuple[Tensor, Tensor]:
    d, made = _results(a, b, least)
    return d, _as_seen(made, d.shape)


def _run(a: Tensor, b: Tensor, least: float) -> tuple[Tensor, Tensor]:
    d, made = _results(a, b, least)
    _compute(checks.devices(a=a, b=b), a, b, least, d, made)
    return d, _as_seen(made, d.shape)


_quantized_gemm = Operator(
    "quantized_gemm(Tensor a, Tensor b, float least) -> (Tensor, Tensor)", _run, _fake
)
QUANTIZED = _quantized_gemm
"""The operator."""

"""Products with 8-bit results and a factor for each block: ``torch.ops.schedgen.quantized_gemm``.

What a network of 8-bit products computes is quantized before the next one reads it. Here that is
part of the epilogue: the sums of an output tile are read twice, for the largest magnitude of each
row's block and for the numbers themselves, and never leave the SM as 16-bit numbers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from schedgen.kernels import checks, layouts, library, operands
from schedgen.kernels import gemm_arguments as arguments
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from schedgen.kernels.operators import Operator

SPEC = "gemm_quantized"
BLOCKS = {torch.float32: ("f32", 128), torch.float8_e8m0fnu: ("e8m0", 32)}
"""Data types of factors, what the spec calls them, and numbers of a row that share one, as
`scaled_gemm` takes them."""
OUTPUTS = {torch.float8_e4m3fn: "e4m3"}
"""Data types of results, and what the specs call them."""


def quantized_gemm(
    a: Tensor,
    b: Tensor,
    *,
    scale_dtype: torch.dtype = torch.float32,
    least: float = 1e-4,
    dtype: torch.dtype = torch.float8_e4m3fn,
) -> tuple[Tensor, Tensor]:
    """d and factors so that d times the factors of its blocks of columns is a @ b.

    A factor is the largest magnitude of its row's block, or ``least``, over the largest number of
    ``dtype``; accumulators are float32 and rounded once. Blocks have 128 columns and factors are
    float32; or they have 32 and factors are powers of two, rounded up (MXFP8). Both results are
    what `scaled_gemm` takes as ``a`` and ``scale_a``:

        d, factors = quantized_gemm(x, w_up.mT)
        y = scaled_gemm(d, w_down.mT, factors, scale_down)

    Args:
        a: (..., m, k), bfloat16 or float16.
        b: (..., k, n), of the same type; the transposed view of a row-major matrix is not copied.
        scale_dtype: of factors: float32, or float8_e8m0fnu (Blackwell).
        least: above 0: what magnitudes below it count as.
        dtype: of d; float8_e4m3fn.

    Returns:
        d: (..., m, n), contiguous.
        factors: (..., m, ceil(n / 128)), float32; those of one block lie along m. Or powers of two
            in the layout of cuBLAS and ``torch._scaled_mm``: for each batch, 128 rows and 4 blocks
            512 bytes, (..., 128 ceil(m / 128), 4 ceil(n / 128)), contiguous; what fills up rows and
            blocks is 2^-127.

    Raises:
        ArgumentValueError: a ValueError; shapes, devices or numbers that do not fit.
        ArgumentTypeError: a TypeError; a data type that does not fit.
        DeviceError: no kernel for this GPU, or no toolchain.
    """
    if dtype not in OUTPUTS:
        known = ", ".join(map(str, OUTPUTS))
        raise ArgumentTypeError("dtype", f"it is {dtype}", known, "convert the result of gemm")
    if scale_dtype not in BLOCKS:
        known = ", ".join(map(str, BLOCKS))
        raise ArgumentTypeError("scale_dtype", f"it is {scale_dtype}", known, "choose one of them")
    powers = scale_dtype is torch.float8_e8m0fnu
    d, factors = _quantized_gemm(a, b, least, powers)
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
        made.copy_(_rounded_up(least / torch.finfo(d.dtype).max, made))
        return
    found = operands.operands(a, [b], d)
    settings = {"dtype": checks.DTYPES[a.dtype], "out": OUTPUTS[d.dtype]}
    if made.dtype is not torch.float32:
        settings["factor"] = BLOCKS[made.dtype][0]
    kernel = library.launcher(device, SPEC, **settings)
    kernel.launch((found.a, *found.right, found.out, made), (least,))
    found.give(d)


def _rounded_up(factor: float, like: Tensor) -> Tensor:
    """One factor of the data type of ``like``."""
    if like.dtype is torch.float32:
        return like.new_tensor(factor)
    mantissa, exponent = math.frexp(factor)
    return like.new_tensor(2.0 ** (exponent - (mantissa == 0.5)), dtype=torch.float32)


def _results(a: Tensor, b: Tensor, least: float, powers: bool) -> tuple[Tensor, Tensor]:
    """Memory of the result, and of factors (batch, blocks, rows) as the kernel writes them: rows of
    all batches of a follow each other where b has none."""
    *outer, m, n = arguments.result_shape(a, b, None, 1.0, 1.0, False)
    if not (math.isfinite(least) and least > 0):
        got, fix = f"it is {least}", "pass what is as good as nothing, such as 1e-4"
        raise ArgumentValueError("least", got, "finite numbers above 0", fix)
    batch, rows = (1, math.prod(outer) * m) if b.dim() == 2 else (math.prod(outer), m)
    dtype = torch.float8_e8m0fnu if powers else torch.float32
    step = layouts.ALIGNMENT // dtype.itemsize
    made = a.new_empty((batch, -(-n // BLOCKS[dtype][1]), -(-rows // step) * step), dtype=dtype)
    made = made.narrow(-1, 0, rows)  # an index would ask for the device
    return a.new_empty((*outer, m, n), dtype=torch.float8_e4m3fn), made


def _as_seen(made: Tensor, shape: torch.Size) -> Tensor:
    """(..., m, blocks) of factors for a result of ``shape``: of the same memory, or as cuBLAS has
    powers of two."""
    *outer, m, _ = shape
    if not outer:
        seen = made.squeeze(0).mT
    elif made.shape[-1] == m and len(made) == math.prod(outer):
        seen = made.view(*outer, *made.shape[1:]).mT
    else:
        seen = made.view(made.shape[1], *outer, m).movedim(0, -1)
    return seen if made.dtype is torch.float32 else _laid_out(seen)


def _laid_out(factors: Tensor) -> Tensor:
    """(..., m, blocks) of bytes, for each 128 rows and 4 blocks as 32 lanes of 16 bytes."""
    *outer, m, blocks = factors.shape
    rows, groups = -(-m // 128), -(-blocks // 4)
    # Products read the factors that fill up blocks, too: those must not be NaN.
    whole = factors.new_zeros((math.prod(outer), 128 * rows, 4 * groups), dtype=torch.uint8)
    part = whole.narrow(1, 0, m).narrow(2, 0, blocks)
    part.copy_(factors.view(torch.uint8).reshape(part.shape))
    apart = whole.view(-1, rows, 4, 32, groups, 4).permute(0, 1, 4, 3, 2, 5)
    return apart.reshape(*outer, 128 * rows, 4 * groups).view(factors.dtype)


def _fake(a: Tensor, b: Tensor, least: float, powers: bool) -> tuple[Tensor, Tensor]:
    d, made = _results(a, b, least, powers)
    return d, _as_seen(made, d.shape)


def _run(a: Tensor, b: Tensor, least: float, powers: bool) -> tuple[Tensor, Tensor]:
    d, made = _results(a, b, least, powers)
    _compute(checks.devices(a=a, b=b), a, b, least, d, made)
    return d, _as_seen(made, d.shape)


_quantized_gemm = Operator(
    "quantized_gemm(Tensor a, Tensor b, float least, bool powers) -> (Tensor, Tensor)", _run, _fake
)
QUANTIZED = _quantized_gemm
"""The operator."""

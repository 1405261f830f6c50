"""Queries and keys with their rotary embedding: ``torch.ops.schedgen.gemm_rotary``.

The first and the second half of each head's columns are two products over one pass of the left
operand, so that the epilogue has both numbers of a pair that it turns. Nothing is written and read
again for the embedding.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor

from schedgen.kernels import checks, layouts, library
from schedgen.kernels import gemm_arguments as arguments
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from schedgen.kernels.operators import Operator

SPEC = "gemm_rotary"
HALVES = (32, 64)
"""Columns of half of a head, of which there are kernels."""


def gemm_rotary(a: Tensor, b: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """a @ b, where column i and column i + head_dim / 2 of each head are turned by an angle.

    Of x and y of a pair, ``cosine x - sine y`` and ``cosine y + sine x`` are left, as by the rotary
    embedding of GPT-NeoX and Llama. Sums are float32 and rounded once, after the turn. There is no
    backward pass.

    Args:
        a: (..., m, k), bfloat16 or float16.
        b: (k, heads head_dim), of the same type; the transposed view of a row-major weight is not
            copied.
        cosine: (m, head_dim / 2), or what broadcasts to (..., m, head_dim / 2), float32; its last
            dimension says what head_dim is: 64 or 128.
        sine: the same of sines.

    Returns:
        (..., m, heads, head_dim), of the type of a, contiguous.

    Raises:
        ArgumentValueError: a ValueError; shapes, devices or numbers that do not fit.
        ArgumentTypeError: a TypeError; a data type that does not fit.
        DeviceError: no kernel for this GPU, or no toolchain.
    """
    return _gemm_rotary(a, b, cosine, sine)


def _compute(
    device: torch.device, a: Tensor, b: Tensor, cosine: Tensor, sine: Tensor, out: Tensor
) -> None:
    """Writes the result into ``out``; all arguments fit together."""
    if not out.numel():
        return
    if not a.shape[-1]:  # an empty sum
        out.zero_()
        return
    *outer, m, heads, head_dim = out.shape
    half, batch = head_dim // 2, math.prod(outer)
    rows = layouts.accessible(layouts.batches(a, outer))
    weight = layouts.accessible(b.mT).view(heads, 2, half, -1)
    angles = [
        layouts.accessible(layouts.batches(one.expand(*outer, m, half), outer))
        for one in (cosine, sine)
    ]
    halves = out.view(batch, m, heads, 2, half).unbind(3)
    kernel = library.launcher(device, SPEC, dtype=checks.DTYPES[a.dtype], half=str(half))
    kernel.launch((rows, *weight.unbind(1), *angles, *halves), ())


def _shape(a: Tensor, b: Tensor, cosine: Tensor, sine: Tensor) -> tuple[int, ...]:
    """Of the result. Raises ArgumentValueError, ArgumentTypeError: arguments do not fit."""
    *outer, m, n = arguments.result_shape(a, b, None, 1.0, 1.0, False)
    if b.dim() != 2:
        got, fix = f"it has {b.dim()} dimensions", "multiply by one weight"
        raise ArgumentValueError("b", got, "(k, heads head_dim)", fix)
    half = cosine.shape[-1] if cosine.dim() else 0
    if half not in HALVES:
        got = f"its shape is {tuple(cosine.shape)}"
        fix = "schedgen.kernels.kernel('gemm_rotary', half=...) for others"
        raise ArgumentValueError("cosine", got, f"(..., m, {' or '.join(map(str, HALVES))})", fix)
    if n % (2 * half):
        got, fix = f"its shape is {tuple(b.shape)}", "one embedding is of whole heads"
        raise ArgumentValueError("b", got, f"(k, a multiple of {2 * half})", fix)
    for name, one in (("cosine", cosine), ("sine", sine)):
        if one.dtype is not torch.float32:
            raise ArgumentTypeError(name, f"its dtype is {one.dtype}", "torch.float32", ".float()")
        try:
            seen = cast("torch.Size", torch.broadcast_shapes(one.shape, (*outer, m, half)))
        except RuntimeError:
            seen = None
        if seen != (*outer, m, half):
            got, allowed = (
                f"its shape is {tuple(one.shape)}",
                f"what broadcasts to {(*outer, m, half)}",
            )
            raise ArgumentValueError(name, got, allowed, "give an angle for each row")
    return (*outer, m, n // (2 * half), 2 * half)


def _fake(a: Tensor, b: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    return a.new_empty(_shape(a, b, cosine, sine))


def _run(a: Tensor, b: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    out = _fake(a, b, cosine, sine)
    _compute(checks.devices(a=a, b=b, cosine=cosine, sine=sine), a, b, cosine, sine, out)
    return out


_gemm_rotary = Operator(
    "gemm_rotary(Tensor a, Tensor b, Tensor cosine, Tensor sine) -> Tensor", _run, _fake
)
ROTARY = _gemm_rotary
"""The operator."""

"""RMSNorm in the products around it: ``torch.ops.schedgen.gemm_rms`` and ``gemm_scaled``.

The product before a normalization stores, beside its result, sums of squares of the rows of each of
its output tiles; a small kernel makes a factor for each row of them, which is applied behind the
product after it. The weights of the normalization are best multiplied into that product's right
operand, once: (r x * w) b = r x (w[:, None] * b). Right operands are read along k, as transposed
views of row-major weights lie; others are copied.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from schedgen.kernels import checks, choosing, layouts, library, operands
from schedgen.kernels import gemm_arguments as arguments
from schedgen.kernels.errors import ArgumentValueError
from schedgen.kernels.operators import Operator


def gemm_rms(
    a: Tensor, b: Tensor, c: Tensor | None = None, *, beta: float = 1.0, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """d = a @ b + beta * c, and r = 1 / sqrt(mean of the squares of d's rows + eps).

    ``r[..., None] * d`` is RMSNorm without weights; `gemm_scaled` and `gemm_gated` take r, so that
    nobody has to compute that. Sums are accumulated in float32, and of what d was before it was
    rounded; their order depends on the shape only.

    Args:
        a: (..., m, k), bfloat16 or float16.
        b: (..., k, n), of the same type.
        c: broadcastable to (..., m, n), of the same type, such as the residual; None for no addend.
        beta: factor of c, which is not read if this is 0.
        eps: added to the means.

    Returns:
        d: (..., m, n) of the same type, contiguous.
        r: (..., m), float32, contiguous.

    Raises:
        ArgumentValueError: a ValueError; shapes, devices or numbers that do not fit.
        ArgumentTypeError: a TypeError; a data type that does not fit.
        DeviceError: no kernel for this GPU, or no toolchain.
    """
    d, r = _gemm_rms(a, b, c, beta, eps)
    return d, r


def gemm_scaled(a: Tensor, b: Tensor, row_scale: Tensor, *, out: Tensor | None = None) -> Tensor:
    """row_scale[..., None] * (a @ b), rounded once.

    Args:
        a: (..., m, k), bfloat16 or float16.
        b: (..., k, n), of the same type.
        row_scale: (..., m), float32, such as the second result of `gemm_rms`.
        out: where the result is written; of the same type and the result's shape. It may share no
            memory with a and b.

    Returns and raises as `gemm`.
    """
    if out is None:
        return _gemm_scaled(a, b, row_scale)
    arguments.refuse_gradients(a, b, row_scale, out)
    _gemm_scaled_out(a, b, row_scale, out)
    return out


# -- computation ----------------------------------------------------------------------------------


def _compute(
    device: torch.device,
    factors: tuple[Tensor, Tensor, Tensor | None],
    beta: float,
    eps: float,
    d: Tensor,
    r: Tensor,
) -> None:
    """Writes the results into ``d`` and ``r``; all arguments fit together."""
    a, b, c = factors
    if not beta:
        c = None
    if not d.numel():
        r.fill_(math.nan)  # the mean of nothing
        return
    if not a.shape[-1]:  # an empty sum
        sums = torch.zeros(d.shape, device=d.device) if c is None else c.float() * beta
        d.copy_(sums)
        r.copy_((sums.expand(d.shape).square().mean(-1) + eps).rsqrt())
        return
    found = operands.operands(a, [b], d)
    batch, m, n, _ = found.shape
    tile, run = _kernel(device, d.dtype, found.shape, squares=True, addend=c is not None)
    squares = layouts.room(r, (batch, -(-n // tile.columns), m))
    addend = run.zeros[d.dtype].view(1, 1, -1) if c is None else found.addend(c, d.shape)
    scalars = (0.0 if c is None else beta,)
    run.launch((found.a, *found.right, addend, found.out, squares), scalars)
    factor = r.view(batch, m)
    direct = layouts.problem(factor) is None
    factor = factor if direct else layouts.room(r, (batch, m))
    library.launcher(device, "rms_factors").launch((squares, factor), (1 / n, eps))
    if not direct:
        r.copy_(factor.reshape(r.shape))
    found.give(d)


def _scale(device: torch.device, factors: tuple[Tensor, Tensor, Tensor], out: Tensor) -> None:
    """Writes the product of ``factors``, which are a, b and those of the rows, into ``out``."""
    a, b, row_scale = factors
    if not out.numel():
        return
    if not a.shape[-1]:
        out.zero_()
        return
    found = operands.operands(a, [b], out)
    _, run = _kernel(device, out.dtype, found.shape, scaled=True)
    run.launch((found.a, *found.right, found.of_rows(row_scale), found.out), ())
    found.give(out)


_kernel = lru_cache(1024)(choosing.fused)


# -- operators ------------------------------------------------------------------------------------


def _fake_rms(
    a: Tensor, b: Tensor, c: Tensor | None, beta: float, eps: float
) -> tuple[Tensor, Tensor]:
    shape = arguments.result_shape(a, b, c, 1.0, beta, False)
    if not (math.isfinite(eps) and eps >= 0):
        got, fix = f"it is {eps}", "pass the eps of the normalization"
        raise ArgumentValueError("eps", got, "finite numbers that are not below 0", fix)
    return a.new_empty(shape), a.new_empty(shape[:-1], dtype=torch.float32)


def _run_rms(
    a: Tensor, b: Tensor, c: Tensor | None, beta: float, eps: float
) -> tuple[Tensor, Tensor]:
    d, r = _fake_rms(a, b, c, beta, eps)
    _compute(checks.devices(a=a, b=b, c=c), (a, b, c), beta, eps, d, r)
    return d, r


def _shape(a: Tensor, b: Tensor, row_scale: Tensor) -> torch.Size:
    shape = arguments.result_shape(a, b, None, 1.0, 1.0, False)
    operands.check_row_scale(row_scale, shape)
    return shape


def _fake_scaled(a: Tensor, b: Tensor, row_scale: Tensor) -> Tensor:
    return a.new_empty(_shape(a, b, row_scale))


def _run_scaled(a: Tensor, b: Tensor, row_scale: Tensor) -> Tensor:
    out = _fake_scaled(a, b, row_scale)
    _scale(checks.devices(a=a, b=b, row_scale=row_scale), (a, b, row_scale), out)
    return out


def _fake_scaled_out(a: Tensor, b: Tensor, row_scale: Tensor, out: Tensor) -> None:
    arguments.check_out(out, _shape(a, b, row_scale), a.dtype)


def _run_scaled_out(a: Tensor, b: Tensor, row_scale: Tensor, out: Tensor) -> None:
    _fake_scaled_out(a, b, row_scale, out)
    device = checks.devices(a=a, b=b, row_scale=row_scale, out=out)
    if out.numel() and not out.is_meta:
        arguments.check_apart(out, a=a, b=b)
    _scale(device, (a, b, row_scale), out)


_gemm_rms = Operator(
    "gemm_rms(Tensor a, Tensor b, Tensor? c, float beta, float eps) -> (Tensor, Tensor)",
    _run_rms,
    _fake_rms,
)
_SCALED = "Tensor a, Tensor b, Tensor row_scale"
_gemm_scaled = Operator(f"gemm_scaled({_SCALED}) -> Tensor", _run_scaled, _fake_scaled)
_gemm_scaled_out = Operator(
    f"gemm_scaled_out({_SCALED}, Tensor(a!) out) -> ()", _run_scaled_out, _fake_scaled_out
)
RMS, SCALED = _gemm_rms, _gemm_scaled
"""Operators that return their results."""

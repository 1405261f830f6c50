"""Dropout by a counter: ``torch.ops.schedgen.gemm_dropout`` and ``dropout``.

Whether an element is dropped follows from the seed, the number of its row and that of its column
(`schedgen.expressions.counters`), not from how anything is computed. So both functions drop the
same elements, on every GPU and in output tiles of every size; gradients draw them again.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from schedgen.kernels import checks, choosing, layouts, library, operands
from schedgen.kernels import gemm_arguments as arguments
from schedgen.kernels.errors import ArgumentValueError
from schedgen.kernels.operators import Operator

SPEC = "dropout"
_WORD, _SIGN = 1 << 32, 1 << 31
_LEAST, _MOST = -(1 << 63), 1 << 64


def gemm_dropout(
    a: Tensor,
    b: Tensor,
    p: float,
    seed: int,
    *,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """dropout(a @ b + bias) + residual, accumulated in float32 and rounded once.

    Elements are zero with probability ``p``, others are multiplied by 1 / (1 - p). With (..., n) as
    shape of the result, `dropout` of the same seed drops the same elements of a tensor of that
    shape. Its gradients are products, and no mask is kept for them.

    Args:
        a: (..., m, k), bfloat16 or float16.
        b: (..., k, n), of the same type; read as it lies along k, otherwise copied.
        p: probability from 0 to 1, of which multiples of 2^-23 are exact.
        seed: 64 bits; with another one all elements are drawn again.
        bias: (n,), of the same type.
        residual: broadcastable to (..., m, n), of the same type; not dropped.

    Returns:
        (..., m, n) of the same type, contiguous.

    Raises:
        ArgumentValueError: a ValueError; shapes, devices or numbers that do not fit.
        ArgumentTypeError: a TypeError; a data type that does not fit.
        DeviceError: no kernel for this GPU, or no toolchain.
    """
    return _gemm_dropout(a, b, bias, residual, *_numbers(p, seed))


def dropout(x: Tensor, p: float, seed: int) -> Tensor:
    """Zero with probability ``p``, and x / (1 - p) elsewhere.

    Rows are counted through all dimensions but the last. Of ones it is what `gemm_dropout` and its
    gradients multiply by.

    Args:
        x: (..., n), bfloat16 or float16, of fewer than 2^31 rows.
        p: probability from 0 to 1, of which multiples of 2^-23 are exact.
        seed: 64 bits.

    Returns:
        Like ``x``, contiguous.

    Raises:
        ArgumentValueError, ArgumentTypeError, DeviceError: as `gemm_dropout`.
    """
    return _dropout(x, *_numbers(p, seed))


class Drawn(NamedTuple):
    """What decides about elements, as kernels take it: the halves of a seed have 32 bits with a
    sign.
    """

    p: float
    scale: float
    low: int
    high: int


def _numbers(p: float, seed: int) -> Drawn:
    """Raises ArgumentValueError."""
    if not 0 <= p <= 1:
        raise ArgumentValueError("p", f"it is {p}", "probabilities from 0 to 1", "pass another p")
    if not _LEAST <= seed < _MOST:
        fix = "pass seed % 2**64"
        raise ArgumentValueError("seed", f"it is {seed}", "integers of 64 bits", fix)
    low, high = (half % _WORD for half in (seed, seed // _WORD))
    scale = 1 / (1 - p) if p < 1 else 0.0
    return Drawn(float(p), scale, *((half + _SIGN) % _WORD - _SIGN for half in (low, high)))


# -- computation ----------------------------------------------------------------------------------


def _drop(device: torch.device, x: Tensor, drawn: Drawn, out: Tensor) -> None:
    """Writes what is left of ``x`` into ``out``, which is contiguous."""
    if not out.numel():
        return
    rows, target = (one.reshape(-1, out.shape[-1]) for one in (x, out))
    direct = layouts.problem(target) is None
    target = target if direct else layouts.room(out, target.shape)
    kernel = library.launcher(device, SPEC, dtype=checks.DTYPES[out.dtype])
    kernel.launch((layouts.accessible(rows), target), drawn)
    if not direct:
        out.copy_(target.reshape(out.shape))


def _compute(
    device: torch.device,
    tensors: tuple[Tensor, Tensor, Tensor | None, Tensor | None],
    drawn: Drawn,
    out: Tensor,
) -> None:
    """Writes the result into ``out``; all arguments fit together."""
    a, b, bias, c = tensors
    if not out.numel():
        return
    if not a.shape[-1]:  # an empty sum
        sums = out.new_zeros(out.shape) if bias is None else bias.expand(out.shape)
        _drop(device, sums, drawn, out)
        if c is not None:
            out.add_(c)
        return
    found = operands.operands(a, [b], out)
    run = _kernel(device, out.dtype, found.shape, addend=c is not None, dropped=True)[1]
    zeros = run.zeros[out.dtype]
    beside = zeros if bias is None else layouts.accessible(bias)
    addend = zeros.view(1, 1, -1) if c is None else found.addend(c, out.shape)
    p, scale, low, high = drawn
    scalars = (p, scale, 0.0 if c is None else 1.0, low, high)
    run.launch((found.a, *found.right, beside, addend, found.out), scalars)
    found.give(out)


_kernel = lru_cache(1024)(choosing.fused)


# -- operators ------------------------------------------------------------------------------------


def _fake_product(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    *drawn: Any,
) -> Tensor:
    del drawn
    checks.dtypes(a=a, b=b, bias=bias, residual=residual)
    arguments.check_epilogue(b, None, 1.0, bias, None)
    shape = arguments.result_shape(a, b, None, 1.0, 1.0, False)
    arguments.check_addend("residual", residual, shape)
    return a.new_empty(shape)


def _run_product(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    *drawn: Any,
) -> Tensor:
    out = _fake_product(a, b, bias, residual)
    device = checks.devices(a=a, b=b, bias=bias, residual=residual)
    _compute(device, (a, b, bias, residual), Drawn(*drawn), out)
    return out


def _fake(x: Tensor, *drawn: Any) -> Tensor:
    del drawn
    checks.dtypes(x=x)
    if not x.dim():
        raise ArgumentValueError("x", "it has no dimensions", "(..., n)", "x.unsqueeze(0)")
    return x.new_empty(x.shape)


def _run(x: Tensor, *drawn: Any) -> Tensor:
    out = _fake(x)
    _drop(checks.devices(x=x), x, Drawn(*drawn), out)
    return out


_DRAWN = "float p, float scale, SymInt low, SymInt high"
_SEED = ("low", "high")
_gemm_dropout = Operator(
    f"gemm_dropout(Tensor a, Tensor b, Tensor? bias, Tensor? residual, {_DRAWN}) -> Tensor",
    _run_product,
    _fake_product,
    anew=_SEED,
)
_dropout = Operator(f"dropout(Tensor x, {_DRAWN}) -> Tensor", _run, _fake, anew=_SEED)
PRODUCT, ELEMENTS = _gemm_dropout, _dropout
"""The operators."""

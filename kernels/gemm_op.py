"""Matrix products on generated kernels: ``torch.ops.schedgen.gemm`` and its friendly forms.

Operands are read along their rows or columns: each is row-major, or the transposed view of a
row-major matrix, such as ``weight.mT``. Of an ``a`` along its columns there are kernels for a ``b``
along its rows, as in the gradient of a weight; what there is no kernel for, and what is faster
copied, is copied first, and so is any other layout. A result whose rows are no multiples of 16
bytes is computed beside its place and copied there. How large output tiles are, whether k is split,
and whether the result is computed transposed is decided for each shape (`choosing`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from schedgen.kernels import checks, choosing, layouts
from schedgen.kernels import gemm_arguments as arguments
from schedgen.kernels.operators import Operator
from schedgen.kernels.scaled_op import scaled_gemm


def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    bias: Tensor | None = None,
    activation: Literal["gelu"] | None = None,
    scale_a: Tensor | None = None,
    scale_b: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """activation(alpha * a @ b + beta * c + bias), accumulated in float32 and rounded once.

    Shapes and their broadcasting are those of ``torch.matmul`` for matrices, and of addition for
    ``c``. Operands are read as they are if ``a`` is row-major, and ``b`` or ``b.mT``, too; in
    bfloat16 also if ``a.mT`` and ``b`` are. Its gradients are products (`gemm_gradients`).

    With ``scale_a`` and ``scale_b`` operands have 8 or 4 bits, and the result is bfloat16: that is
    `scaled_gemm`, which knows neither addends nor activations, and has no gradients.

    Args:
        a: (..., m, k), bfloat16 or float16; what `scaled_gemm` takes, if there are factors.
        b: (..., k, n), of the same type.
        c: broadcastable to (..., m, n), of the same type; None for no addend.
        alpha: factor of the product.
        beta: factor of c, which is not read if this is 0.
        bias: (n,), of the same type; instead of ``c``.
        activation: ``"gelu"``, with tanh as in ``torch.nn.functional.gelu(approximate="tanh")``;
            without ``c``, and with ``alpha`` 1.
        scale_a: factors of a, as of `scaled_gemm`; together with those of b, or not at all.
        scale_b: factors of b.
        out: where the result is written; of the same type and the result's shape. It may be ``c``
            itself, but share no memory with ``a`` or ``b``.

    Returns:
        (..., m, n) of the same type, contiguous; or ``out``. Where k is long and the result small,
        up to 256 MiB of memory are taken beside it (`split.MOST_BYTES`).

    Raises:
        ArgumentValueError: a ValueError; shapes, devices or numbers that do not fit.
        ArgumentTypeError: a TypeError; a data type that does not fit.
        DeviceError: no kernel for this GPU, or no toolchain.
    """
    if scale_a is not None or scale_b is not None:
        both = arguments.check_factors(scale_a, scale_b, c=c, bias=bias, activation=activation)
        return scaled_gemm(a, b, *both, alpha=alpha, out=out)
    if bias is not None or activation is not None:
        arguments.check_epilogue(b, c, alpha, bias, activation)
        c, beta = bias, 1.0
    if activation is not None:
        if out is None:
            return _gemm_gelu(a, b, c)
        arguments.refuse_gradients(a, b, c, out)
        _gemm_gelu_out(a, b, c, out)
        return out
    if out is None:
        return _gemm(a, b, c, alpha, beta)
    arguments.refuse_gradients(a, b, c, out)
    _gemm_out(a, b, c, alpha, beta, out)
    return out


def symmetric_gemm(
    a: Tensor,
    b: Tensor | None = None,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    out: Tensor | None = None,
) -> Tensor:
    """alpha * a @ b + beta * c for a result that is known to be symmetric: half the work.

    Only tiles on and below the diagonal are computed, and what is above them is copied. Tiles on
    the diagonal have both halves: unless ``b`` is ``a.mT``, these may differ by roundings. That the
    product and ``c`` are symmetric is not checked; of ``c`` only those tiles are read. Arguments,
    results and errors are those of `gemm`, except:

    Args:
        b: (..., k, m); ``a.mT`` if None. For a symmetric ``a``, too, ``None`` means a @ a.
    """
    b = a.mT if b is None else b
    if out is None:
        return _symmetric_gemm(a, b, c, alpha, beta)
    arguments.refuse_gradients(a, b, c, out)
    _symmetric_gemm_out(a, b, c, alpha, beta, out)
    return out


# -- computation ----------------------------------------------------------------------------------


def _compute(
    device: torch.device,
    symmetric: bool,
    operands: tuple[Tensor, Tensor, Tensor | None],
    alpha: float,
    beta: float,
    out: Tensor,
    *,
    activated: bool = False,
) -> None:
    """Writes the result into ``out``; all arguments fit together. Where an activation is applied to
    it, the addend is a bias: (n,).
    """
    a, b, c = operands
    if not out.numel():
        return
    if not beta:
        c = None  # also if it is infinite or no number, as in torch
    if not a.shape[-1]:  # an empty sum
        found = torch.zeros_like(out) if c is None else c.float() * beta
        out.copy_(functional.gelu(found, approximate="tanh") if activated else found)
        return
    bias, c = (c, None) if activated else (None, c)
    if b.dim() == 2 and a.dim() > 2 and not symmetric:  # rows of all batches form one matrix
        c = None if c is None else c.expand(out.shape).reshape(1, -1, out.shape[-1])
        rows, target = a.reshape(1, -1, a.shape[-1]), layouts.merged(out, 1)
        columns = b.unsqueeze(0)
    else:
        outer = out.shape[:-2]
        rows, columns = layouts.batches(a, outer), layouts.batches(b, outer)
        c = None if c is None else layouts.batches(c.expand(out.shape), outer)
        target = layouts.merged(out, outer.numel()) if outer else out.unsqueeze(0)
    direct = target is not None and layouts.problem(target) is None
    if target is None or not direct:
        shape = (rows.shape[0], rows.shape[1], out.shape[-1])
        target = layouts.room(out, shape)
    addend = bias if activated else c
    _launch(device, symmetric, (rows, columns, addend), alpha, beta, target, activated=activated)
    if not direct:
        out.copy_(target.reshape(out.shape))


def _launch(
    device: torch.device,
    symmetric: bool,
    operands: tuple[Tensor, Tensor, Tensor | None],
    alpha: float,
    beta: float,
    out: Tensor,
    *,
    activated: bool,
) -> None:
    """(batch, m, k), (batch, k, n) and (batch, m, n), a bias or None to ``out`` (batch, m, n)."""
    a, b, c = operands
    batch, m, n = out.shape
    shape, added = (batch, m, n, a.shape[-1]), c is not None
    a_layout, b_layout = ("km" if _along_columns(a) else "mk"), ("kn" if _along_rows(b) else "nk")
    if a_layout == "km":
        lies = _along_m(device, out.dtype, symmetric, b_layout, shape, activated, added)
        a_layout = "km" if lies else "mk"
    if a_layout == "mk":
        same = symmetric and layouts.same(a, b.mT)  # one copy, if any, is enough for both
        a = layouts.accessible(a)
        b, b_layout = (a.mT, "nk") if same else (b, b_layout)
    left = a.mT if a_layout == "km" else a
    right = b if b_layout == "kn" else layouts.accessible(b.mT)
    run = _kernel(device, out.dtype, symmetric, b_layout, shape, activated, added, a_layout)
    if activated:
        bias = run.zeros[out.dtype] if c is None else layouts.accessible(c)
        run.launch((left, right, bias, out), ())
        return
    if c is None:
        addend, beta = run.zeros[out.dtype].view(1, 1, -1), 0.0
    else:
        addend = layouts.accessible(c)
    run.launch((left, right, addend, out), (alpha, beta))


def _along_columns(a: Tensor) -> bool:
    """Whether bulk copies can read a matrix along its columns, and not along its rows."""
    return layouts.problem(a) is not None and layouts.problem(a.mT) is None


def _along_rows(b: Tensor) -> bool:
    """Whether they can read it along its rows, and not along its columns."""
    return _along_columns(b.mT)


_kernel, _along_m = lru_cache(1024)(choosing.kernel), lru_cache(1024)(choosing.along_m)


# -- operators ------------------------------------------------------------------------------------


def _define(name: str, symmetric: bool) -> tuple[Operator, Operator]:
    """The operator that returns its result, and the one that writes it to ``out``."""
    takes = "Tensor a, Tensor b, Tensor? c, float alpha, float beta"

    def fake(a: Tensor, b: Tensor, c: Tensor | None, alpha: float, beta: float) -> Tensor:
        return a.new_empty(arguments.result_shape(a, b, c, alpha, beta, symmetric))

    def run(a: Tensor, b: Tensor, c: Tensor | None, alpha: float, beta: float) -> Tensor:
        out = fake(a, b, c, alpha, beta)
        device = checks.devices(a=a, b=b, c=c)
        _compute(device, symmetric, (a, b, c), alpha, beta, out)
        return out

    def fake_out(
        a: Tensor, b: Tensor, c: Tensor | None, alpha: float, beta: float, out: Tensor
    ) -> None:
        arguments.check_out(out, arguments.result_shape(a, b, c, alpha, beta, symmetric), a.dtype)

    def run_out(
        a: Tensor, b: Tensor, c: Tensor | None, alpha: float, beta: float, out: Tensor
    ) -> None:
        fake_out(a, b, c, alpha, beta, out)
        device = checks.devices(a=a, b=b, c=c, out=out)
        if out.numel() and not out.is_meta:  # where calls are planned, each is looked at again
            arguments.check_overlap(out, a, b, c)
        _compute(device, symmetric, (a, b, c), alpha, beta, out)

    operator = Operator(f"{name}({takes}) -> Tensor", run, fake)
    into = Operator(f"{name}_out({takes}, Tensor(a!) out) -> ()", run_out, fake_out)
    return operator, into


def _define_gelu() -> tuple[Operator, Operator]:
    """The same for gelu(a b + bias)."""

    def fake(a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
        return a.new_empty(arguments.result_shape(a, b, bias, 1.0, 1.0, False))

    def fake_out(a: Tensor, b: Tensor, bias: Tensor | None, out: Tensor) -> None:
        arguments.check_out(out, arguments.result_shape(a, b, bias, 1.0, 1.0, False), a.dtype)

    def run(a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
        arguments.check_epilogue(b, None, 1.0, bias, "gelu")  # the operator may be called by itself
        out = fake(a, b, bias)
        device = checks.devices(a=a, b=b, bias=bias)
        _compute(device, False, (a, b, bias), 1.0, 1.0, out, activated=True)
        return out

    def run_out(a: Tensor, b: Tensor, bias: Tensor | None, out: Tensor) -> None:
        arguments.check_epilogue(b, None, 1.0, bias, "gelu")
        fake_out(a, b, bias, out)
        device = checks.devices(a=a, b=b, bias=bias, out=out)
        if out.numel() and not out.is_meta:
            arguments.check_overlap(out, a, b, bias)
        _compute(device, False, (a, b, bias), 1.0, 1.0, out, activated=True)

    takes = "Tensor a, Tensor b, Tensor? bias"
    operator = Operator(f"gemm_gelu({takes}) -> Tensor", run, fake)
    into = Operator(f"gemm_gelu_out({takes}, Tensor(a!) out) -> ()", run_out, fake_out)
    return operator, into


_gemm, _gemm_out = _define("gemm", False)
_gemm_gelu, _gemm_gelu_out = _define_gelu()
_symmetric_gemm, _symmetric_gemm_out = _define("symmetric_gemm", True)
PRODUCTS, ACTIVATED = (_gemm, _symmetric_gemm), _gemm_gelu
"""Operators that return their results: of alpha a b + beta c, and of gelu(a b + bias)."""

"""Matrix products on generated kernels: ``torch.ops.schedgen.gemm`` and its friendly forms.

``a`` is read along its rows, ``b`` along its rows or columns: it is row-major, or the transposed
view of a row-major matrix, such as ``weight.mT``. Any other layout is copied first, and a result
whose rows are no multiples of 16 bytes is computed beside its place and copied there. How large
output tiles are (`tiling`) and whether k is split (`split`) is decided for each shape.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

import torch
from torch import Tensor

from schedgen.kernels import checks, layouts, split
from schedgen.kernels.errors import ArgumentValueError, GradientError
from schedgen.kernels.operators import Operator


def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    out: Tensor | None = None,
) -> Tensor:
    """alpha * a @ b + beta * c, accumulated in float32 and rounded once.

    Shapes and their broadcasting are those of ``torch.matmul`` for matrices, and of addition for
    ``c``. Operands are read as they are if ``a`` is row-major, and ``b`` or ``b.mT``, too. There is
    no backward pass yet.

    Args:
        a: (..., m, k), bfloat16 or float16.
        b: (..., k, n), of the same type.
        c: broadcastable to (..., m, n), of the same type; None for no addend.
        alpha: factor of the product.
        beta: factor of c, which is not read if this is 0.
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
    if out is None:
        return _gemm(a, b, c, alpha, beta)
    _refuse_gradients(a, b, c, out)
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
    _refuse_gradients(a, b, c, out)
    _symmetric_gemm_out(a, b, c, alpha, beta, out)
    return out


def _refuse_gradients(*tensors: Tensor | None) -> None:
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        raise GradientError(
            "out= and gradients do not go together, as in torch; fix: torch.no_grad(), or leave "
            "out= away"
        )


def _result_shape(
    a: Tensor, b: Tensor, c: Tensor | None, alpha: float, beta: float, symmetric: bool
) -> torch.Size:
    """Shape of the result, if the arguments fit together."""
    checks.dtypes(a=a, b=b, c=c)
    checks.number("alpha", alpha)
    checks.number("beta", beta)
    for name, tensor, shape in (("a", a, "(..., m, k)"), ("b", b, "(..., k, n)")):
        if tensor.dim() < 2:
            raise ArgumentValueError(
                name, f"it has {tensor.dim()} dimensions", shape, f"{name}.unsqueeze(...)"
            )
    (m, k), (k_b, n) = a.shape[-2:], b.shape[-2:]
    if k_b != k:
        got, fix = f"its shape is {tuple(b.shape)}", "transpose an operand with .mT"
        raise ArgumentValueError("b", got, f"(..., {k}, n), as a is {tuple(a.shape)}", fix)
    if symmetric and m != n:
        got, fix = f"its shape is {tuple(b.shape)}", "use gemm for a result that is not square"
        raise ArgumentValueError("b", got, f"(..., {k}, {m}), for a square result", fix)
    outer = _broadcast(a.shape[:-2], b.shape[:-2])
    if outer is None:
        got, fix = f"its shape is {tuple(b.shape)}", "make the batch dimensions the same"
        allowed = f"batch dimensions that broadcast with {tuple(a.shape[:-2])}"
        raise ArgumentValueError("b", got, allowed, fix)
    shape = torch.Size((*outer, m, n))
    if c is not None:
        _check_addend(c, shape)
    return shape


def _broadcast(*shapes: torch.Size) -> torch.Size | None:
    """The shape that all of ``shapes`` broadcast to, if there is one."""
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    try:
        return cast("torch.Size", torch.broadcast_shapes(*shapes))
    except RuntimeError:
        return None


def _check_addend(c: Tensor, shape: torch.Size) -> None:
    if _broadcast(c.shape, shape) != shape:
        got, allowed = f"its shape is {tuple(c.shape)}", f"what broadcasts to {tuple(shape)}"
        raise ArgumentValueError("c", got, allowed, "reshape c")


def _check_out(out: Tensor, shape: torch.Size, dtype: torch.dtype) -> None:
    checks.dtypes(out=out)
    if out.dtype != dtype or out.shape != shape:
        got = f"it is {tuple(out.shape)} of {out.dtype}"
        raise ArgumentValueError("out", got, f"{tuple(shape)} of {dtype}", "pass another out")


def _span(tensor: Tensor) -> tuple[int, int]:
    """Addresses from the first to behind the last element."""
    start = tensor.data_ptr()
    return start, start + layouts.span(tensor) * tensor.element_size()


def _check_overlap(out: Tensor, a: Tensor, b: Tensor, c: Tensor | None) -> None:
    """The kernel reads ``a`` and ``b`` while it writes, and of ``c`` what it has not yet written
    only if both are the same.
    """
    if c is not None and layouts.same(c, out):
        c = None
    start, end = _span(out)
    for name, tensor in (("a", a), ("b", b), ("c", c)):
        if tensor is not None and tensor.numel():
            first, last = _span(tensor)
            if first < end and start < last:
                allowed = "memory apart from a and b, or c itself"
                raise ArgumentValueError("out", f"it overlaps {name}", allowed, "pass another out")


# -- computation ----------------------------------------------------------------------------------


def _compute(
    device: torch.device,
    symmetric: bool,
    operands: tuple[Tensor, Tensor, Tensor | None],
    alpha: float,
    beta: float,
    out: Tensor,
) -> None:
    """Writes the result into ``out``; all arguments fit together."""
    a, b, c = operands
    if not out.numel():
        return
    if not beta:
        c = None  # also if it is infinite or no number, as in torch
    if not a.shape[-1]:  # an empty sum
        out.copy_(torch.zeros_like(out) if c is None else c.float() * beta)
        return
    if b.dim() == 2 and a.dim() > 2 and not symmetric:  # rows of all batches form one matrix
        c = None if c is None else c.expand(out.shape).reshape(1, -1, out.shape[-1])
        rows, target = a.reshape(1, -1, a.shape[-1]), _merged(out, 1)
        columns = b.unsqueeze(0)
    else:
        outer = out.shape[:-2]
        rows, columns = _batches(a, outer), _batches(b, outer)
        c = None if c is None else _batches(c.expand(out.shape), outer)
        target = _merged(out, outer.numel()) if outer else out.unsqueeze(0)
    direct = target is not None and layouts.problem(target) is None
    if target is None or not direct:
        shape = (rows.shape[0], rows.shape[1], out.shape[-1])
        target = layouts.room(out, shape)
    _launch(device, symmetric, (rows, columns, c), alpha, beta, target)
    if not direct:
        out.copy_(target.reshape(out.shape))


def _batches(tensor: Tensor, outer: torch.Size) -> Tensor:
    """(..., rows, columns) as (batch, rows, columns), one batch for each of ``outer``."""
    if not outer:
        return tensor.unsqueeze(0)
    return tensor.expand(*outer, *tensor.shape[-2:]).reshape(-1, *tensor.shape[-2:])


def _merged(out: Tensor, batch: int) -> Tensor | None:
    """``out`` as (batch, rows, columns); None if its strides do not allow that."""
    try:
        return out.view(batch, -1, out.shape[-1])
    except RuntimeError:
        return None


def _launch(
    device: torch.device,
    symmetric: bool,
    operands: tuple[Tensor, Tensor, Tensor | None],
    alpha: float,
    beta: float,
    out: Tensor,
) -> None:
    """(batch, m, k), (batch, k, n) and (batch, m, n) or None to ``out`` (batch, m, n)."""
    a, b, c = operands
    if symmetric and layouts.same(a, b.mT):  # one copy, if any, is enough for both
        a = layouts.accessible(a)
        b = a.mT
    if layouts.problem(b.mT) is not None and layouts.problem(b) is None:
        b_layout = "kn"
    else:
        b_layout = "nk"
        b = layouts.accessible(b.mT)
    batch, m, n = out.shape
    run = _kernel(device, out.dtype, symmetric, b_layout, (batch, m, n, a.shape[-1]))
    if c is None:
        addend, beta = run.zeros[out.dtype].view(1, 1, -1), 0.0
    else:
        addend = layouts.accessible(c)
    run.launch((layouts.accessible(a), b, addend, out), (alpha, beta))


_kernel = lru_cache(1024)(split.kernel)


# -- operators ------------------------------------------------------------------------------------


def _define(name: str, symmetric: bool) -> tuple[Operator, Operator]:
    """The operator that returns its result, and the one that writes it to ``out``."""
    arguments = "Tensor a, Tensor b, Tensor? c, float alpha, float beta"

    def fake(a: Tensor, b: Tensor, c: Tensor | None, alpha: float, beta: float) -> Tensor:
        return a.new_empty(_result_shape(a, b, c, alpha, beta, symmetric))

    def run(a: Tensor, b: Tensor, c: Tensor | None, alpha: float, beta: float) -> Tensor:
        out = fake(a, b, c, alpha, beta)
        device = checks.devices(a=a, b=b, c=c)
        _compute(device, symmetric, (a, b, c), alpha, beta, out)
        return out

    def fake_out(
        a: Tensor, b: Tensor, c: Tensor | None, alpha: float, beta: float, out: Tensor
    ) -> None:
        _check_out(out, _result_shape(a, b, c, alpha, beta, symmetric), a.dtype)

    def run_out(
        a: Tensor, b: Tensor, c: Tensor | None, alpha: float, beta: float, out: Tensor
    ) -> None:
        fake_out(a, b, c, alpha, beta, out)
        device = checks.devices(a=a, b=b, c=c, out=out)
        if out.numel() and not out.is_meta:  # where calls are planned, each is looked at again
            _check_overlap(out, a, b, c)
        _compute(device, symmetric, (a, b, c), alpha, beta, out)

    operator = Operator(f"{name}({arguments}) -> Tensor", run, fake)
    into = Operator(f"{name}_out({arguments}, Tensor(a!) out) -> ()", run_out, fake_out)
    return operator, into


_gemm, _gemm_out = _define("gemm", False)
_symmetric_gemm, _symmetric_gemm_out = _define("symmetric_gemm", True)

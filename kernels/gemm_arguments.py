"""What products take: whether arguments fit together, and the shape of their result."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from schedgen.kernels import checks, layouts
from schedgen.kernels.errors import ArgumentValueError, GradientError


def refuse_gradients(*tensors: Tensor | None) -> None:
    """Raises GradientError if gradients of one of ``tensors`` are asked for."""
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        raise GradientError(
            "out= and gradients do not go together, as in torch; fix: torch.no_grad(), or leave "
            "out= away"
        )


def check_epilogue(
    b: Tensor, c: Tensor | None, alpha: float, bias: Tensor | None, activation: str | None
) -> None:
    """Whether there is a kernel for what is done with a product; arguments as of `gemm`.

    Raises ArgumentValueError.
    """
    if activation not in (None, "gelu"):
        raise ArgumentValueError(
            "activation", f"it is {activation!r}", "'gelu', None", "apply it to the result"
        )
    if c is not None:
        got, fix = "there is a bias or an activation, too", "add c to the result, or bias to c"
        raise ArgumentValueError("c", got, "None beside them", fix)
    if activation is not None and alpha != 1:
        got, fix = f"it is {alpha} with an activation", "multiply an operand by it"
        raise ArgumentValueError("alpha", got, "1 beside an activation", fix)
    if bias is not None and bias.shape != b.shape[-1:]:
        got = f"its shape is {tuple(bias.shape)}"
        allowed = f"{tuple(b.shape[-1:])}, a number for each column of b"
        raise ArgumentValueError("bias", got, allowed, "pass other addends as c")


def check_factors(
    scale_a: Tensor | None, scale_b: Tensor | None, **others: object
) -> tuple[Tensor, Tensor]:
    """Factors of both operands of `gemm`; ``others``: arguments that do not go with them.

    Raises ArgumentValueError.
    """
    if scale_a is None or scale_b is None:
        missing, there = ("scale_a", "scale_b") if scale_a is None else ("scale_b", "scale_a")
        got, fix = (
            f"it is None, and {there} is not",
            "pass torch.ones((), device=...) for no factor",
        )
        raise ArgumentValueError(missing, got, "factors of both operands, or of none", fix)
    for name, value in others.items():
        if value is not None:
            got, fix = "there are scale_a and scale_b, too", "apply it to the result"
            raise ArgumentValueError(name, got, "None beside factors of operands", fix)
    return scale_a, scale_b


def result_shape(
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: float,
    beta: float,
    symmetric: bool,
    *,
    b_name: str = "b",
) -> torch.Size:
    """Shape of the result, if the arguments, as of `gemm`, fit together; ``b_name`` is what the
    caller calls ``b``.

    Raises ArgumentValueError, ArgumentTypeError.
    """
    checks.dtypes(**{"a": a, b_name: b, "c": c})
    checks.number("alpha", alpha)
    checks.number("beta", beta)
    for name, tensor, shape in (("a", a, "(..., m, k)"), (b_name, b, "(..., k, n)")):
        if tensor.dim() < 2:
            raise ArgumentValueError(
                name, f"it has {tensor.dim()} dimensions", shape, f"{name}.unsqueeze(...)"
            )
    (m, k), (k_b, n) = a.shape[-2:], b.shape[-2:]
    if k_b != k:
        got, fix = f"its shape is {tuple(b.shape)}", "transpose an operand with .mT"
        raise ArgumentValueError(b_name, got, f"(..., {k}, n), as a is {tuple(a.shape)}", fix)
    if symmetric and m != n:
        got, fix = f"its shape is {tuple(b.shape)}", "use gemm for a result that is not square"
        raise ArgumentValueError(b_name, got, f"(..., {k}, {m}), for a square result", fix)
    outer = _broadcast(a.shape[:-2], b.shape[:-2])
    if outer is None:
        got, fix = f"its shape is {tuple(b.shape)}", "make the batch dimensions the same"
        allowed = f"batch dimensions that broadcast with {tuple(a.shape[:-2])}"
        raise ArgumentValueError(b_name, got, allowed, fix)
    shape = torch.Size((*outer, m, n))
    check_addend("c", c, shape)
    return shape


def _broadcast(*shapes: torch.Size) -> torch.Size | None:
    """The shape that all of ``shapes`` broadcast to, if there is one."""
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    try:
        return cast("torch.Size", torch.broadcast_shapes(*shapes))
    except RuntimeError:
        return None


def check_addend(name: str, c: Tensor | None, shape: torch.Size) -> None:
    """Raises ArgumentValueError unless ``c`` broadcasts to ``shape``."""
    if c is not None and _broadcast(c.shape, shape) != shape:
        got, allowed = f"its shape is {tuple(c.shape)}", f"what broadcasts to {tuple(shape)}"
        raise ArgumentValueError(name, got, allowed, f"reshape {name}")


def check_out(out: Tensor, shape: torch.Size, dtype: torch.dtype) -> None:
    """Raises ArgumentValueError or ArgumentTypeError unless ``out`` has ``shape`` and ``dtype``."""
    checks.dtypes(out=out)
    if out.dtype != dtype or out.shape != shape:
        got = f"it is {tuple(out.shape)} of {out.dtype}"
        raise ArgumentValueError("out", got, f"{tuple(shape)} of {dtype}", "pass another out")


def _span(tensor: Tensor) -> tuple[int, int]:
    """Addresses from the first to behind the last element."""
    start = tensor.data_ptr()
    return start, start + layouts.span(tensor) * tensor.element_size()


def check_overlap(out: Tensor, a: Tensor, b: Tensor, c: Tensor | None) -> None:
    """The kernel reads ``a`` and ``b`` while it writes, and of ``c`` what it has not yet written
    only if both are the same. Raises ArgumentValueError.
    """
    if c is not None and layouts.same(c, out):
        c = None
    check_apart(out, "memory apart from a and b, or c itself", a=a, b=b, c=c)


def check_apart(out: Tensor, allowed: str = "memory of its own", **others: Tensor | None) -> None:
    """``out`` shares no memory with ``others``. Raises ArgumentValueError."""
    start, end = _span(out)
    for name, tensor in others.items():
        if tensor is not None and tensor.numel():
            first, last = _span(tensor)
            if first < end and start < last:
                raise ArgumentValueError("out", f"it overlaps {name}", allowed, "pass another out")

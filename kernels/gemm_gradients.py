"""Gradients of products: each is a product again, of the same kernels.

What an epilogue did to a product is computed again from that product, which nobody kept: one more
product for each, rounded to the operands' type as those before an activation are in torch. Sums
over what was broadcast are float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from schedgen.kernels import dropout_op, gated_op, gathered_op, gemm_op, grouped_op, rms_op

Gradients = Callable[..., tuple[Tensor | None, ...]]


def _summed(gradient: Tensor, like: Tensor) -> Tensor:
    """The sum over what ``like`` was broadcast along, in its data type."""
    if gradient.shape != like.shape:
        gradient = gradient.float().sum_to_size(like.shape)
    return gradient.to(like.dtype)


def _of_operands(
    needed: tuple[bool, bool], gradient: Tensor, a: Tensor, b: Tensor, alpha: float = 1.0
) -> tuple[Tensor | None, Tensor | None]:
    """Of a and b in alpha * a @ b, from the gradient of that."""
    of_a = of_b = None
    if needed[0]:
        of_a = _summed(gemm_op.gemm(gradient, b.mT, alpha=alpha), a)
    if needed[1] and b.dim() == 2:  # all batches are rows of one matrix
        rows, columns = a.reshape(-1, a.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
        of_b = gemm_op.gemm(rows.mT, columns, alpha=alpha)
    elif needed[1]:
        of_b = _summed(gemm_op.gemm(a.mT, gradient, alpha=alpha), b)
    return of_a, of_b


# -- alpha a b + beta c ---------------------------------------------------------------------------


def _save_product(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    del output
    a, b, c, ctx.alpha, ctx.beta = inputs
    ctx.save_for_backward(a, b, c)


def _of_product(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    a, b, c = ctx.saved_tensors
    needed = ctx.needs_input_grad
    of_a, of_b = _of_operands(needed[:2], gradient, a, b, ctx.alpha)
    of_c = _summed(ctx.beta * gradient, c) if needed[2] else None
    return of_a, of_b, of_c, None, None


# -- gelu(a b + bias) -----------------------------------------------------------------------------


def _save_all(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    del output
    ctx.save_for_backward(*inputs)


def _of_activated(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    a, b, bias = ctx.saved_tensors
    needed = ctx.needs_input_grad
    before = gemm_op.gemm(a, b, bias).float()
    inside = (gradient.float() * _slope("gelu", before)).to(gradient.dtype)
    of_bias = _summed(inside, bias) if needed[2] else None
    return *_of_operands(needed[:2], inside, a, b), of_bias


def _activation(name: str, x: Tensor) -> Tensor:
    return functional.silu(x) if name == "silu" else functional.gelu(x, approximate="tanh")


def _slope(name: str, x: Tensor) -> Tensor:
    """The derivative of an activation."""
    if name == "silu":
        part = torch.sigmoid(x)
        return part * (1 + x * (1 - part))
    inner = (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)
    tanh = torch.tanh(inner)
    slope = (2 / torch.pi) ** 0.5 * (1 + 3 * 0.044715 * x * x)
    return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * slope


# -- factors of rows, gates, normalization --------------------------------------------------------


def _of_scaled(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    a, b, row_scale = ctx.saved_tensors
    needed = ctx.needs_input_grad
    inside = (row_scale[..., None] * gradient).to(gradient.dtype)
    of_scale = None
    if needed[2]:
        of_scale = (gradient.float() * gemm_op.gemm(a, b)).sum(-1)
    return *_of_operands(needed[:2], inside, a, b), of_scale


def _of_gated(gate: str) -> Gradients:
    def gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        a, b_gate, b_up, row_scale = ctx.saved_tensors
        needed, outside = ctx.needs_input_grad, gradient.float()
        raw = [gemm_op.gemm(a, b).float() for b in (b_gate, b_up)]
        factor = 1.0 if row_scale is None else row_scale[..., None]
        of_gate, of_up = factor * raw[0], factor * raw[1]
        inside = (outside * of_up * _slope(gate, of_gate), outside * _activation(gate, of_gate))
        of_scale = None
        if row_scale is not None and needed[3]:
            of_scale = (raw[0] * inside[0] + raw[1] * inside[1]).sum(-1)
        found: list[tuple[Tensor | None, Tensor | None]] = []
        for one, b, mine in zip(inside, (b_gate, b_up), needed[1:3], strict=True):
            through = (factor * one).to(gradient.dtype)
            found.append(_of_operands((needed[0], mine), through, a, b))
        (first, of_b_gate), (second, of_b_up) = found
        of_a = None if first is None or second is None else first + second
        return of_a, of_b_gate, of_b_up, of_scale

    return gradients


def _save_rms(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    a, b, c, ctx.beta, _ = inputs
    ctx.save_for_backward(a, b, c, *output)


def _of_rms(ctx: Any, gradient: Tensor, of_r: Tensor) -> tuple[Tensor | None, ...]:
    """r = (mean of d^2 + eps)^(-1/2), so that dr = -r^3 d / n for each d of a row."""
    a, b, c, d, r = ctx.saved_tensors
    needed = ctx.needs_input_grad
    through = (of_r * r**3 / -d.shape[-1])[..., None] * d
    inside = (gradient + through).to(d.dtype)
    of_c = _summed(ctx.beta * inside, c) if c is not None and needed[2] else None
    return *_of_operands(needed[:2], inside, a, b), of_c, None, None


# -- dropout --------------------------------------------------------------------------------------


def _save_dropped(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    del output
    *tensors, ctx.p, ctx.scale, ctx.low, ctx.high = inputs
    ctx.save_for_backward(*tensors)


def _of_dropped(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    a, b, bias, residual = ctx.saved_tensors
    needed = ctx.needs_input_grad
    of_residual = _summed(gradient, residual) if needed[3] else None
    inside = dropout_op.ELEMENTS(gradient, ctx.p, ctx.scale, ctx.low, ctx.high)
    of_bias = _summed(inside, bias) if needed[2] else None
    return *_of_operands(needed[:2], inside, a, b), of_bias, of_residual, None, None, None, None


def _save_drawn(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    del output
    _, *ctx.drawn = inputs


def _of_elements(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    return dropout_op.ELEMENTS(gradient, *ctx.drawn), None, None, None, None


# -- products of groups ---------------------------------------------------------------------------


def _save_groups(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    del output
    ctx.save_for_backward(*inputs)


def _of_groups(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    """Of groups of rows both kinds of products: a row's gradient is one of its group's matrix, and
    a matrix's adds up along the rows. Of groups along k, a matrix each, rows' gradients of both.
    """
    a, b, offsets = ctx.saved_tensors
    needed = ctx.needs_input_grad
    of_a = of_b = None
    if b.dim() == 2:
        of_a = _of_rows(b, gradient.mT, offsets).mT if needed[0] else None
        of_b = _of_rows(a.mT, gradient, offsets) if needed[1] else None
    else:
        of_a = _of_rows(gradient, b.mT, offsets) if needed[0] else None
        of_b = grouped_op.grouped_gemm(a.mT, gradient, offsets) if needed[1] else None
    return of_a, of_b, None


def _of_rows(a: Tensor, b: Tensor, offsets: Tensor) -> Tensor:
    """Rows of a times the matrices of their groups, and 0 behind the last group: that is what the
    kernel leaves as it is.
    """
    if torch.is_grad_enabled() and len(offsets):  # second gradients do not go through out=
        found = grouped_op.grouped_gemm(a, b, offsets)
        inside = torch.arange(len(a), device=a.device)[:, None] < offsets[-1]
        return torch.where(inside, found, torch.zeros_like(found))
    zeros = a.new_zeros(len(a), b.shape[2])
    return grouped_op.grouped_gemm(a.detach(), b.detach(), offsets, out=zeros)


def _of_gathered(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    """Those of groups of the rows that were taken; what several of these give a row is added up in
    float32.
    """
    a, b, offsets, rows = ctx.saved_tensors
    needed = ctx.needs_input_grad
    there = ((rows >= 0) & (rows < len(a)))[:, None]
    number = torch.where(there[:, 0], rows, torch.zeros_like(rows)).long()
    of_a = of_b = None
    if needed[0]:
        each = _of_rows(gradient, b.mT, offsets)
        each = torch.where(there, each, torch.zeros_like(each)).float()
        of_a = torch.zeros_like(a, dtype=torch.float32)
        of_a = of_a.index_add(0, number, each).to(a.dtype) if len(a) else torch.zeros_like(a)
    if needed[1]:
        taken = a[number] if len(a) else a.new_zeros(len(rows), a.shape[1])
        taken = torch.where(there, taken, torch.zeros_like(taken))
        of_b = grouped_op.grouped_gemm(taken.mT, gradient, offsets)
    return of_a, of_b, None, None


for operator in gemm_op.PRODUCTS:
    operator.differentiate(_save_product, _of_product)
gemm_op.ACTIVATED.differentiate(_save_all, _of_activated)
rms_op.SCALED.differentiate(_save_all, _of_scaled)
rms_op.RMS.differentiate(_save_rms, _of_rms)
dropout_op.PRODUCT.differentiate(_save_dropped, _of_dropped)
dropout_op.ELEMENTS.differentiate(_save_drawn, _of_elements)
grouped_op.GROUPED.differentiate(_save_groups, _of_groups)
gathered_op.GATHERED.differentiate(_save_groups, _of_gathered)
for name, (operator, _) in gated_op.OPERATORS.items():
    operator.differentiate(_save_all, _of_gated(name))

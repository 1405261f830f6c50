"""Attention of 8-bit operands with factors of heads: ``torch.ops.schedgen.scaled_attention``."""

from __future__ import annotations

import math
from typing import Literal, overload

import torch
from torch import Tensor

from schedgen.exchanges import RESULT_COLUMNS
from schedgen.kernels import attention_rows, checks, layouts, library
from schedgen.kernels.attention_arguments import fit
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from schedgen.kernels.launcher import architecture
from schedgen.kernels.operators import Operator

SPEC = "attention_fp8"
HEAD_DIMS = (64, 128)
"""head_dim that there are kernels for, of all operands."""
DTYPES = {torch.float8_e4m3fn: "e4m3"}
"""Data types of operands, with their names in specs."""
ALONG_KEYS = frozenset({"sm_90a"})
"""Architectures whose products of 8 bits read V along the keys (`v_layout` in the spec)."""


@overload
def scaled_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale_q: Tensor,
    scale_k: Tensor,
    scale_v: Tensor,
    *,
    softmax_scale: float | None = None,
    causal: bool = False,
    prepared: bool = False,
    return_lse: Literal[False] = False,
) -> Tensor: ...


@overload
def scaled_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale_q: Tensor,
    scale_k: Tensor,
    scale_v: Tensor,
    *,
    softmax_scale: float | None = None,
    causal: bool = False,
    prepared: bool = False,
    return_lse: Literal[True],
) -> tuple[Tensor, Tensor]: ...


def scaled_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale_q: Tensor,
    scale_k: Tensor,
    scale_v: Tensor,
    *,
    softmax_scale: float | None = None,
    causal: bool = False,
    prepared: bool = False,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(softmax_scale * (scale_q q) (scale_k k)^T) (scale_v v) of 8-bit operands.

    Conventions are those of `attention`. Exponentials are rounded to float8_e4m3fn before they are
    multiplied by v, and sums are float32. There is no backward pass.

    On Hopper products of 8 bits read v along the keys, which change places within each 16: each
    call copies it so, unless that was done before (`attention_values`).

    Args:
        q: (batch, seq_q, heads, head_dim), float8_e4m3fn, head_dim 64 or 128; contiguous in the
            last dimension, address and other strides multiples of 16 bytes.
        k: (batch, seq_k, heads_k, head_dim), where heads is a multiple of heads_k; like q.
        v: of the shape of k.
        scale_q: float32 above 0, of one element or (batch, heads).
        scale_k, scale_v: the same, or (batch, heads_k).
        softmax_scale: above 0; ``1 / sqrt(head_dim)`` if None.
        causal: row i of q sees keys up to ``i + seq_k - seq_q`` (aligned bottom right).
        prepared: v is what `attention_values` returned.
        return_lse: whether to return ``lse`` too.

    Returns:
        ``out``, bfloat16 of the shape of q, contiguous; or ``(out, lse)`` with the natural
        logarithm of the sum of exponentials, (batch, heads, seq_q), float32.

    Raises:
        ArgumentValueError: a ValueError; a shape, layout, device or number that does not fit.
        ArgumentTypeError: a TypeError; a data type that does not fit.
        GradientError: gradients were asked for.
        DeviceError: no kernel for this GPU, or no toolchain.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if softmax_scale is None else softmax_scale
    out, lse = OPERATOR(q, k, v, scale_q, scale_k, scale_v, scale, causal, prepared)
    return (out, lse) if return_lse else out


def attention_values(v: Tensor) -> Tensor:
    """Values as `scaled_attention` reads them with ``prepared``, for v that is used more than once.

    On Hopper a copy, along keys of which each 16 are in the order in which threads have results of
    products (``as_results`` in docs/spec.md), with zeros up to a multiple of 16; else v itself.

    Args:
        v: (batch, seq_k, heads_k, head_dim), float8_e4m3fn.

    Raises:
        ArgumentValueError: a ValueError; v has another rank.
        DeviceError: no kernel for this GPU.
    """
    if v.dim() != 4:
        got, wanted = f"its shape is {tuple(v.shape)}", "(batch, seq_k, heads_k, head_dim)"
        raise ArgumentValueError("v", got, wanted, "pass a tensor of four dimensions")
    return _along_keys(v) if architecture(v.device) in ALONG_KEYS else v


# -- arguments ------------------------------------------------------------------------------------


def _check(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale_q: Tensor,
    scale_k: Tensor,
    scale_v: Tensor,
    scale: float,
    prepared: bool,
) -> None:
    """Raises ArgumentValueError or ArgumentTypeError unless arguments fit together."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dtype not in DTYPES:
            known = ", ".join(map(str, DTYPES))
            fix = "quantize it, or call attention with 16 bits"
            raise ArgumentTypeError(name, f"its dtype is {tensor.dtype}", known, fix)
    turned = prepared and k.dim() == v.dim() == 4 and v.shape == _prepared_shape(k)
    fit(q, k, k if turned else v, scale, {dim: (dim,) for dim in HEAD_DIMS})
    of_q, of_k = (q.shape[0], q.shape[2]), (k.shape[0], k.shape[2])
    every = (("scale_q", scale_q, of_q), ("scale_k", scale_k, of_k), ("scale_v", scale_v, of_k))
    for name, factor, shape in every:
        if factor.dtype is not torch.float32:
            got, fix = f"its dtype is {factor.dtype}", f"{name}.float()"
            raise ArgumentTypeError(name, got, "torch.float32", fix)
        if factor.numel() != 1 and factor.shape != shape:
            got, fix = (
                f"its shape is {tuple(factor.shape)}",
                f"pass a number for each head of {name[-1]}",
            )
            raise ArgumentValueError(name, got, f"{shape}, or one element", fix)


def _of_heads(factor: Tensor, batch: int, heads: int) -> Tensor:
    """Factors (batch, heads) of one element, or of as many heads or fewer, in order."""
    if factor.numel() == 1:
        return factor.reshape(1, 1).expand(batch, heads).contiguous()
    if factor.shape[1] != heads:
        factor = factor[:, :, None].expand(*factor.shape, heads // factor.shape[1])
    found = factor.reshape(batch, heads).contiguous()
    return found.clone() if found.data_ptr() % layouts.ALIGNMENT else found


def _values(v: Tensor, k: Tensor, arch: str, prepared: bool) -> Tensor:
    """v as (batch, heads_k, ...), with keys and head_dim as the kernel's tensor has them."""
    if arch in ALONG_KEYS:
        return _as_prepared(v, k) if prepared else _along_keys(v)
    if v.shape != k.shape:
        got, fix = f"its shape is {tuple(v.shape)}", "prepare it on this GPU"
        raise ArgumentValueError("v", got, f"{tuple(k.shape)}", fix)
    checks.layout("v", v)
    return v.permute(0, 2, 1, 3)


def _along_keys(v: Tensor) -> Tensor:
    """(batch, heads_k, head_dim, seq_v): along keys, those of each 16 in the order of results."""
    batch, seq, heads, dim = v.shape
    found = v.new_empty(_prepared_shape(v))
    more = found.shape[-1] - seq
    to = found.view(torch.uint8).view(batch, heads, dim, -1, 4, 2, 2)
    keys = v.view(torch.uint8)
    if more:
        keys = torch.nn.functional.pad(keys, (0, 0, 0, 0, 0, more))
    keys = keys.reshape(batch, -1, 2, 4, 2, heads, dim)
    to.copy_(keys.permute(0, 5, 6, 1, 3, 2, 4))
    return found


def _prepared_shape(v: Tensor) -> tuple[int, ...]:
    """That of what `attention_values` makes of values, or of those for keys of that shape, where it
    copies them.
    """
    batch, seq, heads, dim = v.shape
    return batch, heads, dim, -(-seq // RESULT_COLUMNS) * RESULT_COLUMNS


def _as_prepared(v: Tensor, k: Tensor) -> Tensor:
    if v.shape != _prepared_shape(k) or not v.is_contiguous():
        got = f"its shape is {tuple(v.shape)}, its strides are {v.stride()}"
        fix = "pass what attention_values returned for this v, or prepared=False"
        raise ArgumentValueError("v", got, f"{_prepared_shape(k)}, contiguous", fix)
    return v


# -- the operator ---------------------------------------------------------------------------------


def _empty(q: Tensor) -> tuple[Tensor, Tensor]:
    return attention_rows.room(q, q.shape[3], torch.bfloat16)


def _fake(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale_q: Tensor,
    scale_k: Tensor,
    scale_v: Tensor,
    scale: float,
    causal: bool,
    prepared: bool,
) -> tuple[Tensor, Tensor]:
    del causal
    _check(q, k, v, scale_q, scale_k, scale_v, scale, prepared)
    return _empty(q)


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale_q: Tensor,
    scale_k: Tensor,
    scale_v: Tensor,
    scale: float,
    causal: bool,
    prepared: bool,
) -> tuple[Tensor, Tensor]:
    _check(q, k, v, scale_q, scale_k, scale_v, scale, prepared)
    device = checks.devices(q=q, k=k, v=v, scale_q=scale_q, scale_k=scale_k, scale_v=scale_v)
    out, lse = _empty(q)

    def launch(q: Tensor, out: Tensor, lse: Tensor) -> None:
        settings = {"head_dim": str(q.shape[3]), "dtype": DTYPES[q.dtype]}
        settings |= {"causal": "true"} if causal else {}
        run = library.launcher(device, SPEC, **settings)
        factors = (_of_heads(f, q.shape[0], q.shape[2]) for f in (scale_q, scale_k, scale_v))
        values = _values(v, k, architecture(device), prepared)
        tensors = (q, k, values, out, lse, *factors)
        run.launch(tensors, (scale * math.log2(math.e),))

    if out.numel():
        if k.shape[1]:
            for name, tensor in (("q", q), ("k", k)):
                checks.layout(name, tensor)
        attention_rows.compute(q, k.shape[1], causal, (out, lse), launch)
    return out, lse


_SCHEMA = (
    "scaled_attention(Tensor q, Tensor k, Tensor v, Tensor scale_q, Tensor scale_k, "
    "Tensor scale_v, float softmax_scale, bool causal, "
    "bool prepared) -> (Tensor out, Tensor lse)"
)
OPERATOR = Operator(_SCHEMA, _forward, _fake)

"""Attention on generated kernels: ``torch.ops.schedgen.attention_fwd`` and its friendly form."""

from __future__ import annotations

import math
from typing import Literal, overload

import torch
from torch import Tensor

from schedgen.kernels import checks, keys, library
from schedgen.kernels.errors import ArgumentValueError
from schedgen.kernels.operators import Operator

HEAD_DIMS = (64, 128)
_ROUND = 4  # elements of lse in 16 bytes, which rows of a bulk copy are multiples of


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    softmax_scale: float | None = None,
    causal: bool = False,
    return_lse: Literal[False] = False,
) -> Tensor: ...


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    softmax_scale: float | None = None,
    causal: bool = False,
    return_lse: Literal[True],
) -> tuple[Tensor, Tensor]: ...


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    softmax_scale: float | None = None,
    causal: bool = False,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(softmax_scale * q k^T) v, with the conventions of flash-attn.

    A row of q that sees no key gives 0, and -inf as its ``lse``: with ``causal``, the first
    ``seq_q - seq_k`` rows; without keys, all. There is no backward pass yet.

    Args:
        q: (batch, seq_q, heads, head_dim), bfloat16 or float16, head_dim 64 or 128; contiguous in
            the last dimension, address and other strides multiples of 16 bytes.
        k: (batch, seq_k, heads_k, head_dim), where heads is a multiple of heads_k; of q's type.
            Query head h uses key head ``h * heads_k // heads``.
        v: like k.
        softmax_scale: above 0; ``1 / sqrt(head_dim)`` if None.
        causal: row i of q sees keys up to ``i + seq_k - seq_q`` (aligned bottom right).
        return_lse: whether to return ``lse`` too.

    Returns:
        ``out`` like q, contiguous; or ``(out, lse)`` with the natural logarithm of the sum of
        exponentials, (batch, heads, seq_q), float32.

    Raises:
        ArgumentValueError: a ValueError; a shape, layout, device or number that does not fit.
        ArgumentTypeError: a TypeError; a data type that does not fit.
        DeviceError: no kernel for this GPU, or no toolchain.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if softmax_scale is None else softmax_scale
    out, lse = _attention_fwd(q, k, v, scale, causal)
    return (out, lse) if return_lse else out


def _check(q: Tensor, k: Tensor, v: Tensor, scale: float) -> None:
    checks.dtypes(q=q, k=k, v=v)
    checks.dimensions("q", q, 4, "(batch, seq_q, heads, head_dim)")
    checks.dimensions("k", k, 4, "(batch, seq_k, heads_k, head_dim)")
    checks.dimensions("v", v, 4, "(batch, seq_k, heads_k, head_dim)")
    checks.number("softmax_scale", scale, positive=True)
    batch, _, heads, head_dim = q.shape
    if head_dim not in HEAD_DIMS:
        more = [d for d in HEAD_DIMS if d > head_dim]
        fix = f"pad with zeros to {more[0]} and pass softmax_scale" if more else "split the heads"
        raise ArgumentValueError("q", f"its head_dim is {head_dim}", "64, 128", fix)
    if v.shape != k.shape:
        raise ArgumentValueError(
            "v", f"its shape is {tuple(v.shape)}", f"{tuple(k.shape)}, that of k", "reshape v"
        )
    for name, at, wanted in (("batch", 0, batch), ("head_dim", 3, head_dim)):
        if k.shape[at] != wanted:
            got = f"its {name} is {k.shape[at]}"
            raise ArgumentValueError("k", got, f"{wanted}, that of q", f"make {name} the same")
    if heads != 0 and (k.shape[2] == 0 or heads % k.shape[2] != 0):
        raise ArgumentValueError(
            "k",
            f"it has {k.shape[2]} heads",
            f"a divisor of {heads}, the heads of q",
            "repeat heads of k and v, or drop some",
        )


def _empty(q: Tensor) -> tuple[Tensor, Tensor]:
    """Room for the output and for lse, whose rows begin at multiples of 16 bytes."""
    batch, seq_q, heads, _ = q.shape
    row = (seq_q + _ROUND - 1) // _ROUND * _ROUND
    strides = (heads * row, row, 1)
    lse = q.new_empty_strided((batch, heads, seq_q), strides, dtype=torch.float32)
    return q.new_empty(q.shape), lse


def _fake(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> tuple[Tensor, Tensor]:
    del causal
    _check(q, k, v, scale)
    return _empty(q)


def _forward(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> tuple[Tensor, Tensor]:
    _check(q, k, v, scale)
    device = checks.devices(q=q, k=k, v=v)
    out, lse = _empty(q)
    seq_q, seq_k = q.shape[1], k.shape[1]
    if not out.numel():
        return out, lse
    # Rows that see no key; the kernel has no meaning for them.
    blind = seq_q if not seq_k else max(0, seq_q - seq_k) if causal else 0
    if seq_k:
        for name, tensor in (("q", q), ("k", k), ("v", v)):
            checks.layout(name, tensor)
        settings = {"head_dim": str(q.shape[3]), "dtype": checks.DTYPES[q.dtype]}
        if causal:
            settings["causal"] = "true"
        settings |= keys.settings(device, q.shape[3], causal, seq_q, seq_k)
        run = library.launcher(device, "attention_fwd", **settings)
        skip = blind - blind % _ROUND  # whole groups of lse that need not be computed
        rows = (q[:, skip:], out[:, skip:], lse[..., skip:]) if skip else (q, out, lse)
        run.launch((rows[0], k, v, rows[1], rows[2]), (scale * math.log2(math.e),))
    if blind:
        out[:, :blind] = 0
        lse[..., :blind] = -math.inf
    return out, lse


_attention_fwd = Operator(
    "attention_fwd(Tensor q, Tensor k, Tensor v, float softmax_scale, bool causal)"
    " -> (Tensor out, Tensor lse)",
    _forward,
    _fake,
)

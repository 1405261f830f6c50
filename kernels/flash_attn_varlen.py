"""Attention over sequences of several lengths that follow each other, called as flash-attn's is."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from schedgen.kernels import checks, keys, layouts
from schedgen.kernels.attention_op import dims
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from schedgen.kernels.flash_attn import require
from schedgen.kernels.of_spec import SpecKernel, kernel
from schedgen.kernels.variants.calling import LOG2_E, target_of

SPEC = "attention_varlen"
_ELSEWHERE = "call flash_attn_func for each length, or attention with a mask of documents"


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    *,
    sinks: Tensor | None = None,
    learnable_sink: Tensor | None = None,
    block_table: Tensor | None = None,
    return_lse: bool = False,
) -> Any:
    """softmax(q k^T softmax_scale) v of each sequence, as FlashAttention-2's function of this name.

    Args:
        q: (total_q, heads, head_dim), the queries of all sequences, as of
            `schedgen.kernels.attention`.
        k: (total_k, heads_k, head_dim); heads is a multiple of heads_k.
        v: (total_k, heads_k, head_dim_v).
        cu_seqlens_q: (batch + 1,), int32: where sequences begin in q, and the last one ends; never
            falling, from 0. Not looked at on the host: what lies outside of q is not touched.
        cu_seqlens_k: the same for k and v.
        max_seqlen_q: as many queries as a sequence has at most; of longer ones the rest is not
            computed.
        max_seqlen_k: not needed.
        softmax_scale: above 0; ``1 / sqrt(head_dim)`` if None.
        causal: aligned bottom right, in each sequence.
        deterministic: accepted: results are the same in every run.
        return_attn_probs: returns ``(out, lse, None)``; ``return_lse``: ``(out, lse)``.
        dropout_p, window_size, softcap, alibi_slopes, sinks, learnable_sink, block_table: not
            supported here, if they ask for something.

    Returns:
        ``out`` (total_q, heads, head_dim_v), or a tuple that begins with it; ``lse`` is
        (heads, total_q), float32. Queries that see no key are 0, and -inf in ``lse``.

    Raises:
        ArgumentValueError, ArgumentTypeError: an argument does not fit, or is not supported.
        DeviceError: no kernel for this GPU, or no toolchain.
    """
    del deterministic, max_seqlen_k
    require("dropout_p", dropout_p, 0.0, "there is no backward pass")
    require("softcap", softcap, 0.0, _ELSEWHERE)
    absent = {"alibi_slopes": alibi_slopes, "sinks": sinks, "learnable_sink": learnable_sink}
    for name, given in (*absent.items(), ("block_table", block_table)):
        require(name, given, None, _ELSEWHERE)
    left, right = (-1 if side is None else side for side in window_size)
    if left >= 0 or right > 0:
        got = f"it is {window_size}"
        raise ArgumentValueError("window_size", got, "(-1, -1) and (-1, 0)", _ELSEWHERE)
    scale = 1 / math.sqrt(q.shape[-1]) if softmax_scale is None else softmax_scale
    _check(q, k, v, cu_seqlens_q, cu_seqlens_k, scale)
    cumulative = {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}
    device = checks.devices(q=q, k=k, v=v, **cumulative)
    out, lse = _computed(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, scale, causal or right == 0, device
    )
    if not (return_attn_probs or return_lse):
        return out
    packed = _packed(lse, cu_seqlens_q, q.shape[0])
    return (out, packed, None) if return_attn_probs else (out, packed)


def _computed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    longest: int,
    scale: float,
    causal: bool,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """The result, and the logarithms of sums, (batch, heads, longest)."""
    batch = cu_seqlens_q.shape[0] - 1
    if not (q.numel() and k.numel() and batch and longest):
        lse = q.new_full((max(batch, 1), q.shape[1], max(longest, 1)), -math.inf, dtype=torch.float)
        return q.new_zeros((*q.shape[:2], v.shape[2])), lse
    settings = dims(q.shape[2], v.shape[2]) | {"dtype": checks.DTYPES[q.dtype]}
    settings |= {"causal": "true"} if causal else {}
    function = _kernel(target_of(keys.architecture(device)), tuple(settings.items()))
    both = (layouts.accessible(one.contiguous()) for one in (cu_seqlens_q, cu_seqlens_k))
    return function(q, k, v, *both, scale=scale * LOG2_E, batch=batch, seq_q=longest)


@lru_cache(maxsize=256)
def _kernel(target: str, settings: tuple[tuple[str, str], ...]) -> SpecKernel:
    given: dict[str, Any] = dict(settings)
    return kernel(SPEC, target=target, **given)


def _packed(lse: Tensor, cu_seqlens: Tensor, total: int) -> Tensor:
    """(heads, total) of (batch, heads, longest), without asking the GPU for lengths."""
    at = torch.arange(total, device=lse.device, dtype=cu_seqlens.dtype)
    sequence = torch.searchsorted(cu_seqlens[1:].contiguous(), at, right=True)
    sequence = sequence.clamp(max=lse.shape[0] - 1)
    inside = (at - cu_seqlens[sequence]).clamp(0, lse.shape[2] - 1)
    return lse[sequence, :, inside].T.contiguous()


def _check(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, scale: float
) -> None:
    checks.dtypes(q=q, k=k, v=v)
    checks.number("softmax_scale", scale, positive=True)
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        checks.dimensions(name, tensor, 3, "(total, heads, head_dim)")
    if v.shape[:2] != k.shape[:2]:
        got, like = f"its shape is {tuple(v.shape)}", f"{(*k.shape[:2], v.shape[2])}, like k"
        raise ArgumentValueError("v", got, like, "reshape v")
    if k.shape[2] != q.shape[2]:
        got = f"its head_dim is {k.shape[2]}"
        raise ArgumentValueError("k", got, f"{q.shape[2]}, that of q", "make head_dim the same")
    if not k.shape[1] or q.shape[1] % k.shape[1]:
        got, allowed = f"it has {k.shape[1]} heads", f"a divisor of {q.shape[1]}, the heads of q"
        raise ArgumentValueError("k", got, allowed, "repeat heads of k and v, or drop some")
    for name, tensor in (("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_k", cu_seqlens_k)):
        if tensor.dtype != torch.int32:
            got, fix = f"its dtype is {tensor.dtype}", f"{name}.int()"
            raise ArgumentTypeError(name, got, "torch.int32", fix)
        if tensor.dim() != 1 or not tensor.numel():
            got, fix = f"its shape is {tuple(tensor.shape)}", "begin with 0, end with the total"
            raise ArgumentValueError(name, got, "(batch + 1,)", fix)
    if len(cu_seqlens_q) != len(cu_seqlens_k):
        got, allowed = f"it has {len(cu_seqlens_k)} numbers", f"{len(cu_seqlens_q)}"
        raise ArgumentValueError("cu_seqlens_k", got, allowed, "give one for each sequence")

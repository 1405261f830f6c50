"""Attention over sequences of several lengths that follow each other, called as flash-attn's is."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from schedgen.kernels import attention_varlen_kvcache as over_pages
from schedgen.kernels import checks, keys, layouts
from schedgen.kernels.attention_arguments import dims
from schedgen.kernels.attention_varlen import OPERATOR, SPEC, check, room
from schedgen.kernels.errors import ArgumentValueError
from schedgen.kernels.flash_attn import one_of, require, variant_arguments
from schedgen.kernels.flash_attn_kvcache import sides_of
from schedgen.kernels.variants import calling, gradients, planned

_OPERANDS, _STARTS = ("q", "k", "v"), ("cu_seqlens_q", "cu_seqlens_k")


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor | None = None,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
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
    page_table: Tensor | None = None,
    seqused_k: Tensor | None = None,
    return_lse: bool = False,
) -> Any:
    """softmax(q k^T softmax_scale) v of each sequence, as FlashAttention-2's function of this name.

    There are gradients of q, k, v and sinks (docs/backward.md), with the same bits in each run;
    they are 0 for what belongs to no sequence. With ``block_table`` there are none: keys and values
    are in the pages of caches then, as `schedgen.kernels.flash_attn_with_kvcache` has them.

    Args:
        q: (total_q, heads, head_dim), the queries of all sequences, as of
            `schedgen.kernels.attention`.
        k: (total_k, heads_k, head_dim), or with block_table (num_pages, page_size, heads_k,
            head_dim) with a page_size that is a multiple of 16; heads is a multiple of heads_k.
        v: (total_k, heads_k, head_dim_v), or pages.
        cu_seqlens_q: (batch + 1,), int32: where sequences begin in q, and the last one ends; never
            falling, from 0. Not looked at on the host: what lies outside of q is not touched.
        cu_seqlens_k: the same for k and v; None with seqused_k.
        block_table: (batch, most_pages), int32, the pages of each sequence in order, of which those
            are looked up that lengths need; ``page_table`` is another name of it.
        seqused_k: with block_table: (batch,), int32: keys of each sequence, instead of what
            cu_seqlens_k says.
        max_seqlen_q: as many queries as a sequence has at most; of longer ones the rest is not
            computed.
        max_seqlen_k: not needed.
        softmax_scale: above 0; ``1 / sqrt(head_dim)`` if None.
        causal: aligned bottom right, in each sequence.
        window_size, softcap: as of `schedgen.kernels.flash_attn_func`, in each sequence.
        alibi_slopes: (heads,) or (batch, heads).
        sinks, learnable_sink: (heads,), two names of one argument; ``lse`` has it, too.
        deterministic: accepted: results are the same in every run.
        return_attn_probs: returns ``(out, lse, None)``; ``return_lse``: ``(out, lse)``.
        dropout_p: not supported, if it asks for something.

    Returns:
        ``out`` (total_q, heads, head_dim_v), or a tuple that begins with it; ``lse`` is
        (heads, total_q), float32. Queries that see no key are 0, and -inf in ``lse``, or the sink.

    Raises:
        ArgumentValueError, ArgumentTypeError: an argument does not fit, or is not supported.
        DeviceError: no kernel for this GPU, or no toolchain.
    """
    del deterministic, max_seqlen_k
    require("dropout_p", dropout_p, 0.0, "there is no dropout")
    if max_seqlen_q is None:
        allowed, fix = "as many queries as a sequence has at most", "pass it"
        raise ArgumentValueError("max_seqlen_q", "it is None", allowed, fix)
    table = one_of("block_table", block_table, "page_table", page_table)
    sink = one_of("sinks", sinks, "learnable_sink", learnable_sink)
    scale = 1 / math.sqrt(q.shape[-1]) if softmax_scale is None else softmax_scale
    if table is not None:
        lengths = _lengths(cu_seqlens_k, seqused_k)
        aligned, left, right = sides_of(window_size, causal, max_seqlen_q)
        window = None if left is None or right is None else (left, right)
        numbers = over_pages.Asked(scale, float(softcap), aligned, window)
        given = (cu_seqlens_q, lengths, table, max_seqlen_q, numbers, alibi_slopes, sink)
        return _returned(
            *over_pages.attend((q, k, v), *given), cu_seqlens_q, return_attn_probs, return_lse
        )
    require("seqused_k", seqused_k, None, "pass cu_seqlens_k, or a block_table")
    if cu_seqlens_k is None:
        allowed, fix = "where sequences begin in k", "pass it, or a block_table with seqused_k"
        raise ArgumentValueError("cu_seqlens_k", "it is None", allowed, fix)
    starts = (cu_seqlens_q, cu_seqlens_k)
    check(q, k, v, *starts)
    batch = len(cu_seqlens_q) - 1
    each = q.expand(batch, *q.shape)
    asked = variant_arguments(each, causal, window_size, softcap, alibi_slopes)
    mask, score = asked.pop("mask", None), asked.pop("score", None)
    aligned = asked.pop("causal", False)
    if sink is not None and sink.shape != (q.shape[1],):
        got = f"its shape is {tuple(sink.shape)}"
        raise ArgumentValueError("sinks", got, f"({q.shape[1]},)", "pass one for each head")
    wanted = calling.asked(mask, score, aligned, sink, asked, SPEC)
    if wanted.plain:
        out, lse = OPERATOR(q, k, v, *starts, max_seqlen_q, scale, aligned)
    else:
        out, lse = _variant((q, k, v), starts, max_seqlen_q, scale, wanted, sink, asked)
    return _returned(out, lse, cu_seqlens_q, return_attn_probs, return_lse)


def _lengths(cu_seqlens_k: Tensor | None, seqused_k: Tensor | None) -> Tensor:
    """Keys of each sequence."""
    if seqused_k is not None:
        return seqused_k
    if cu_seqlens_k is None:
        fix = "pass it, or cu_seqlens_k"
        raise ArgumentValueError("seqused_k", "it is None", "the keys of each sequence", fix)
    return cu_seqlens_k[1:] - cu_seqlens_k[:-1]


def _returned(out: Tensor, lse: Tensor, starts: Tensor, probabilities: bool, sums: bool) -> Any:
    """What the caller asked for."""
    if not (probabilities or sums):
        return out
    packed = _packed(lse, starts, out.shape[0])
    return (out, packed, None) if probabilities else (out, packed)


def _variant(
    operands: tuple[Tensor, Tensor, Tensor],
    starts: tuple[Tensor, Tensor],
    longest: int,
    scale: float,
    wanted: calling.Asked,
    sinks: Tensor | None,
    given: calling.Given,
) -> tuple[Tensor, Tensor]:
    """The result, and the logarithms of sums, (batch, heads, longest)."""
    checks.number("softmax_scale", scale, positive=True)
    named: dict[str, Any] = dict(zip((*_OPERANDS, *_STARTS), (*operands, *starts), strict=True))
    named |= {"longest": longest, "scale": scale} | planned.of_caller(sinks, given)

    def compute() -> tuple[Tensor, Tensor]:
        out, lse = planned.call(_FUNCTION, wanted, named)
        return out, lse

    if not gradients.are_asked(named.values()):
        return compute()
    return gradients.attend(compute, operands, wanted, scale, sinks, given, starts)


def _compute(wanted: calling.Asked, named: planned.Named) -> tuple[Tensor, Tensor]:
    q, k, v, longest, scale = (named[name] for name in (*_OPERANDS, "longest", "scale"))
    starts = {name: named[name] for name in _STARTS}
    sinks, given = planned.from_caller(named)
    device = checks.devices(q=q, k=k, v=v, **starts, sinks=sinks, **calling.tensors(given))
    batch = len(starts["cu_seqlens_q"]) - 1
    if not (q.numel() and k.numel() and batch and longest):
        out, lse = _room(named)
        return out.zero_(), lse.fill_(-math.inf) if sinks is None else lse.copy_(sinks[:, None])
    settings = dims(q.shape[2], v.shape[2]) | {"dtype": checks.DTYPES[q.dtype]}
    target = calling.target_of(keys.architecture(device))
    function = calling.kernel_of(wanted, target, tuple(settings.items()))
    sizes = {"head": q.shape[1], "batch": batch}
    passed = calling.expressed(wanted, sizes, q, scale, sinks, given)
    passed |= {"batch": batch} if "batch" in function.free else {}
    both = {name: layouts.accessible(one.contiguous()) for name, one in starts.items()}
    return function(q=q, k=k, v=v, **both, **passed, seq_q=longest)


def _room(named: planned.Named) -> tuple[Tensor, Tensor]:
    return room(named["q"], named["v"], named["cu_seqlens_q"], named["longest"])


_FUNCTION = planned.Function("attention_varlen_variant", _compute, _room)


def _packed(lse: Tensor, cu_seqlens: Tensor, total: int) -> Tensor:
    """(heads, total) of (batch, heads, longest), without asking the GPU for lengths."""
    at = torch.arange(total, device=lse.device, dtype=cu_seqlens.dtype)
    sequence = torch.searchsorted(cu_seqlens[1:].contiguous(), at, right=True)
    sequence = sequence.clamp(max=lse.shape[0] - 1)
    inside = (at - cu_seqlens[sequence]).clamp(0, lse.shape[2] - 1)
    return lse[sequence, :, inside].T.contiguous()

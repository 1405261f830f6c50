"""Attention over caches of keys and values, called as flash-attn's is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from schedgen.kernels import checks, keys, kv_cache, kv_cache_checks
from schedgen.kernels.attention_arguments import dims
from schedgen.kernels.attention_decode_kvcache import attention_decode_kvcache, is_for
from schedgen.kernels.errors import ArgumentValueError
from schedgen.kernels.flash_attn import NO_END, one_of, require, sides
from schedgen.kernels.kv_cache_kernels import kernel_of
from schedgen.kernels.variants.calling import LOG2_E, target_of

SPEC = "attention_kvcache"
Window = tuple[int | None, int | None]


def flash_attn_with_kvcache(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k: Tensor | None = None,
    v: Tensor | None = None,
    rotary_cos: Tensor | None = None,
    rotary_sin: Tensor | None = None,
    cache_seqlens: int | Tensor | None = None,
    cache_batch_idx: Tensor | None = None,
    cache_leftpad: Tensor | None = None,
    block_table: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Tensor | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
    *,
    sinks: Tensor | None = None,
    learnable_sink: Tensor | None = None,
    page_table: Tensor | None = None,
) -> Any:
    """softmax(q k^T softmax_scale) v over caches, as FlashAttention-2's function of this name.

    ``k`` and ``v`` are written into the caches behind what these have, in place, and count. Nothing
    is copied to the host, so CUDA graphs can capture it once its kernel has been made.

    Args:
        q: (batch, seq_q, heads, head_dim), as of `schedgen.kernels.attention`.
        k_cache: (batch_cache, room, heads_k, head_dim), or with ``block_table`` (num_pages,
            page_size, heads_k, head_dim) with a page_size that is a multiple of 16. The last
            dimension is contiguous, strides are multiples of 16 bytes, and the stride of batches or
            pages is a multiple of that of keys.
        v_cache: like k_cache, with the head_dim of v.
        k, v: (batch, seq_new, heads_k, head_dim), both or none; tokens that find no room in the
            caches are left out.
        cache_seqlens: keys of each batch before ``k``, a number or (batch,), int32; None: the
            caches are full. What caches have behind them is never part of a result. Not looked at
            on the host: what is more than there is room for counts as that.
        cache_batch_idx: (batch,), int32, which batch of contiguous caches is meant.
        block_table: (batch, most_pages), int32, the pages of each batch in order; ``page_table`` is
            FlashAttention-3's name. Only pages that lengths need are looked up; keys and values of
            one that is not there are 0.
        softmax_scale: above 0; ``1 / sqrt(head_dim)`` if None.
        causal: row i of q sees keys up to ``i + seq_k - seq_q`` with the length seq_k of its batch,
            new tokens included (aligned bottom right).
        window_size, softcap, alibi_slopes, sinks, learnable_sink: as of
            `schedgen.kernels.flash_attn_func`.
        num_splits: 1: one CTA takes all keys of a head, whatever the number of queries; 0: of few
            queries it does so where heads of keys fill the GPU and the caches have room for 16384
            keys or less; any other number: keys of few queries are split over CTAs, which is
            faster where one sequence is much longer than others. Results are the same bits with 0
            and with other numbers, and on Hopper with 1, where head_dim is 64, 96 or 128.
        return_softmax_lse: returns ``(out, lse)``.
        rotary_cos, rotary_sin, rotary_interleaved, cache_leftpad: not supported, if they are given.

    Returns:
        ``out`` (batch, seq_q, heads, head_dim_v), or a tuple that begins with it; ``lse`` is
        (batch, heads, seq_q), float32. Rows that see no key are 0, and -inf in ``lse``.

    Raises:
        ArgumentValueError, ArgumentTypeError: an argument does not fit, or is not supported.
        DeviceError: no kernel for this GPU, or no toolchain.
    """
    del rotary_interleaved
    absent = {"rotary_cos": rotary_cos, "rotary_sin": rotary_sin}
    for name, given in absent.items():
        require(name, given, None, "rotate q and k before the call")
    require("cache_leftpad", cache_leftpad, None, "begin each batch of the caches at 0")
    table = one_of("block_table", block_table, "page_table", page_table)
    sink = one_of("sinks", sinks, "learnable_sink", learnable_sink)
    scale = 1 / math.sqrt(q.shape[-1]) if softmax_scale is None else softmax_scale
    asked = _Asked(
        scale, bool(softcap), *sides_of(window_size, causal, q.shape[1]), float(softcap),
        num_splits=num_splits,
    )  # fmt: skip
    if (
        isinstance(cache_seqlens, Tensor) and cache_seqlens.is_cuda and asked.plain
        and k is None and v is None and cache_batch_idx is None
        and alibi_slopes is None and sink is None
        and is_for(q, k_cache, v_cache, table, whole=asked.num_splits == 1)
    ):  # fmt: skip
        out, lse = attention_decode_kvcache(
            q, k_cache, v_cache, cache_seqlens, table,
            softmax_scale=scale, causal=asked.causal, num_splits=num_splits,
        )  # fmt: skip
        return (out, lse) if return_softmax_lse else out
    checks.number("softmax_scale", scale, positive=True)
    if asked.capped:
        checks.number("softcap", asked.softcap, positive=True)
    kv_cache_checks.operands(q, k_cache, v_cache, k, v)
    kv_cache_checks.integers(q, k_cache, cache_seqlens, cache_batch_idx, table)
    kv_cache_checks.vectors(q, alibi_slopes, sink)
    checks.devices(
        q=q, k_cache=k_cache, v_cache=v_cache, k=k, v=v, block_table=table, sinks=sink,
        cache_seqlens=cache_seqlens if isinstance(cache_seqlens, Tensor) else None,
        cache_batch_idx=cache_batch_idx, alibi_slopes=alibi_slopes,
    )  # fmt: skip
    lengths = _lengths(q, k_cache, cache_seqlens, table, new=k is not None)
    caches, before, written = (k_cache, v_cache), lengths, table
    if cache_batch_idx is not None:
        k_cache, v_cache, table = _picked(k_cache, v_cache, cache_batch_idx)
    for name, cache in (("k_cache", k_cache), ("v_cache", v_cache)):
        kv_cache_checks.layout(name, cache)
    if k is not None and v is not None:  # everything fits
        for cache, new in zip(caches, (k, v), strict=True):
            kv_cache.append(cache, new, before, written, cache_batch_idx)
        lengths = before + k.shape[1]
    out, lse = _computed(q, k_cache, v_cache, lengths, table, asked, alibi_slopes, sink)
    return (out, lse) if return_softmax_lse else out


@dataclass(frozen=True)
class _Asked:
    """Numbers of a call, and what its kernel is for. ``left`` and ``right`` are None if there is no
    window, and ``causal`` says that there is no other one.
    """

    scale: float
    capped: bool
    causal: bool
    left: int | None
    right: int | None
    softcap: float
    num_splits: int

    @property
    def plain(self) -> bool:
        """Whether nothing but a causal mask is asked for, so that keys may be in splits."""
        return self.left is None and not self.capped


def sides_of(window_size: Window, causal: bool, seq_q: int) -> tuple[bool, int | None, int | None]:
    """Whether it is a causal mask and no window, and both sides of a window, None if there is none;
    ``seq_q``: queries of a sequence at most.
    """
    left, right = sides(window_size)
    right = 0 if causal else right
    if left is None and right in (None, 0):
        return right == 0 and seq_q != 1, None, None  # a single row sees all in any case
    return (
        False,
        NO_END if left is None else min(left, NO_END),
        NO_END if right is None else min(right, NO_END),
    )


# -- the kernel ------------------------------------------------------------------------------------


def _lengths(
    q: Tensor, cache: Tensor, given: int | Tensor | None, table: Tensor | None, *, new: bool
) -> Tensor:
    """Keys of each batch, (batch,), int32."""
    if isinstance(given, Tensor):
        return given.contiguous()
    if given is None and new:
        fix = "say where new keys and values go"
        raise ArgumentValueError("cache_seqlens", "it is None", "a number or a tensor with k", fix)
    full = cache.shape[1] * (1 if table is None else table.shape[1])
    return q.new_full((q.shape[0],), full if given is None else given, dtype=torch.int32)


def _picked(k: Tensor, v: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Contiguous caches as pages, of which a table picks batches."""
    pages = [kv_cache.as_pages(cache, numbers) for cache in (k, v)]
    if pages[0] is None or pages[1] is None or pages[0][0].shape[:2] != pages[1][0].shape[:2]:
        strides = " and ".join(str(tuple(cache.stride()[:2])) for cache in (k, v))
        got = (
            f"the caches have room for {k.shape[1]} keys of each batch, and strides that begin "
            f"with {strides}"
        )
        allowed = (
            "with it, room for a multiple of 16 keys, and batches as many apart in both caches"
        )
        fix = "make caches longer, or pass a block_table"
        raise ArgumentValueError("cache_batch_idx", got, allowed, fix)
    return pages[0][0], pages[1][0], pages[0][1]


def _computed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lengths: Tensor,
    table: Tensor | None,
    asked: _Asked,
    slopes: Tensor | None,
    sinks: Tensor | None,
) -> tuple[Tensor, Tensor]:
    if not (q.numel() and k.numel() and (table is None or table.numel())):
        lse = q.new_full((q.shape[0], q.shape[2], q.shape[1]), -math.inf, dtype=torch.float)
        lse = lse if sinks is None else lse.copy_(sinks[:, None])
        return q.new_zeros((*q.shape[:3], v.shape[3])), lse
    checks.layout("q", q)
    windowed = asked.left is not None
    plain = asked.plain and slopes is None and sinks is None
    if plain and is_for(q, k, v, table, whole=asked.num_splits == 1):
        return attention_decode_kvcache(
            q, k, v, lengths, table,
            softmax_scale=asked.scale, causal=asked.causal, num_splits=asked.num_splits,
        )  # fmt: skip
    settings = dims(q.shape[3], v.shape[3]) | {"dtype": checks.DTYPES[q.dtype]}
    flags = {"causal": asked.causal, "window": windowed, "soft_cap": asked.capped}
    flags |= {"alibi": slopes is not None, "sinks": sinks is not None}
    settings |= {name: "true" for name, value in flags.items() if value}
    given: dict[str, Tensor | float] = {"q": q, "cache_seqlens": lengths}
    if table is None:
        given |= {"k": k, "v": v}
    else:
        settings["page_size"] = str(k.shape[1])
        given |= {"k_pages": k, "v_pages": v, "block_table": table}
    if slopes is not None:
        each = slopes.float() if asked.capped else slopes.float() / asked.scale
        given["slope"] = each.expand(q.shape[0], q.shape[2])
    if sinks is not None:
        given["sink"] = sinks.float() * LOG2_E
    given["scale"] = LOG2_E if asked.capped else asked.scale * LOG2_E
    given |= {"window_left": asked.left or 0, "window_right": asked.right or 0}
    if asked.capped:
        given |= {"softcap": asked.softcap, "inverse_softcap": asked.scale / asked.softcap}
    function = kernel_of(SPEC, target_of(keys.architecture(q.device)), tuple(settings.items()))
    numbers = {n: float(x) for n, x in given.items() if not isinstance(x, Tensor)}
    return function(**(given | numbers))

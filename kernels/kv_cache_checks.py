"""Checks of what `flash_attn_with_kvcache` is given, also for tensors without data."""

from __future__ import annotations

import torch
from torch import Tensor

from schedgen.kernels import checks
from schedgen.kernels.attention_arguments import HEAD_DIMS
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError

ROWS = 16
"""What the keys of a page are a multiple of."""


def operands(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k: Tensor | None,
    v: Tensor | None,
    names: tuple[str, str] = ("k_cache", "v_cache"),
) -> None:
    """Shapes and data types of queries, keys and values; ``names`` of the caches."""
    of_k, of_v_cache = names
    checks.dtypes(**{"q": q, of_k: k_cache, of_v_cache: v_cache})
    checks.dtypes(q=q, k=k, v=v)
    checks.dimensions("q", q, 4, "(batch, seq_q, heads, head_dim)")
    for name, tensor in zip(names, (k_cache, v_cache), strict=True):
        checks.dimensions(name, tensor, 4, "(batch or pages, keys, heads_k, head_dim)")
    head_dim, of_v = int(q.shape[3]), int(v_cache.shape[3])
    if head_dim not in HEAD_DIMS or of_v not in HEAD_DIMS[head_dim]:
        got = f"its head_dim is {head_dim}, that of {of_v_cache} {of_v}"
        allowed = ", ".join(f"{d} and {e}" for d, all_ in HEAD_DIMS.items() for e in all_)
        raise ArgumentValueError("q", got, allowed, "pad with zeros and pass softmax_scale")
    if k_cache.shape[3] != q.shape[3]:
        got = f"its head_dim is {k_cache.shape[3]}"
        raise ArgumentValueError(of_k, got, f"{q.shape[3]}, that of q", "make it the same")
    _same(of_v_cache, v_cache, (*k_cache.shape[:3], v_cache.shape[3]), of_k)
    heads, heads_k = q.shape[2], k_cache.shape[2]
    if not heads_k or heads % heads_k:
        got, allowed = f"it has {heads_k} heads", f"a divisor of {heads}, the heads of q"
        raise ArgumentValueError(of_k, got, allowed, "repeat heads of the caches")
    if (k is None) != (v is None):
        name = "k" if k is None else "v"
        raise ArgumentValueError(name, "it is None", "both k and v, or none", f"pass {name}")
    if k is not None and v is not None:
        tokens = k.shape[1] if k.dim() == 4 else 1
        _same("k", k, (q.shape[0], tokens, *k_cache.shape[2:]), "k_cache")
        _same("v", v, (q.shape[0], tokens, *v_cache.shape[2:]), "v_cache")


def _same(name: str, tensor: Tensor, shape: tuple[int, ...], like: str) -> None:
    if tuple(tensor.shape) != shape:
        got = f"its shape is {tuple(tensor.shape)}"
        raise ArgumentValueError(name, got, f"{shape}, like {like}", f"reshape {name}")


def integers(
    q: Tensor,
    k_cache: Tensor,
    lengths: int | Tensor | None,
    numbers: Tensor | None,
    table: Tensor | None,
) -> None:
    """Lengths, batches of the caches and pages."""
    batch = q.shape[0]
    if isinstance(lengths, Tensor):
        _int32("cache_seqlens", lengths, (batch,))
    if numbers is not None:
        _int32("cache_batch_idx", numbers, (batch,))
        if table is not None:
            fix = "say in the table which pages are meant"
            raise ArgumentValueError("cache_batch_idx", "block_table is given, too", "None", fix)
    elif table is None and k_cache.shape[0] != batch:
        got = f"its batch is {k_cache.shape[0]}"
        raise ArgumentValueError("k_cache", got, f"{batch}, that of q", "pass cache_batch_idx")
    if table is None:
        return
    checks.dimensions("block_table", table, 2, "(batch, most_pages)")
    _int32("block_table", table, (batch, table.shape[1]))
    pages("k_cache", k_cache)


def pages(name: str, cache: Tensor) -> None:
    """Keys of a page."""
    size = int(cache.shape[1])
    if size < ROWS or size % ROWS:
        got, fix = f"its page_size is {size}", "make pages of another size"
        raise ArgumentValueError(name, got, f"multiples of {ROWS}", fix)


def vectors(q: Tensor, slopes: Tensor | None, sinks: Tensor | None) -> None:
    """Numbers of heads."""
    batch, heads = q.shape[0], q.shape[2]
    if slopes is not None and tuple(slopes.shape) not in ((heads,), (batch, heads)):
        got = f"its shape is {tuple(slopes.shape)}"
        allowed, fix = f"({heads},) or (batch, heads)", "pass one for each head"
        raise ArgumentValueError("alibi_slopes", got, allowed, fix)
    if sinks is not None and tuple(sinks.shape) != (heads,):
        got = f"its shape is {tuple(sinks.shape)}"
        raise ArgumentValueError("sinks", got, f"({heads},)", "pass one for each head")


def layout(name: str, cache: Tensor) -> None:
    """A kernel can read ``cache`` where it is; it is not copied."""
    checks.layout(name, cache)
    apart, row = cache.stride()[:2]
    if cache.shape[0] > 1 and cache.shape[1] > 1 and (not row or apart % row):
        got = f"its strides begin with {apart} and {row}"
        allowed = "a first stride that is a multiple of the second"
        raise ArgumentValueError(name, got, allowed, f"{name}.contiguous()")


def _int32(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tensor.dtype != torch.int32:
        raise ArgumentTypeError(
            name, f"its dtype is {tensor.dtype}", "torch.int32", f"{name}.int()"
        )
    if tuple(tensor.shape) != shape:
        got = f"its shape is {tuple(tensor.shape)}"
        raise ArgumentValueError(name, got, f"{shape}", "give one for each batch")

"""Attention of few queries over caches with lengths, contiguous or in pages:
``torch.ops.schedgen.attention_decode_kvcache``.

As `attention_decode`, with two kernels for it: `attention_kvcache_parts` computes the splits that
lengths have, `attention_kvcache_combine` weighs those; or with one, `attention_kvcache_whole`,
where heads of keys fill the GPU. Lengths are read on the GPU, where a split has as many keys as
`split_keys` says of each: results are the same bits in any batch, whatever the caches have room
for, and by either way.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from schedgen.kernels import checks, keys, kv_cache_checks, layouts
from schedgen.kernels.attention_arguments import dims
from schedgen.kernels.attention_decode import (
    HEAD_DIMS,
    MOST_SPLITS,
    SPLIT,
    STEP,
    in_turn,
    packed,
    room_for_results,
    rounded,
    unpacked,
)
from schedgen.kernels.attention_decode import IN_TURN as FASTER
from schedgen.kernels.kv_cache_kernels import Settings, kernel_of
from schedgen.kernels.launcher import multiprocessors
from schedgen.kernels.of_spec import SpecKernel
from schedgen.kernels.operators import Operator
from schedgen.kernels.variants.calling import LOG2_E, MOST_WHOLE, target_of

PARTS, COMBINE = "attention_kvcache_parts", "attention_kvcache_combine"
WHOLE = "attention_kvcache_whole"
IN_TURN = {"sm_90a": ((64, 64), (96, 96), (128, 128)), "sm_100a": ()}
"""By architecture, head_dim of q and k, and of v, with which splits can be taken in turn; it is
chosen for those of `attention_decode` only."""
MOST_IN_TURN = 16 * SPLIT
"""Keys that caches have room for, at most, where that is chosen: a single CTA takes all keys of a
head, and the host does not know whether one sequence is much longer than all others."""


def is_for(q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, *, whole: bool) -> bool:
    """Whether there are kernels for these, also for splits in turn where ``whole`` says so, and the
    queries of a sequence fit into one tile.

    What decides is nothing that differs between batches with the same heads. What is wrong with
    arguments may be found out later.
    """
    if not (q.dim() == k.dim() == v.dim() == 4 and k.shape[2]):
        return False
    arch = keys.architecture(q.device)
    there = IN_TURN[arch] if whole else HEAD_DIMS
    if (int(q.shape[3]), int(v.shape[3])) not in there or _room(k, table) >= MOST_WHOLE:
        return False
    return q.shape[1] * (q.shape[2] // k.shape[2]) <= rows_of(arch)


def rows_of(arch: str) -> int:
    """Rows of a tile, of which a sequence has one for each token and head of a group."""
    return 64 if arch == "sm_90a" else 128


def attention_decode_kvcache(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    cache_seqlens: Tensor,
    block_table: Tensor | None = None,
    *,
    softmax_scale: float,
    causal: bool = False,
    split: int | None = None,
    num_splits: int = 0,
) -> tuple[Tensor, Tensor]:
    """`flash_attn_with_kvcache` for few queries. Arguments are checked where there is no plan for
    them yet: it costs more than everything else does.

    Args:
        q: (batch, seq_q, heads, head_dim).
        k_cache: (batch, room, heads_k, head_dim), or (num_pages, page_size, heads_k, head_dim).
        v_cache: like it, with the head_dim of v.
        cache_seqlens: (batch,), int32: keys of each batch.
        block_table: (batch, most_pages), int32; None: no pages.
        split: keys of a split, a multiple of 128; None: as `split_keys` says of each length.
        num_splits: 1: one CTA takes the splits of a head in turn, which are the same bits; 0: it
            does so where heads of keys fill the GPU, and room is for `MOST_IN_TURN` keys or less;
            any other number: it does not.

    Returns:
        ``(out, lse)`` as of `attention_decode`.

    Raises:
        ArgumentValueError, ArgumentTypeError, DeviceError: as `flash_attn_with_kvcache`.
    """
    size = 0 if split is None else split
    given = (q, k_cache, v_cache, cache_seqlens, block_table)
    return _operator(*given, softmax_scale, causal, size, num_splits)


def _room(k: Tensor, table: Tensor | None) -> int:
    """Keys that caches have room for in each batch."""
    return k.shape[1] * (1 if table is None else table.shape[-1])


def _results(q: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Room for the output, and for lse."""
    batch, seq_q, heads, _ = q.shape
    lse = q.new_empty((batch, heads, seq_q), dtype=torch.float32)
    return q.new_empty((*q.shape[:3], v.shape[3])), lse


def _fake(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, table: Tensor | None, scale: float,
    causal: bool, split: int, num_splits: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    del causal, split, num_splits
    _check(q, k, v, lengths, table, scale)
    return _results(q, v)


def _check(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, table: Tensor | None, scale: float
) -> None:
    checks.number("softmax_scale", scale, positive=True)
    kv_cache_checks.operands(q, k, v, None, None)
    kv_cache_checks.integers(q, k, lengths, None, table)


def _decode(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, table: Tensor | None, scale: float,
    causal: bool, split: int, num_splits: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    _check(q, k, v, lengths, table, scale)
    device = checks.devices(q=q, k_cache=k, v_cache=v, cache_seqlens=lengths, block_table=table)
    out, lse = _results(q, v)
    batch, seq_q, heads, head_dim = q.shape
    heads_k, head_dim_v, room = k.shape[2], v.shape[3], _room(k, table)
    if not out.numel() or not room:
        return out.zero_(), lse.fill_(-math.inf)
    checks.layout("q", q)
    for name, cache in (("k_cache", k), ("v_cache", v)):
        kv_cache_checks.layout(name, cache)
    least = (split or SPLIT) // STEP
    most = -(-room // STEP) if split else MOST_SPLITS
    group = heads // heads_k
    numbers = {"split_steps": float(least), "most_splits": float(most)}
    lengths = layouts.accessible(lengths.contiguous())
    dtype = checks.DTYPES[q.dtype]
    settings = dims(head_dim, head_dim_v) | {"dtype": dtype}
    settings |= {"causal": "true"} if causal and seq_q > 1 else {}
    given = {"q": packed(q, heads_k), "cache_seqlens": lengths, "k": k, "v": v}
    if table is not None:
        settings["page_size"] = str(k.shape[1])
        given |= {"k_pages": k, "v_pages": v, "block_table": layouts.accessible(table)}
    scalars = numbers | {"scale": scale * LOG2_E, "group": float(group)}
    found, rows = room_for_results(out, lse, heads_k), seq_q * group
    may = (head_dim, head_dim_v) in FASTER[keys.architecture(device)] and room <= MOST_IN_TURN
    chosen = num_splits == 0 and may and in_turn(batch * heads_k, multiprocessors(device))
    if chosen or num_splits == 1:
        given |= {"o": found[0][:, :, :rows], "lse_of": found[1][:, :, :rows]}
        _launched(_kernel(device, WHOLE, settings), given, scalars)
        unpacked(*found, out, lse)
        return out, lse
    parts, wide = min(most, -(-room // (least * STEP))), rounded(rows)
    p = q.new_empty((parts, batch, heads_k, wide, head_dim_v), dtype=torch.float32)
    part_lse = q.new_empty((parts, batch, heads_k, wide), dtype=torch.float32)
    given |= {"o": p[..., :rows, :], "lse": part_lse[..., :rows]}
    _launched(_kernel(device, PARTS, settings), given, scalars)
    # Rows of all heads of a batch are one extent when splits are combined: it fills tiles.
    of_heads = (batch, 1, heads_k * wide)
    given = {"p": p.view(parts, *of_heads, -1), "part_lse": part_lse.view(parts, *of_heads)}
    given |= {"o": found[0].view(*of_heads, -1), "lse": found[1].view(of_heads)}
    given |= {"cache_seqlens": lengths}
    _launched(_kernel(device, COMBINE, {"dtype": dtype}), given, numbers | {"room": float(room)})
    unpacked(*found, out, lse)
    return out, lse


def _kernel(device: torch.device, spec: str, settings: dict[str, str]) -> SpecKernel:
    made: Settings = tuple(settings.items())
    return kernel_of(spec, target_of(keys.architecture(device)), made)


def _launched(kernel: SpecKernel, tensors: dict[str, Tensor], numbers: dict[str, float]) -> None:
    given: dict[str, Tensor | float] = {**tensors, **numbers}
    kernel.store(*(given[parameter.name] for parameter in kernel.facts.parameters))


_operator = Operator(
    "attention_decode_kvcache(Tensor q, Tensor k_cache, Tensor v_cache, Tensor cache_seqlens, "
    "Tensor? block_table, float softmax_scale, bool causal, SymInt split, SymInt num_splits) "
    "-> (Tensor out, Tensor lse)",
    _decode,
    _fake,
)

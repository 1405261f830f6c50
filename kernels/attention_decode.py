"""Attention of few queries over many keys (decode): ``torch.ops.schedgen.attention_decode``.

Keys are split; `attention_parts` computes each split on its own, `attention_combine` weighs what
came of all of them, in their order. Where heads of keys alone fill the GPU, `attention_whole` takes
the splits of each in turn, and weighs them in the same way: nothing but the time differs. The split
of a sequence depends on its own number of keys alone and never on what else is in the batch, nor on
the GPU: results are the same bits with every batch. A tile has the rows of all query heads that
share keys, so that these are read once.
"""

from __future__ import annotations

import math
from typing import Literal, overload

import torch
from torch import Tensor

from schedgen.kernels import checks, keys, layouts, library
from schedgen.kernels.attention_arguments import SPLIT_DIMS, check, dims
from schedgen.kernels.errors import ArgumentValueError
from schedgen.kernels.launcher import multiprocessors
from schedgen.kernels.operators import Operator

PARTS, COMBINE, WHOLE = "attention_parts", "attention_combine", "attention_whole"
HEAD_DIMS = SPLIT_DIMS
"""head_dim of q and k, and of v, that there are kernels for."""
SPLIT = 1024
"""Keys of a split, at least: with 8 heads of keys 8192 keys are 64 tiles, for 132 or 148 SMs, and
as fast on an H200 as 128 tiles of 512 keys, of which there is twice as much to combine."""
MOST_SPLITS = 64
"""Of longer sequences splits are larger: one after the other they are combined."""
STEP = 128
"""What the keys of a split are a multiple of."""
IN_TURN = {"sm_90a": ((96, 96), (128, 128)), "sm_100a": ()}
"""By architecture, head_dim of q and k, and of v, with which splits may be taken in turn. With 64
they are bound by products and softmax, and faster one by one; for wider heads and on Blackwell
registers do not suffice."""
ROWS = 64
"""Rows of a tile there."""
LAST = 0.9
"""How long tiles of all splits take at least, of what it takes when each SM has one, however few of
them there are (H200: 96 tiles of 8192 keys 112 us in a graph, 128 of them 124)."""
SPLITTING = 1.045
"""How long splits and their combination take, of what whole tiles do in full waves (H200, batches
of 16 and 128; docs/attention.md)."""
ROUND = 4
"""Elements of a row of float32 in 16 bytes, which rows of bulk copies are multiples of."""


@overload
def attention_decode(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    softmax_scale: float | None = None,
    causal: bool = False,
    split: int | None = None,
    return_lse: Literal[False] = False,
) -> Tensor: ...


@overload
def attention_decode(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    softmax_scale: float | None = None,
    causal: bool = False,
    split: int | None = None,
    return_lse: Literal[True],
) -> tuple[Tensor, Tensor]: ...


def attention_decode(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    softmax_scale: float | None = None,
    causal: bool = False,
    split: int | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """`attention` for few queries: the same result but for rounding, bound by reading k and v.

    Args:
        q: (batch, seq_q, heads, head_dim), bfloat16 or float16; any seq_q, but what this is made
            for is that ``seq_q * heads / heads_k`` is 64 or less. head_dim 64, 96, 128 or 192.
            The layout is as of `attention`.
        k: (batch, seq_k, heads_k, head_dim), where heads is a multiple of heads_k.
        v: like k; with a head_dim of 192 also (batch, seq_k, heads_k, 128).
        softmax_scale: above 0; ``1 / sqrt(head_dim)`` if None.
        causal: row i of q sees keys up to ``i + seq_k - seq_q``.
        split: keys of a split, a multiple of 128; None: `split_keys`.
        return_lse: whether to return ``lse`` too.

    Returns:
        ``out`` (batch, seq_q, heads, head_dim_v); or ``(out, lse)`` with the natural logarithm of
        the sum of exponentials, (batch, heads, seq_q), float32. Rows that see no key are 0 with
        -inf.

    Raises:
        As `attention`; ArgumentValueError also for a ``split`` that is no multiple of 128.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if softmax_scale is None else softmax_scale
    out, lse = _attention_decode(q, k, v, scale, causal, 0 if split is None else split)
    return (out, lse) if return_lse else out


def decoded(
    q: Tensor, k: Tensor, v: Tensor, scale: float, *, causal: bool
) -> tuple[Tensor, Tensor]:
    """The same with splits of the size that is chosen, for other functions."""
    return _attention_decode(q, k, v, scale, causal, 0)


def split_keys(seq_k: int) -> int:
    """Keys of a split of a sequence with ``seq_k`` keys, by which alone it is decided."""
    return max(SPLIT, -(-seq_k // (MOST_SPLITS * STEP)) * STEP)


def in_turn(tiles: int, sms: int) -> bool:
    """Whether ``tiles`` heads of keys, each with all of its splits in turn, take less time on a GPU
    than the splits one by one do. That changes no bit of the result.
    """
    waves, rest = divmod(tiles, sms)
    return waves + (max(rest / sms, LAST) if rest else 0) <= SPLITTING * tiles / sms


def _check(q: Tensor, k: Tensor, v: Tensor, scale: float, split: int) -> None:
    check(q, k, v, scale)
    if split < 0 or split % STEP:
        got, fix = f"it is {split}", f"{-(-max(split, 1) // STEP) * STEP}, or leave it out"
        raise ArgumentValueError("split", got, f"multiples of {STEP}", fix)
    sizes = (int(q.shape[3]), int(v.shape[3]))
    if sizes not in HEAD_DIMS:
        allowed = ", ".join(str(d) for d, e in HEAD_DIMS if d == e)
        fix = "pad with zeros and pass softmax_scale, or call attention"
        raise ArgumentValueError("q", f"its head_dim is {sizes[0]}", allowed, fix)


def _results(q: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Room for the output, and for lse."""
    batch, seq_q, heads, _ = q.shape
    lse = q.new_empty((batch, heads, seq_q), dtype=torch.float32)
    return q.new_empty((*q.shape[:3], v.shape[3])), lse


def _fake(
    q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool, split: int
) -> tuple[Tensor, Tensor]:
    del causal
    _check(q, k, v, scale, split)
    return _results(q, v)


def _decode(
    q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool, split: int
) -> tuple[Tensor, Tensor]:
    _check(q, k, v, scale, split)
    device = checks.devices(q=q, k=k, v=v)
    out, lse = _results(q, v)
    batch, seq_q, heads, _ = q.shape
    seq_k, heads_k = k.shape[1:3]
    if not out.numel() or not seq_k:
        return out.zero_(), lse.fill_(-math.inf)
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        checks.layout(name, tensor)
    size = split or split_keys(seq_k)
    head_dims = int(q.shape[3]), int(v.shape[3])
    settings = dims(*head_dims) | {"dtype": checks.DTYPES[q.dtype]}
    settings |= {"causal": "true"} if causal and seq_q > 1 else {}
    scalars = (scale * math.log2(math.e), size / keys_of(*head_dims), heads // heads_k)
    # Of a single token rows are heads, and the results are what a kernel writes.
    found = room_for_results(out, lse, heads_k)
    given, rows = (packed(q, heads_k), k, v), seq_q * heads // heads_k
    tiles = batch * heads_k * -(-rows // ROWS)
    may = seq_k > size and head_dims in IN_TURN[keys.architecture(device)]
    if may and in_turn(tiles, multiprocessors(device)):
        of_rows = found[0][:, :, :rows], found[1][:, :, :rows]
        library.launcher(device, WHOLE, **settings).launch((*given, *of_rows), scalars)
    else:
        _split(device, -(-seq_k // size), given, scalars, settings, found)
    unpacked(*found, out, lse)
    return out, lse


def _split(
    device: torch.device,
    parts: int,
    given: tuple[Tensor, Tensor, Tensor],
    scalars: tuple[float, float, int],
    settings: dict[str, str],
    found: tuple[Tensor, Tensor],
) -> None:
    """Computes ``parts`` splits on their own, and combines them."""
    q, _, v = given
    batch, heads_k, rows, _ = q.shape
    wide = rounded(rows)
    # Splits are outermost, so that all rows of all sequences are one extent when they are combined:
    # a tile of 64 rows then has 64 of them, and not those of one group only.
    p = q.new_empty((parts, batch, heads_k, wide, v.shape[3]), dtype=torch.float32)
    part_lse = q.new_empty((parts, batch, heads_k, wide), dtype=torch.float32)
    of_split = p[..., :rows, :].permute(1, 2, 0, 3, 4), part_lse[..., :rows].permute(1, 2, 0, 3)
    library.launcher(device, PARTS, **settings).launch((*given, *of_split), scalars)
    all_rows = batch * heads_k * wide
    together = (
        p.view(1, 1, parts, all_rows, -1),
        part_lse.view(1, 1, parts, all_rows),
        found[0].view(1, 1, all_rows, -1),
        found[1].view(1, 1, all_rows),
    )
    library.launcher(device, COMBINE, dtype=settings["dtype"]).launch(together)


def keys_of(head_dim: int, head_dim_v: int) -> int:
    """Keys of an iteration, as the spec derives them."""
    return 128 if max(head_dim, head_dim_v) <= 128 else 64


def packed(q: Tensor, heads_k: int) -> Tensor:
    """(batch, seq_q, heads, d) as (batch, heads_k, seq_q * group, d): a view of a single token."""
    batch, seq_q, heads, _ = q.shape
    group = heads // heads_k
    tokens = q.reshape(batch, seq_q, heads_k, group, -1).transpose(1, 2)
    return tokens.reshape(batch, heads_k, seq_q * group, -1)


def rounded(rows: int) -> int:
    """Rows for which there is room where ``rows`` are computed: numbers of rows have 16 bytes."""
    return -(-rows // ROUND) * ROUND


def room_for_results(out: Tensor, lse: Tensor, heads_k: int) -> tuple[Tensor, Tensor]:
    """Room for results of rows, (batch, heads_k, rows, d), and for lse, where rows are tokens times
    group, and some more: ``out`` and ``lse`` themselves, of a single token.
    """
    batch, seq_q, heads, head_dim = out.shape
    rows = seq_q * (heads // heads_k)
    if seq_q == 1 and rounded(rows) == rows:
        return out.view(batch, heads_k, rows, head_dim), lse.view(batch, heads_k, rows)
    found = out.new_empty((batch, heads_k, rounded(rows), head_dim))
    return found, lse.new_empty((batch, heads_k, rounded(rows)))


def unpacked(found: Tensor, found_lse: Tensor, out: Tensor, lse: Tensor) -> None:
    """Copies what is in such room to where it belongs, unless it is there."""
    if layouts.storage(found) == layouts.storage(out):
        return
    batch, seq_q, heads, _ = out.shape
    group = heads // found.shape[1]
    rows, tokens = seq_q * group, (batch, found.shape[1], seq_q, group, -1)
    of_tokens = found[:, :, :rows].reshape(tokens).transpose(1, 2)
    out.view(*of_tokens.shape).copy_(of_tokens)
    lse_of_tokens = found_lse[..., :rows].reshape(tokens[:-1]).transpose(2, 3)
    lse.view(*lse_of_tokens.shape).copy_(lse_of_tokens)


_attention_decode = Operator(
    "attention_decode(Tensor q, Tensor k, Tensor v, float softmax_scale, bool causal, SymInt split)"
    " -> (Tensor out, Tensor lse)",
    _decode,
    _fake,
)

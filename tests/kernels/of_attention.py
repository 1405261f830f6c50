"""What kernels of attention and of its gradients compute, by torch on the CPU (`standin`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def attention(tensors: Sequence[Tensor], scale: float, *, causal: bool) -> None:
    """Rows that see no key give NaN, as in the kernels."""
    q, k, v, out, lse = tensors
    k, v = (x.float().repeat_interleave(q.shape[2] // x.shape[2], 2) for x in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q.float(), k) * scale * math.log(2)
    if causal:
        seq_q, seq_k = q.shape[1], k.shape[1]
        assert seq_q - seq_k < 4  # the first tile has a row that sees keys
        seen = torch.ones(seq_q, seq_k, dtype=torch.bool).tril(seq_k - seq_q)
        scores = scores.masked_fill(~seen, -torch.inf)
    out.copy_(torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v))
    lse.copy_(scores.logsumexp(-1))


def backward(name: str, tensors: Sequence[Tensor], scalars: Sequence[float]) -> None:
    """One of the kernels; probabilities and gradients of scores are not rounded."""
    if name.startswith("attention_bwd_delta"):
        do, o, lse, delta, lse2 = tensors
        delta.copy_((do.float() * o.float()).sum(-1).mT)
        lse2.copy_((lse * math.log2(math.e)).where(lse > -1e30, 1e30))
        return
    if name.startswith("attention_bwd_convert"):
        if "follows" in name:  # it would wait for ever for tiles that nobody counts
            assert (tensors[2] >= scalars[0]).all()
        tensors[1].copy_(tensors[0] * scalars[-1])
        return
    q, k, v, do, lse2, delta, *found = tensors
    (scale,) = scalars
    if not name.startswith(("attention_bwd_kv", "attention_bwd_q")):
        counted = found.pop()
        assert (counted.dtype, counted.shape) == (torch.int32, (q.shape[0], q.shape[2]))
        assert not counted.any()
        counted += -(-k.shape[1] // 128)
    if "_ordered" in name:
        words, blocks = found.pop(), -(-q.shape[1] // 64)
        assert (words.dtype, words.numel()) == (torch.int32, q.shape[0] * q.shape[2] * blocks)
        assert not words.any()
    k, v = (x.float().repeat_interleave(q.shape[2] // x.shape[2], 2) for x in (k, v))
    p = torch.exp2(torch.einsum("bqhd,bkhd->bhqk", q.float(), k) * scale - lse2[..., None])
    if "causal" in name:
        p = p.tril(k.shape[1] - q.shape[1])
    ds = p * (torch.einsum("bqhd,bkhd->bhqk", do.float(), v) - delta[..., None])
    ds *= scale * math.log(2)
    if name.startswith("attention_bwd_q"):
        found[0].copy_(torch.einsum("bhqk,bkhd->bqhd", ds, k))
        return
    if len(found) == 3:  # it adds up dq, without its factor
        assert found[2].dtype is torch.float32
        found[2] += torch.einsum("bhqk,bkhd->bqhd", ds / (scale * math.log(2)), k)
    found[0].copy_(torch.einsum("bhqk,bqhd->bkhd", ds, q.float()))
    found[1].copy_(torch.einsum("bhqk,bqhd->bkhd", p, do.float()))


def splits(name: str, tensors: Sequence[Tensor], scalars: Sequence[float]) -> None:
    """Splits of the keys, each on its own or in turn."""
    function = attention_parts if name.startswith("attention_parts") else attention_whole
    function(tensors, scalars, causal="causal" in name)


def attention_whole(tensors: Sequence[Tensor], scalars: Sequence[float], *, causal: bool) -> None:
    """The same in turn, and what they come to together."""
    q, k, v, o, lse = tensors
    size = int(scalars[1]) * (128 if max(q.shape[-1], v.shape[-1]) <= 128 else 64)
    splits = -(-k.shape[1] // size)
    parts = q.new_empty((*q.shape[:2], splits, q.shape[2], v.shape[-1]), dtype=torch.float32)
    attention_parts((q, k, v, parts, parts_lse := parts[..., 0].clone()), scalars, causal=causal)
    o.copy_((parts * parts_lse.softmax(2).nan_to_num(0.0)[..., None]).sum(2))
    lse.copy_(parts_lse.logsumexp(2))


def attention_parts(tensors: Sequence[Tensor], scalars: Sequence[float], *, causal: bool) -> None:
    """Splits of the keys; rows are tokens times heads that share keys."""
    q, k, v, o, lse = tensors
    scale, trips, group = scalars
    k, v = k.float().transpose(1, 2), v.float().transpose(1, 2)
    scores = q.float() @ k.mT * (scale * math.log(2))
    rows, column = q.shape[2], torch.arange(k.shape[2])
    if causal:
        end = torch.arange(rows) // int(group) + k.shape[2] - rows // int(group) + 1
        scores = scores.masked_fill(column >= end[:, None], -torch.inf)
    size = int(trips) * (128 if max(q.shape[-1], v.shape[-1]) <= 128 else 64)
    assert trips == int(trips)
    assert o.shape[2] == -(-k.shape[2] // size)
    for n in range(o.shape[2]):
        here = scores[..., n * size : (n + 1) * size]
        o[:, :, n] = here.softmax(-1).nan_to_num(0.0) @ v[:, :, n * size : (n + 1) * size]
        lse[:, :, n] = here.logsumexp(-1)

"""flash-attn-4 through its own functions, compared with torch: a program for a GPU.

python flash_attention.py [causal] [window] [gqa] [varlen] [backward] [dim=128]
"""

# flash-attn and torch have no types that would say something here.
# pyright: reportMissingImports=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import math
import sys

import torch

QUERIES, KEYS, HEADS = 128, 256, 2
WINDOW = 64


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, words: set[str]) -> torch.Tensor:
    """In float32: q (s_q, h, d), k and v (s_k, h_k, d)."""
    k, v = (one.repeat_interleave(q.shape[1] // one.shape[1], 1) for one in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1])
    rows = torch.arange(len(q), device="cuda")[:, None] + len(k) - len(q)
    columns = torch.arange(len(k), device="cuda")[None]
    kept = torch.ones(len(q), len(k), dtype=torch.bool, device="cuda")
    if "causal" in words:
        kept &= columns <= rows
    if "window" in words:
        kept &= (columns >= rows - WINDOW) & (columns <= rows)
    scores = scores.masked_fill(~kept, -math.inf)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v)


def main(words: set[str]) -> None:
    from flash_attn.cute import flash_attn_func, flash_attn_varlen_func

    torch.manual_seed(0)
    dim = next((int(word[4:]) for word in words if word.startswith("dim=")), 64)
    few = HEADS // 2 if "gqa" in words else HEADS
    shapes = ((QUERIES, HEADS), (KEYS, few), (KEYS, few))
    q, k, v = (
        torch.randn(length, heads, dim, device="cuda", dtype=torch.bfloat16).requires_grad_(
            "backward" in words
        )
        for length, heads in shapes
    )
    window = (WINDOW, 0) if "window" in words else (None, None)
    options = {"causal": "causal" in words, "window_size": window}
    parts = [(0, QUERIES, 0, KEYS)]
    if "varlen" in words:
        parts = [(0, 40, 0, 100), (40, QUERIES, 100, KEYS)]
        ends_q, ends_k = (
            torch.tensor([0, parts[0][at], end], dtype=torch.int32, device="cuda")
            for at, end in ((1, QUERIES), (3, KEYS))
        )
        found = flash_attn_varlen_func(
            q, k, v, cu_seqlens_q=ends_q, cu_seqlens_k=ends_k,
            max_seqlen_q=88, max_seqlen_k=156, **options,
        )  # fmt: skip
    else:
        found = flash_attn_func(q[None], k[None], v[None], **options)
    out = found[0] if isinstance(found, tuple) else found
    out = out.reshape(QUERIES, HEADS, dim)
    plain = [one.detach().float().requires_grad_() for one in (q, k, v)]
    wanted = torch.cat(
        [attention(plain[0][a:b], plain[1][c:d], plain[2][c:d], words) for a, b, c, d in parts]
    )
    torch.testing.assert_close(out.float(), wanted, atol=2e-2, rtol=2e-2)
    if "backward" in words:
        gradient = torch.randn_like(out)
        out.backward(gradient)
        wanted.backward(gradient.float())
        for one, other in zip((q, k, v), plain, strict=True):
            assert one.grad is not None
            torch.testing.assert_close(one.grad.float(), other.grad, atol=5e-2, rtol=5e-2)


if __name__ == "__main__":
    main(set(sys.argv[1:]))

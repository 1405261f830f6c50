"""Results of attention by rows of queries: room for them, and those of rows that see no key."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

_ROUND = 4
"""Elements of lse in 16 bytes, which rows of a bulk copy are multiples of."""


def room(q: Tensor, head_dim: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Room for the output (batch, seq_q, heads, ``head_dim``) of ``q``, and for lse (batch, heads,
    seq_q) in float32, whose rows begin at multiples of 16 bytes.
    """
    batch, seq_q, heads, _ = q.shape
    row = (seq_q + _ROUND - 1) // _ROUND * _ROUND
    strides = (heads * row, row, 1)
    lse = q.new_empty_strided((batch, heads, seq_q), strides, dtype=torch.float32)
    return q.new_empty((*q.shape[:3], head_dim), dtype=dtype), lse


def compute(
    q: Tensor,
    seq_k: int,
    causal: bool,
    results: tuple[Tensor, Tensor],
    launch: Callable[[Tensor, Tensor, Tensor], None],
) -> None:
    """Has the rows of q, out and lse computed by ``launch``, but for those that see no key, of
    which kernels have no meaning: out is 0 there, and lse -inf.
    """
    seq_q, (out, lse) = q.shape[1], results
    blind = seq_q if not seq_k else max(0, seq_q - seq_k) if causal else 0
    if seq_k:
        skip = blind - blind % _ROUND  # whole groups of lse that need not be computed
        rows = (q[:, skip:], out[:, skip:], lse[..., skip:]) if skip else (q, out, lse)
        launch(*rows)
    if blind:
        out[:, :blind] = 0
        lse[..., :blind] = -math.inf

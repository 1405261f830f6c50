"""What the shipped kernels are to compute, in float64 on whole tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch

Tensors: TypeAlias = Mapping[str, torch.Tensor]
Reference: TypeAlias = Callable[[Tensors], dict[str, torch.Tensor]]


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, *, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax attention and its log-sum-exp, from [batch, sequence, heads, head_dim].

    Neighbouring query heads share a key head. ``causal`` is aligned to the bottom right: the last
    query sees all keys. ``scale`` is the plain softmax scale. Returns the output, and the natural
    logarithm [batch, heads, seq_q].
    """
    group = q.shape[2] // k.shape[2]
    keys, values = (x.double().repeat_interleave(group, 2) for x in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q.double(), keys) * scale
    if causal:
        seq_q, seq_k = scores.shape[-2:]
        visible = torch.ones(seq_q, seq_k, dtype=torch.bool).tril(seq_k - seq_q)
        scores = scores.masked_fill(~visible, -torch.inf)
    output = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), values)
    return output, scores.logsumexp(-1)


def gemm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A B^T over the last extents."""
    return a.double() @ b.double().mT


def linear(x: Tensors) -> dict[str, torch.Tensor]:
    """alpha A B^T + beta C."""
    alpha, beta = x["alpha"].double(), x["beta"].double()
    return {"d": alpha * gemm(x["a"], x["b"]) + beta * x["c"].double()}


def activated(x: Tensors) -> dict[str, torch.Tensor]:
    """gelu(A B^T + bias), gelu by tanh."""
    product = gemm(x["a"], x["b"]) + x["bias"].double()
    return {"d": torch.nn.functional.gelu(product, approximate="tanh")}


def symmetric(x: Tensors) -> dict[str, torch.Tensor]:
    """alpha A B^T + beta C from its lower triangle alone."""
    lower = linear(x)["d"].tril()
    return {"d": lower + lower.tril(-1).mT}


def chained(x: Tensors) -> dict[str, torch.Tensor]:
    """(A B^T) C."""
    return {"d": gemm(x["a"], x["b"]) @ x["c"].double()}

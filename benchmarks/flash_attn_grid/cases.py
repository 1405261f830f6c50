"""The grid of `flash_attn_cases.py`: what kernels are made for, calls, and what is right."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import torch
from torch import Tensor

LENGTHS = (
    1,
    2,
    7,
    63,
    64,
    65,
    100,
    128,
    129,
    200,
    255,
    384,
    500,
    777,
    1024,
    1500,
    2048,
    3000,
    4096,
)
HEADS = ((1, 1, 1), (2, 4, 4), (1, 8, 2), (2, 6, 1))
"""Batch, heads of q, heads of k."""
MOST_SCORES = 1 << 26
"""Scores of a case, which float64 and eager computations hold."""


@dataclass(frozen=True)
class Config:
    """What a kernel is made for: a ``window``, ``causal`` or ``full``; dimensions of slopes;
    whether sequences of several lengths are ``packed``.
    """

    mask: str
    softcap: bool = False
    slopes: int = 0
    sinks: bool = False
    head_dim: int = 64
    dtype: str = "bf16"
    packed: bool = False


CONFIGS = (
    Config("full"),
    Config("causal"),
    Config("full", head_dim=128),
    Config("causal", head_dim=128, dtype="fp16"),
    Config("window"),
    Config("window", head_dim=128),
    Config("window", softcap=True, head_dim=128),
    Config("causal", softcap=True),
    Config("full", softcap=True, sinks=True, head_dim=128),
    Config("full", sinks=True),
    Config("causal", sinks=True, head_dim=128),
    Config("window", sinks=True),
    Config("causal", slopes=1),
    Config("full", slopes=1, head_dim=128),
    Config("window", slopes=2, sinks=True, head_dim=128),
    Config("causal", softcap=True, slopes=1, head_dim=128),
    Config("window", softcap=True, slopes=2, sinks=True),
    Config("window", head_dim=256),
    Config("window", softcap=True, sinks=True, head_dim=96, dtype="fp16"),
)


@dataclass(frozen=True)
class Case:
    """A call of `flash_attn_func`."""

    config: Config
    seed: int
    batch: int
    heads: int
    heads_k: int
    seq_q: int
    seq_k: int
    window: tuple[int, int]
    softcap: float

    @property
    def causal(self) -> bool:
        return self.config.mask == "causal"

    def tensors(self, device: str) -> dict[str, Tensor | None]:
        """Operands, slopes and sinks."""
        torch.manual_seed(self.seed)
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[self.config.dtype]
        dim, shape = self.config.head_dim, (self.batch, self.heads)
        found: dict[str, Tensor | None] = {
            "q": torch.randn(self.batch, self.seq_q, self.heads, dim).to(device, dtype)
        }
        for name in "kv":
            operand = torch.randn(self.batch, self.seq_k, self.heads_k, dim)
            found[name] = operand.to(device, dtype)
        found["slopes"] = (
            torch.rand(shape[-self.config.slopes :]).to(device) * 0.3
            if self.config.slopes
            else None
        )
        found["sinks"] = torch.randn(self.heads).to(device, dtype) if self.config.sinks else None
        return found


def cases(count: int, seed: int) -> list[Case]:
    """The same for the same seed: all kinds of kernels equally often."""
    draw, found = random.Random(seed), list[Case]()
    while len(found) < count:
        config = CONFIGS[len(found) % len(CONFIGS)]
        heads = draw.choice(HEADS)
        seq_q = draw.choice(LENGTHS)
        seq_k = seq_q if draw.random() < 0.5 else draw.choice(LENGTHS)
        if heads[0] * heads[1] * seq_q * seq_k > MOST_SCORES:
            heads = HEADS[0]
        window = draw.choice(((0, 0), (1, 5), (64, 0), (100, 30), (1000, -1), (-1, 17), (300, 300)))
        cap = draw.choice((5.0, 15.0, 50.0))
        found.append(
            Case(
                config, len(found), *heads, seq_q, seq_k,
                window if config.mask == "window" else (-1, -1), cap if config.softcap else 0.0,
            )
        )  # fmt: skip
    return found


# -- what they should be ---------------------------------------------------------------------------


def bias_of(case: Case, given: dict[str, Tensor | None]) -> Tensor:
    """What is added to scores, [batch or 1, heads or 1, rows, columns] in float64."""
    q = given["q"]
    assert q is not None
    row = torch.arange(case.seq_q, device=q.device)[:, None] + case.seq_k - case.seq_q
    column = torch.arange(case.seq_k, device=q.device)[None, :]
    left, right = case.window
    kept = torch.ones(case.seq_q, case.seq_k, dtype=torch.bool, device=q.device)
    if left >= 0:
        kept &= column >= row - left
    if case.causal or right >= 0:
        kept &= column <= row + (0 if case.causal else right)
    slopes, bias = given["slopes"], torch.zeros((), dtype=torch.float64, device=q.device)
    if slopes is not None:
        bias = -slopes.double()[..., None, None] * (row - column).abs()
        bias = bias if bias.dim() == 4 else bias[None]
    return bias.expand(*bias.shape[:-2], *kept.shape).masked_fill(~kept, -math.inf)


def computed(
    case: Case, given: dict[str, Tensor | None], bias: Tensor, kind: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Result and logarithms of sums: products in ``kind``, float64 or that of the operands; in the
    latter probabilities are rounded, too, before they are multiplied.
    """
    q, k, v = (given[name] for name in "qkv")
    assert q is not None
    assert k is not None
    assert v is not None
    groups = case.heads // case.heads_k
    k, v = (x.to(kind).repeat_interleave(groups, 2).transpose(1, 2) for x in (k, v))
    inner = torch.float64 if kind == torch.float64 else torch.float32
    scores = (q.to(kind).transpose(1, 2) @ k.mT).to(inner) / math.sqrt(q.shape[-1])
    if case.softcap:
        scores = case.softcap * torch.tanh(scores / case.softcap)
    scores = scores + bias.to(inner)
    sums = scores.logsumexp(-1, keepdim=True)
    sinks = given["sinks"]
    if sinks is not None:
        sums = torch.logaddexp(sums, sinks.to(inner)[:, None, None])
    shares = (scores - sums).exp().nan_to_num(0.0).to(kind)
    return (shares @ v).transpose(1, 2), sums[..., 0]

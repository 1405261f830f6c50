"""Calls of `flash_attn_varlen_func`: sequences of several lengths, none among them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from flash_attn_grid.cases import CONFIGS, LENGTHS, MOST_SCORES, Case, Config, bias_of, computed
from torch import Tensor

_WITHOUT = {("full", 256), ("window", 256), ("window", 96)}
PACKED = tuple(
    replace(one, packed=True) for one in CONFIGS if (one.mask, one.head_dim) not in _WITHOUT
)
"""What kernels are made for."""
_MOST_SEQUENCES = 6
HEADS = ((4, 4), (8, 2), (6, 1))
"""Heads of q and of k."""


@dataclass(frozen=True)
class PackedCase:
    """A call; ``sequences`` has queries and keys of each."""

    config: Config
    seed: int
    heads: int
    heads_k: int
    sequences: tuple[tuple[int, int], ...]
    window: tuple[int, int]
    softcap: float

    @property
    def causal(self) -> bool:
        return self.config.mask == "causal"

    @property
    def starts(self) -> tuple[list[int], list[int]]:
        """Where queries and keys of sequences begin, and the last ones end."""
        queries, keys = zip(*self.sequences, strict=True)
        return list(accumulate(queries, initial=0)), list(accumulate(keys, initial=0))

    @property
    def longest(self) -> tuple[int, int]:
        """Queries and keys of the longest sequences."""
        queries, keys = zip(*self.sequences, strict=True)
        return max(queries), max(keys)

    def tensors(self, device: str) -> dict[str, Tensor | None]:
        """Operands, slopes, sinks and where sequences begin."""
        torch.manual_seed(self.seed)
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[self.config.dtype]
        dim, shape, slopes = self.config.head_dim, (len(self.sequences), self.heads), None
        (*_, total_q), (*_, total_k) = self.starts
        found: dict[str, Tensor | None] = {
            "q": torch.randn(total_q, self.heads, dim).to(device, dtype),
            "k": torch.randn(total_k, self.heads_k, dim).to(device, dtype),
            "v": torch.randn(total_k, self.heads_k, dim).to(device, dtype),
        }
        if self.config.slopes:
            slopes = torch.rand(shape[-self.config.slopes :]).to(device) * 0.3
        sinks = torch.randn(self.heads).to(device, dtype) if self.config.sinks else None
        for name, starts in zip("qk", self.starts, strict=True):
            found[f"cu_{name}"] = torch.tensor(starts, dtype=torch.int32, device=device)
        return {**found, "slopes": slopes, "sinks": sinks}

    def each(
        self, given: dict[str, Tensor | None]
    ) -> Iterator[tuple[Case, dict[str, Tensor | None]]]:
        """Every sequence as a call of its own, with its part of the tensors."""
        slopes = given["slopes"]
        for number, (seq_q, seq_k) in enumerate(self.sequences):
            here = {"q": (self.starts[0][number], seq_q), "k": (self.starts[1][number], seq_k)}
            here["v"] = here["k"]
            parts: dict[str, Tensor | None] = {"sinks": given["sinks"]}
            for name, (begin, size) in here.items():
                whole = given[name]
                assert whole is not None
                parts[name] = whole[None, begin : begin + size]
            parts["slopes"] = (
                slopes if slopes is None or slopes.dim() == 1 else slopes[number][None]
            )
            yield Case(
                self.config, self.seed, 1, self.heads, self.heads_k, seq_q, seq_k, self.window,
                self.softcap,
            ), parts  # fmt: skip


def packed_cases(count: int, seed: int) -> list[PackedCase]:
    """The same for the same seed: all kinds of kernels equally often."""
    return packed_cases_of(PACKED, count, f"packed {seed}")


def packed_cases_of(
    configs: Sequence[Config], count: int, seed: str, heads_of: Sequence[tuple[int, int]] = HEADS
) -> list[PackedCase]:
    """Calls of the kernels of ``configs``, in turn, with heads of q and of k of ``heads_of``."""
    draw, found = random.Random(seed), list[PackedCase]()
    while len(found) < count:
        config = configs[len(found) % len(configs)]
        heads, heads_k = draw.choice(heads_of)
        left, sequences = MOST_SCORES // heads, list[tuple[int, int]]()
        for _ in range(draw.randint(1, _MOST_SEQUENCES)):
            seq_q = draw.choice((0, *LENGTHS))
            seq_k = seq_q if draw.random() < 0.6 else draw.choice((0, *LENGTHS))
            if seq_q * seq_k <= left:
                sequences.append((seq_q, seq_k))
                left -= seq_q * seq_k
        if not any(q for q, _ in sequences) or not any(k for _, k in sequences):
            sequences.append((64, 65))
        window = draw.choice(((0, 0), (1, 5), (64, 0), (100, 30), (1000, -1), (-1, 17), (300, 300)))
        cap = draw.choice((5.0, 15.0, 50.0))
        found.append(
            PackedCase(
                config, len(found), heads, heads_k, tuple(sequences),
                window if config.mask == "window" else (-1, -1), cap if config.softcap else 0.0,
            )
        )  # fmt: skip
    return found


def computed_packed(
    case: PackedCase, given: dict[str, Tensor | None], kind: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Results (total, heads, head_dim) and logarithms of sums (heads, total), as `computed`."""
    results: list[Tensor] = []
    sums: list[Tensor] = []
    for one, parts in case.each(given):
        if one.seq_q and one.seq_k:
            out, lse = computed(one, parts, bias_of(one, parts), kind)
        else:
            q, sinks = parts["q"], parts["sinks"]
            assert q is not None
            out = torch.zeros_like(q, dtype=kind)
            lse = out.new_full((1, case.heads, one.seq_q), -math.inf)
            lse = lse if sinks is None else lse.copy_(sinks[:, None])
        results.append(out[0])
        sums.append(lse[0])
    return torch.cat(results), torch.cat(sums, -1)

"""Decode over caches with lengths, contiguous or in pages: problems and peers of `decode.py`."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from schedgen.benchmarks import timing
from schedgen.kernels import flash_attn_with_kvcache

DEVICE = "cuda"
HEAD_DIM = 128
SPLIT = f"{timing.OURS} split"
"""`flash_attn_with_kvcache` whose keys are split over CTAs in any case."""
_SHORTEST = 16
"""The shortest length is this part of the longest, where lengths differ."""
_WORKSPACE = 256 << 20
"""Bytes that FlashInfer wants."""
Call = Callable[[Tensor, Tensor, Tensor], Any]


@dataclass(frozen=True)
class Problem:
    """``page`` 0: contiguous; ``mixed``: lengths differ, and ``keys`` is the longest one."""

    batch: int
    queries: int
    keys: int
    heads: int
    heads_k: int
    page: int
    mixed: bool

    @property
    def sizes(self) -> list[int]:
        """The length of each sequence, the longest one first."""
        if not self.mixed:
            return [self.keys] * self.batch
        draw = random.Random(0)
        drawn = [draw.randint(self.keys // _SHORTEST, self.keys) for _ in range(self.batch - 1)]
        return [self.keys, *drawn] if self.batch > 1 else [draw.randint(self.keys // 2, self.keys)]

    @property
    def moved(self) -> int:
        """Bytes that have to be read and written, operands of two bytes."""
        rows = 2 * sum(self.sizes) * self.heads_k + 2 * self.batch * self.queries * self.heads
        return 2 * HEAD_DIM * rows


class Caches:
    """What a problem is called with; pages lie in no order, NaN is behind lengths."""

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        self.problem = problem
        self._make = torch.Generator(DEVICE).manual_seed(seed)
        batch, keys, heads_k = problem.batch, problem.keys, problem.heads_k
        self.q = self._normal(batch, problem.queries, problem.heads, HEAD_DIM)
        self.whole = [self._normal(batch, keys, heads_k, HEAD_DIM) for _ in "kv"]
        self.lengths = torch.tensor(problem.sizes, dtype=torch.int32, device=DEVICE)
        self.table: Tensor | None = None
        self.k, self.v = self._spoilt()
        if problem.page:
            each = -(-keys // problem.page)
            order = torch.randperm(batch * each, generator=self._make, device=DEVICE)
            self.table = order.view(batch, each).int()
            self.k, self.v = (self._paged(one, order) for one in (self.k, self.v))

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self._make, device=DEVICE, dtype=torch.bfloat16)

    def _spoilt(self) -> list[Tensor]:
        there = torch.arange(self.problem.keys, device=DEVICE) < self.lengths[:, None]
        return [one.masked_fill(~there[:, :, None, None], torch.nan) for one in self.whole]

    def _paged(self, cache: Tensor, order: Tensor) -> Tensor:
        page = self.problem.page
        missing = -self.problem.keys % page
        rows = functional.pad(cache, (0, 0, 0, 0, 0, missing), value=torch.nan)
        pages = torch.empty_like(rows).view(-1, page, *cache.shape[2:])
        pages[order] = rows.reshape(pages.shape)
        return pages

    def copies(self, count: int) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Queries, with keys and values in other memory each time."""
        more = [(self.q, self.k.clone(), self.v.clone()) for _ in range(count - 1)]
        return [(self.q, self.k, self.v), *more]

    def ours(self, splits: int = 0) -> Call:
        return lambda q, k, v: flash_attn_with_kvcache(
            q, k, v, cache_seqlens=self.lengths, block_table=self.table, causal=True,
            num_splits=splits,
        )  # fmt: skip

    def candidates(self, *, split: bool) -> dict[str, Call]:
        """By name; those that cannot be called are left out by `decode.usable`."""
        found: dict[str, Call] = {timing.OURS: self.ours()}
        found |= {SPLIT: self.ours(2)} if split else {}
        fa4 = timing.imported("flash_attn.cute", "flash_attn_varlen_func")
        if fa4 is not None:
            more: dict[str, Any] = {"seqused_k": self.lengths, "causal": True}
            more |= {} if self.table is None else {"page_table": self.table}
            found["flash-attn-4"] = lambda q, k, v: fa4(q, k, v, **more)
            found["flash-attn-4 splits"] = lambda q, k, v: fa4(q, k, v, num_splits=0, **more)
        fa3 = timing.imported("flash_attn_interface", "flash_attn_with_kvcache")
        if fa3 is not None:
            given = {"cache_seqlens": self.lengths, "page_table": self.table, "causal": True}
            found["flash-attn-3"] = lambda q, k, v: fa3(q, k, v, **given)
        infer = timing.imported("flashinfer", "BatchDecodeWithPagedKVCacheWrapper")
        if infer is not None and self.table is not None and self.problem.queries == 1:
            found["FlashInfer"] = self._flashinfer(infer)
        return found | self._dense()

    def _flashinfer(self, wrapper: Any) -> Call:
        """Planned once, as an engine does for all layers of a step; that time is not counted."""
        problem, sizes = self.problem, self.problem.sizes
        assert self.table is not None
        counts = [-(-size // problem.page) for size in sizes]
        pages = [self.table[n, :count] for n, count in enumerate(counts)]
        begins = torch.tensor([0, *counts]).cumsum(0).int().to(DEVICE)
        last = torch.tensor([(size - 1) % problem.page + 1 for size in sizes]).int().to(DEVICE)
        room = torch.empty(_WORKSPACE, dtype=torch.uint8, device=DEVICE)
        made = wrapper(room, "NHD", use_tensor_cores=True)
        made.plan(
            begins, torch.cat(pages), last, problem.heads, problem.heads_k, HEAD_DIM, problem.page,
            q_data_type=torch.bfloat16, kv_data_type=torch.bfloat16,
        )  # fmt: skip
        return lambda q, k, v: made.run(q[:, 0], (k, v))[:, None]

    def _dense(self) -> dict[str, Call]:
        """torch over tensors in which every sequence has as many keys, masked; no pages."""
        problem = self.problem
        copies = max(1, math.ceil((1 << 28) / (2 * self.whole[0].nbytes)))
        whole = [[one.transpose(1, 2) for one in self.whole]]
        whole += [[one.clone() for one in whole[0]] for _ in range(copies - 1)]
        following, mask = cycle(whole), None
        if problem.mixed or problem.queries > 1:
            at = torch.arange(problem.queries, device=DEVICE)[:, None] - problem.queries
            end = self.lengths[:, None, None] + at[None]
            mask = (torch.arange(problem.keys, device=DEVICE) <= end)[:, None]

        def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            del k, v
            keys, values = next(following)
            return functional.scaled_dot_product_attention(
                q.transpose(1, 2), keys, values, attn_mask=mask, enable_gqa=True
            ).transpose(1, 2)

        return {"torch sdpa, dense": sdpa}

    def reference(self, count: int) -> Tensor:
        """In float64, of the first sequences."""
        found: list[Tensor] = []
        group = self.problem.heads // self.problem.heads_k
        for n, size in enumerate(self.problem.sizes[:count]):
            k, v = (one[n, :size].double().repeat_interleave(group, 1) for one in self.whole)
            scores = torch.einsum("qhd,khd->hqk", self.q[n].double(), k) / math.sqrt(HEAD_DIM)
            seen = torch.ones(scores.shape[1:], dtype=torch.bool, device=DEVICE)
            scores = scores.masked_fill(~seen.tril(size - self.problem.queries), -math.inf)
            found.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v))
        return torch.stack(found)

    def same_bits(self) -> dict[str, bool]:
        """Whether results are the same bits in two runs, and of a sequence in a batch and alone."""
        call = self.ours()
        found = call(self.q, self.k, self.v)
        again = torch.equal(found, call(self.q, self.k, self.v))
        last = self.problem.batch - 1
        one = slice(last, last + 1)
        caches = (self.k, self.v) if self.problem.page else (self.k[one], self.v[one])
        alone = flash_attn_with_kvcache(
            self.q[one].clone(), *(cache.clone() for cache in caches),
            cache_seqlens=self.lengths[one].clone(), causal=True,
            block_table=None if self.table is None else self.table[one].clone(),
        )  # fmt: skip
        same = {"same bits again": again, "same bits alone": torch.equal(found[one], alone)}
        ways = [self.ours(splits)(self.q, self.k, self.v) for splits in (1, 2)]
        return same | {"same bits by one CTA": all(torch.equal(found, other) for other in ways)}

"""Shapes for tests on a GPU, references in float64, and what torch makes of the same in the data
type of the operands.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor
from torch.nn import functional

from schedgen.kernels.attention_arguments import HEAD_DIMS

BF16, FP16 = torch.bfloat16, torch.float16


@dataclass(frozen=True)
class Attention:
    """A problem for `attention`."""

    batch: int
    seq_q: int
    seq_k: int
    heads: int
    heads_k: int
    head_dim: int
    causal: bool
    dtype: torch.dtype
    head_dim_v: int | None = None

    def __str__(self) -> str:
        causal = f"/{self.head_dim_v}" * bool(self.head_dim_v) + "-causal" * self.causal
        return (
            f"b{self.batch}-q{self.seq_q}-k{self.seq_k}-h{self.heads}/{self.heads_k}"
            f"-d{self.head_dim}{causal}-{_name(self.dtype)}"
        )


@dataclass(frozen=True)
class Product:
    """A problem for a matrix product; in `gemm_chain`, n is inner and k the result's width."""

    batch: int
    m: int
    n: int
    k: int
    dtype: torch.dtype

    def __str__(self) -> str:
        return f"b{self.batch}-m{self.m}-n{self.n}-k{self.k}-{_name(self.dtype)}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


LENGTHS = [
    *((1, 1), (7, 7), (64, 64), (100, 100), (128, 128), (129, 129), (200, 200), (384, 384)),
    *((1000, 1000), (1024, 1024), (2048, 2048)),
    *((1, 1000), (100, 333), (128, 77), (512, 200), (5, 4096), (1000, 129), (640, 641)),
]
"""Queries and keys."""
HEADS = [(1, 1, 1), (2, 4, 2), (1, 8, 1), (3, 6, 6)]
"""Batch, heads of q, heads of k."""


def attention_cases() -> list[Attention]:
    """Small and large, ragged, grouped heads, one batch, causal both ways."""
    cases = [
        Attention(*heads[:1], *lengths, *heads[1:], head_dim, causal, dtype)
        for (n, lengths), head_dim, causal in product(enumerate(LENGTHS), (64, 128), (False, True))
        for heads, dtype in (
            (HEADS[n % 4], BF16),
            (HEADS[(n + 1) % 4], FP16),
            (HEADS[(n + 2) % 4], BF16),
        )
    ]
    there = [(q, v) for q, some in HEAD_DIMS.items() for v in some]
    for q, v in there:
        for n, causal in product((9, 12, 17), (False, True)):
            shape = (*HEADS[n % 4][:1], *LENGTHS[n], *HEADS[n % 4][1:])
            cases.append(Attention(*shape, q, causal, (BF16, FP16)[n % 2], v))
    large = [(1, 8192, 8192, 2, 1), (4, 4096, 4096, 4, 4), (1, 16384, 16384, 1, 1)]
    return cases + [
        Attention(*shape, head_dim, causal, BF16)
        for shape, head_dim, causal in product(large, (64, 128), (False, True))
    ]


SPLIT = [(1, 40, 136, 8192), (1, 256, 256, 16384), (3, 100, 72, 8200), (1, 512, 512, 32768)]
"""Batch, m, n and k of products that are split along k on an H200."""


def gemm_cases() -> list[Product]:
    """Small and large, ragged in all directions, batches."""
    small = product((1, 17, 128, 200, 384), (8, 136, 256, 1000), (8, 64, 520))
    cases = [Product(1, *mnk, BF16 if n % 3 else FP16) for n, mnk in enumerate(small)]
    cases += [Product(1, *mnk, BF16) for mnk in ((13, 7, 5), (100, 101, 103), (1, 1, 1))]
    cases += [Product(b, 200, 264, 136, BF16) for b in (2, 3, 7)]
    cases += [Product(*bmnk, BF16) for bmnk in SPLIT]
    cases += [Product(1, 13, 7, 8191, FP16), Product(2, 101, 131, 20000, FP16)]
    cases += [Product(1, m, 12288, 4096, BF16) for m in (7, 16, 33, 64, 128)]
    cases += [Product(1, m, 22016, 4096, FP16) for m in (64, 128, 512)]
    cases += [Product(2, 33, 1001, 300, BF16), Product(1, 128, 4096, 4096, BF16)]
    return cases + [Product(1, n, n, n, BF16) for n in (1024, 2048, 4096, 8192)]


def symmetric_cases() -> list[Product]:
    """Square results; n is m."""
    sizes = (1, 8, 100, 128, 200, 256, 264, 384, 640, 1000)
    small = product((1, 3), sizes, (8, 136, 1024))
    cases = [Product(b, m, m, k, BF16 if m % 3 else FP16) for b, m, k in small]
    cases += [Product(b, m, m, k, BF16) for b, m, _, k in SPLIT]
    cases += [Product(1, 513, 513, 20000, FP16), Product(1, 1024, 1024, 16384, FP16)]
    cases += [Product(1, 101, 101, 7, BF16), Product(2, 513, 513, 100, BF16)]
    return cases + [Product(1, n, n, n, BF16) for n in (1024, 2048, 4096, 8192)]


def epilogue_cases() -> list[Product]:
    """Extents in rows are multiples of 8: the file is called as it is."""
    small = product((1, 100, 128, 384), (8, 136, 256, 1000), (8, 64, 520, 1024))
    cases = [Product(1 + n % 2, *mnk, BF16 if n % 3 else FP16) for n, mnk in enumerate(small)]
    return cases + [Product(1, n, n, n, BF16) for n in (2048, 4096, 8192)]


def chain_cases() -> list[Product]:
    """The inner extent of the first product is 128."""
    small = product((1, 64, 100, 500), (1, 100, 128, 1000), (8, 128, 136, 256))
    cases = [Product(1 + n % 2, *mnk, BF16 if n % 3 else FP16) for n, mnk in enumerate(small)]
    return [*cases, Product(1, 4096, 4096, 128, BF16), Product(2, 2048, 8192, 512, BF16)]


def random(*shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(*shape, device="cuda").to(dtype)


@contextmanager
def poisoned() -> Generator[None]:
    """New tensors are full of NaN, so that what a kernel does not write is noticed."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@dataclass(frozen=True)
class Error:
    """Distance from a reference: in the norm, relative to it, and the largest."""

    norm: float
    largest: float


def error(found: Tensor, reference: Tensor) -> Error:
    assert found.shape == reference.shape
    difference = found.double() - reference
    norms = [x.square().sum().sqrt().item() for x in (difference, reference)]
    return Error(norms[0] / (norms[1] or 1.0), difference.abs().max().item())


def assert_as_good(found: Tensor, torchs: Tensor, reference: Tensor) -> None:
    """The error is at most twice torch's in the norm, and three times at the worst place: that is
    one element of each, and of 276 cases two were 2.2 times torch's there (H200).

    Where torch is exact by luck (one key, one element), one rounding of the largest value is
    allowed.
    """
    ours, theirs = error(found, reference), error(torchs, reference)
    rounding = 2.0 ** (-8 if found.dtype is BF16 else -11)
    assert math.isfinite(ours.norm), "NaN or infinity"
    scale = reference.abs().max().item()
    assert ours.norm <= max(2 * theirs.norm, rounding / 2), (ours, theirs)
    assert ours.largest <= max(3 * theirs.largest, rounding * scale), (ours, theirs)


def attention_reference(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """Output and lse in float64, head by head; rows that see no key are 0 with -inf."""
    groups = q.shape[2] // k.shape[2]
    out = torch.empty(*q.shape[:3], v.shape[3], dtype=torch.float64, device=q.device)
    lse = torch.empty(q.shape[0], q.shape[2], q.shape[1], dtype=torch.float64, device=q.device)
    seen = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool, device=q.device)
    seen = seen.tril(k.shape[1] - q.shape[1])
    for batch, head in product(range(q.shape[0]), range(q.shape[2])):
        keys, values = (x[batch, :, head // groups].double() for x in (k, v))
        scores = q[batch, :, head].double() @ keys.mT / math.sqrt(q.shape[3])
        if causal:
            scores.masked_fill_(~seen, -math.inf)
        lse[batch, head] = scores.logsumexp(-1)
        out[batch, :, head] = scores.softmax(-1).nan_to_num_(0.0) @ values
    return out, lse


def attention_torch(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """What torch makes of it."""
    groups = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(groups, 2) for x in (k, v))
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    square = q.shape[2] == k.shape[2]
    mask = None
    if causal and not square:
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
        mask = mask.tril(k.shape[2] - q.shape[2])
    out = functional.scaled_dot_product_attention(q, k, v, mask, is_causal=causal and square)
    return out.transpose(1, 2).nan_to_num(0.0)

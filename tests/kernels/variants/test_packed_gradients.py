"""Gradients of variants of packed sequences: the edited specs in the interpreter, and what is
around their kernels, beside torch's gradients in float64.
"""

from __future__ import annotations

import math
from itertools import accumulate, pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.driver.binding import kernels_of
from schedgen.interpret.sequential import run
from schedgen.kernels import flash_attn_varlen_func
from schedgen.kernels.attention_varlen import SPEC
from schedgen.kernels.errors import GradientError
from schedgen.kernels.variants import calling, gradients
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec

QUERIES, KEYS = (37, 0, 1, 33), (20, 5, 0, 70)
HEADS, DIM = 2, 64
SMALL = {"queries": "16", "keys": "16", "head_dim": "64"}
SLOPES = torch.tensor([0.25, 0.5])
VARIANTS: dict[str, dict[str, Any]] = {
    "window": {"window_size": (12, 3)},
    "window and sinks": {"window_size": (9, 0), "sinks": torch.tensor([0.5, -1.0])},
    "soft cap": {"softcap": 2.0},
    "slopes": {"causal": True, "alibi_slopes": SLOPES},
    "all": {"window_size": (30, 30), "softcap": 3.0, "alibi_slopes": SLOPES},
}


def starts() -> tuple[Tensor, Tensor]:
    begin_q, begin_k = (torch.tensor(list(accumulate(n, initial=0))) for n in (QUERIES, KEYS))
    return begin_q.int(), begin_k.int()


def scores_of(m: int, n: int, products: Tensor, given: dict[str, Any]) -> Tensor:
    """What becomes of products of a sequence, (heads, m, n), -inf where nothing is kept."""
    scores, cap = products / 8, given.get("softcap", 0.0)
    away = torch.arange(n) - torch.arange(m)[:, None] - (n - m)
    if cap:
        scores = cap * torch.tanh(scores / cap)
    if "alibi_slopes" in given:
        scores = scores - SLOPES.double()[:, None, None] * away.abs()
    left, right = given.get("window_size", (1000, 0 if given.get("causal") else 1000))
    return scores.masked_fill((away < -left) | (away > right), -math.inf)


def exact(leaves: list[Tensor], given: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Results, and logarithms of sums (heads, total), in float64."""
    q, k, v, *sinks = leaves
    k, v = (x.repeat_interleave(HEADS, 1) for x in (k, v))
    outs: list[Tensor] = []
    sums: list[Tensor] = []
    begins = zip(*(pairwise(accumulate(n, initial=0)) for n in (QUERIES, KEYS)), strict=True)
    for (q0, q1), (k0, k1) in begins:
        products = torch.einsum("qhd,khd->hqk", q[q0:q1], k[k0:k1])
        scores = scores_of(q1 - q0, k1 - k0, products, given)
        extra = sinks[0][:, None, None] if sinks else torch.full((HEADS, 1, 1), -math.inf).double()
        scores = torch.cat([scores, extra.expand(HEADS, q1 - q0, 1)], 2)
        blind = (scores == -math.inf).all(2)
        lse = scores.masked_fill(blind[..., None], 0.0).logsumexp(2)
        p = (scores - lse[..., None]).exp().masked_fill(blind[..., None], 0.0)[..., :-1]
        outs.append(torch.einsum("hqk,khd->qhd", p, v[k0:k1]))
        sums.append(lse.masked_fill(blind, -math.inf))
    return torch.cat(outs), torch.cat(sums, 1)


class Interpreted:
    """Stands in for a `SpecKernel`: the kernel with small tiles, as the interpreter executes it."""

    def __init__(self, wanted: calling.Asked, target: str) -> None:
        spec = read_spec(wanted.base) if wanted.plain else calling.spec_of(wanted)
        sizes = {"rows", "queries", "keys"} & spec.file.parameters.keys()
        dims = {"head_dim": str(DIM)} if "head_dim" in spec.file.parameters else {}
        small = dict.fromkeys(sizes, "16") | dims
        self.kernel = kernels_of(spec, read_machine(target), small)[0]
        self.stored = [store.to for store in spec.file.stores]
        self.facts = SimpleNamespace(parameters=self.kernel.arguments)
        self.free = ("seq_q",) if ("alibi_slopes", "1") in wanted.kinds else ("batch", "seq_q")

    def __call__(self, **given: Any) -> tuple[Tensor, ...]:
        longest = given.pop("seq_q")
        read = {name: x for name, x in given.items() if name != "batch"}
        return tuple(self._run(read, longest).values())

    def store(self, *arguments: Any) -> None:
        names = [argument.name for argument in self.kernel.arguments]
        given = dict(zip(names, arguments, strict=True))
        read = {name: x for name, x in given.items() if name not in self.stored}
        made = self._run(read, given["lse"].shape[2])
        for name, value in made.items():
            packed = name in ("dq", "dk", "dv")  # what is not stored stays
            given[name].copy_(value.where(~torch.isnan(value), given[name]) if packed else value)

    def _run(self, given: dict[str, Any], longest: int) -> dict[str, Tensor]:
        inputs = {name: torch.as_tensor(x) for name, x in given.items()}
        extents = {"batch": len(given["cu_seqlens_q"]) - 1, "seq_q": longest}
        return run(self.kernel, inputs, extents)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> list[calling.Asked]:
    """What kernels are asked for, which the interpreter executes."""
    found: list[calling.Asked] = []

    def kernel_of(wanted: calling.Asked, target: str, settings: Any) -> Interpreted:
        del settings
        found.append(wanted)
        return Interpreted(wanted, target)

    arch = {"h200": "sm_90a", "b200": "sm_100a"}[request.param]
    monkeypatch.setattr(calling, "kernel_of", kernel_of)
    monkeypatch.setattr("schedgen.kernels.checks.devices", lambda **_: torch.device("cpu"))  # pyright: ignore
    monkeypatch.setattr("schedgen.kernels.keys.architecture", lambda _: arch)  # pyright: ignore
    return found


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["h200", "b200"], indirect=True)
@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients(asked: list[calling.Asked], variant: str) -> None:
    """Through the forward pass, and through logarithms of sums, of sequences without queries or
    keys among others.
    """
    given = dict(VARIANTS[variant])
    sinks = [given.pop("sinks").requires_grad_()] if "sinks" in given else []
    heads = ((sum(QUERIES), HEADS), (sum(KEYS), 1), (sum(KEYS), 1))
    leaves = [torch.randn(*each, DIM).bfloat16().requires_grad_() for each in heads]
    named = {**given, "sinks": sinks[0]} if sinks else given
    q, k, v = leaves
    both = flash_attn_varlen_func(
        q, k, v, *starts(), max(QUERIES), max(KEYS), return_lse=True, **named
    )
    right = [x.detach().double().requires_grad_() for x in [*leaves, *sinks]]
    out, lse = exact(right, given)
    seen = torch.isfinite(lse)
    assert torch.equal(torch.isfinite(both[1]), seen)
    dout, dlse = torch.randn(out.shape).bfloat16(), torch.randn(lse.shape) * seen
    found = torch.autograd.grad(both, [*leaves, *sinks], (dout, dlse))
    total = (out * dout.double()).sum() + (lse.masked_fill(~seen, 0.0) * dlse.double()).sum()
    for mine, its in zip(found, torch.autograd.grad(total, right), strict=True):
        assert (mine.double() - its).abs().max() <= 1.2e-2 * max(1.0, float(its.abs().max()))
    assert [one.base for one in asked] == [SPEC, *gradients.PACKED]


@pytest.mark.parametrize("asked", ["h200"], indirect=True)
def test_refused(asked: list[calling.Asked]) -> None:
    """No gradient of slopes, and no second derivative."""
    q, k, v = (torch.randn(20, 1, DIM).bfloat16().requires_grad_() for _ in range(3))
    begins = torch.tensor([0, 20], dtype=torch.int32)
    slopes = torch.tensor([0.5]).requires_grad_()
    out = flash_attn_varlen_func(q, k, v, begins, begins, 20, 20, alibi_slopes=slopes)
    with pytest.raises(GradientError, match="no gradient of 'alibi_slopes'"):
        out.sum().backward()

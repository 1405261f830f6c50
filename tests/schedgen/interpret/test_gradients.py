"""Gradients of attention by head_dim: what their specs compute, beside torch's in float64."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from schedgen.interpret.sequential import run
from schedgen.kernels.attention_arguments import walks
from schedgen.kernels.attention_backward import KEYS, QUERIES
from tests.schedgen.interpret.problems import kernel, random
from tests.schedgen.interpret.test_ragged import inputs
from tests.schedgen.interpret.test_ragged_gradients import derived as of_packed

SIZES = {"queries": "16", "keys": "16"}
DIMS = [(32, 32, False), (96, 96, True), (192, 128, True), (256, 256, False)]
"""head_dim of q and k, of v, and whether there is a causal mask."""


def derived(given: dict[str, Tensor], dout: Tensor, *, causal: bool) -> dict[str, Tensor]:
    """Of each head of k and v, with base-2 logarithms of sums and row sums."""
    q, k, v = (given[name].double() for name in ("q", "k", "v"))
    group = q.shape[2] // k.shape[2]
    leaves = [q, *(x.repeat_interleave(group, 2) for x in (k, v))]
    leaves = [x.clone().requires_grad_() for x in leaves]
    scores = torch.einsum("bqhd,bkhd->bhqk", *leaves[:2]) * q.shape[3] ** -0.5
    if causal:
        seen = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril(k.shape[1] - q.shape[1])
        scores = scores.masked_fill(~seen, -math.inf)
    out = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), leaves[2])
    found = torch.autograd.grad(out, leaves, dout.double())
    sums = {"lse": scores.detach().logsumexp(-1) * math.log2(math.e)}
    sums["delta"] = (out.detach() * dout.double()).sum(-1).mT
    return dict(zip(("dq", "dk", "dv"), found, strict=True)) | sums


@pytest.mark.parametrize("target", ["b200", "h200"])
@pytest.mark.parametrize(("head_dim", "head_dim_v", "causal"), DIMS)
def test_gradients(target: str, head_dim: int, head_dim_v: int, causal: bool) -> None:
    """Two heads that share keys; all tiles of queries have keys that their last row sees."""
    shapes = {"q": (37, 2, head_dim), "k": (41, 1, head_dim), "v": (41, 1, head_dim_v)}
    given = {name: random(1, *one, seed=n) for n, (name, one) in enumerate(shapes.items())}
    dout = random(1, 37, 2, head_dim_v, seed=4)
    right = derived(given, dout, causal=causal)
    given |= {name: right[name].float().contiguous() for name in ("lse", "delta")}
    given |= {"do": dout, "scale": torch.tensor(math.log2(math.e) * head_dim**-0.5)}
    told = {**SIZES, "head_dim": str(head_dim), "causal": str(causal).lower()}
    told |= {"head_dim_v": str(head_dim_v)} if head_dim_v != head_dim else {}
    made: dict[str, Tensor] = {}
    for spec, of in walks(KEYS, QUERIES, head_dim, head_dim_v):
        made |= run(kernel(spec, target, **told, **of), given)
    assert made.keys() == {"dq", "dk", "dv"}
    for name, mine in made.items():
        assert mine.shape == right[name].shape
        difference = (mine.double() - right[name]).abs().max()
        assert difference < 1e-2 * right[name].abs().max()


@pytest.mark.parametrize("target", ["b200", "h200"])
@pytest.mark.parametrize("of", ["keys", "values"])
def test_gradients_of_packed_sequences_alone(target: str, of: str) -> None:
    """One of two kernels, of sequences some of which have no queries or keys."""
    given = inputs(2, 1)
    dim = given["q"].shape[-1]
    dout = random(*given["q"].shape, seed=4)
    right = of_packed(given, dout, causal=True)
    lse = right["lse"] * math.log2(math.e)
    lse = lse.masked_fill(lse == -math.inf, 1e30)
    delta = torch.full_like(lse, math.nan)
    starts = [int(n) for n in given["cu_seqlens_q"]]
    sums = (right["o"].nan_to_num(0.0) * dout.double()).sum(-1).T
    for number, (begin, end) in enumerate(pairwise(starts)):
        delta[number, :, : end - begin] = sums[:, begin:end]
    given |= {"do": dout, "lse": lse.float(), "delta": delta.float()}
    told = {**SIZES, "head_dim": str(dim), "causal": "true", "alone": "true", "of": of}
    ((name, mine),) = run(kernel("attention_varlen_bwd_kv", target, **told), given).items()
    assert name == {"keys": "dk", "values": "dv"}[of]
    its = right[name]
    assert torch.equal(torch.isnan(mine), torch.isnan(its))
    difference, most = (x.nan_to_num(0.0).abs().max() for x in (mine.double() - its, its))
    assert difference < 1e-2 * most

"""Gradients of attention of packed sequences: both evaluations of their specs, beside torch's."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel
from schedgen.reference.evaluate import evaluate
from tests.schedgen.interpret.problems import kernel, random
from tests.schedgen.interpret.test_ragged import QUERIES, inputs

SETTINGS = {"queries": "16", "keys": "16", "head_dim": "64"}
EXTENTS = {"batch": len(QUERIES), "seq_q": max(QUERIES)}
LOG2_E = math.log2(math.e)


def begins(given: dict[str, Tensor]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where queries and keys of each sequence begin and end."""
    of_q, of_k = ([int(n) for n in given[f"cu_seqlens_{name}"]] for name in ("q", "k"))
    return list(zip(pairwise(of_q), pairwise(of_k), strict=True))


def derived(given: dict[str, Tensor], dout: Tensor, *, causal: bool) -> dict[str, Tensor]:
    """Sequence by sequence, in float64: gradients with those of each head of k and v, results, and
    logarithms of sums, padded. NaN where there is nothing.
    """
    q, k, v = (given[name].double() for name in ("q", "k", "v"))
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    shapes = {"o": q.shape, "dq": q.shape, "dk": k.shape, "dv": v.shape}
    found = {name: torch.full(shape, math.nan).double() for name, shape in shapes.items()}
    padded = (len(QUERIES), q.shape[1], max(QUERIES))
    found["lse"] = torch.full(padded, math.nan).double()
    for number, ((q0, q1), (k0, k1)) in enumerate(begins(given)):
        leaves = [x.clone().requires_grad_() for x in (q[q0:q1], k[k0:k1], v[k0:k1])]
        mine, its, values = (x.transpose(0, 1) for x in leaves)
        scores = mine @ its.mT * (float(given["scale"]) / LOG2_E)
        m, n = q1 - q0, k1 - k0
        if causal:
            seen = torch.ones(m, n, dtype=torch.bool).tril(n - m)
            scores = scores.masked_fill(~seen, -math.inf)
        lse = scores.logsumexp(-1) if n else torch.full(scores.shape[:2], -math.inf).double()
        p = (scores - lse.masked_fill(lse == -math.inf, 0.0)[..., None]).exp()
        out = (p @ values).transpose(0, 1)
        total = (out * dout[q0:q1].double()).sum()
        made = torch.autograd.grad(total, leaves)
        found["o"][q0:q1], found["lse"][number, :, :m] = out.detach(), lse.detach()
        places = {"dq": (q0, q1), "dk": (k0, k1), "dv": (k0, k1)}
        for (name, place), one in zip(places.items(), made, strict=True):
            found[name][slice(*place)] = one.nan_to_num(0.0)
    return found


@pytest.mark.medium
@pytest.mark.parametrize("target", ["b200", "h200"])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_packed_sequences(target: str, causal: bool) -> None:
    """Also of sequences without queries or keys, and with NaN behind the end of each."""
    given = inputs(2, 1)
    dout = random(*given["q"].shape, seed=4)
    right = derived(given, dout, causal=causal)
    given |= {"do": dout, "o": right["o"].nan_to_num(0.0).bfloat16()}
    of_sums = kernel("attention_varlen_bwd_delta", target, rows="16")
    found = checked(of_sums, {**given, "lse": right["lse"].float()})
    there = torch.isfinite(right["lse"])
    assert torch.equal(torch.isnan(found["lse2"]), torch.isnan(right["lse"]))
    assert (found["lse2"][~there & ~torch.isnan(right["lse"])] == 1e30).all()
    sums = (given["o"].double() * dout.double()).sum(-1)
    for number, ((q0, q1), _) in enumerate(begins(given)):
        mine = found["delta"][number, :, : q1 - q0].double()
        torch.testing.assert_close(mine, sums[q0:q1].T, rtol=0, atol=1e-4)
    given |= {"lse": found["lse2"], "delta": found["delta"]}
    for name in ("kv", "q"):
        settings = {**SETTINGS, "causal": str(causal).lower()}
        one = kernel(f"attention_varlen_bwd_{name}", target, **settings)
        for result, mine in checked(one, given).items():
            its = right[result]
            assert torch.equal(torch.isnan(mine), torch.isnan(its))
            difference, most = (x.nan_to_num(0.0).abs().max() for x in (mine.double() - its, its))
            assert difference < 1e-2 * most


@pytest.mark.medium
@pytest.mark.parametrize("target", ["b200", "h200"])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_packed_sequences_in_one_walk(target: str, causal: bool) -> None:
    """That of q is added to what is there: 0 where a sequence has no keys."""
    given = inputs(2, 1)
    dout = random(*given["q"].shape, seed=4)
    right = derived(given, dout, causal=causal)
    delta = torch.full_like(right["lse"], math.nan)
    sums = (right["o"].nan_to_num(0.0) * dout.double()).sum(-1).T
    for number, ((begin, end), _) in enumerate(begins(given)):
        delta[number, :, : end - begin] = sums[:, begin:end]
    lse = (right["lse"] * LOG2_E).masked_fill(right["lse"] == -math.inf, 1e30)
    given |= {"do": dout, "lse": lse.float(), "delta": delta.float()}
    given |= {"dq": torch.zeros(given["q"].shape)}
    settings = {"head_dim": "64", "causal": str(causal).lower()}
    found = checked(kernel("attention_varlen_bwd", target, **settings), given)
    found["dq"] *= float(given["scale"]) / LOG2_E
    for result, mine in found.items():
        its = right[result]
        if result != "dq":
            assert torch.equal(torch.isnan(mine), torch.isnan(its))
        difference, most = (x.nan_to_num(0.0).abs().max() for x in (mine.double() - its, its))
        assert difference < 1e-2 * most


def checked(one: Kernel, given: dict[str, Tensor]) -> dict[str, Tensor]:
    """The results of ``one``, which the other evaluation of the spec has, too."""
    names = {argument.name for argument in one.arguments}
    given = {name: value for name, value in given.items() if name in names}
    found = run(one, given, EXTENTS)
    numbers = {name: value.double().numpy() for name, value in given.items()}
    expected = evaluate(one, numbers, EXTENTS)
    for name, value in found.items():
        mine, its = value.double().numpy(), expected[name]
        stored = its.stores > 0
        assert (np.isnan(mine) == ~stored).all()
        assert np.abs(mine[stored] - its.number.value[stored]).max() < 0.05
    return found

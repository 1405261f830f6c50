"""Kernels of packed sequences that are not there: computed by torch on the CPU, one sequence after
the other. What lies behind the end of a sequence in padded tensors is NaN, but for what kernels of
gradients read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.kernels import layouts
from schedgen.kernels.attention_varlen import WHOLE
from schedgen.kernels.variants import calling
from schedgen.spec.reader import read_spec

Given = dict[str, Any]


def segments(given: Given) -> Iterator[tuple[int, slice, slice]]:
    """The number of each sequence, its queries and its keys."""
    both = (pairwise(given[f"cu_seqlens_{name}"].tolist()) for name in ("q", "k"))
    for number, (queries, keys) in enumerate(zip(*both, strict=True)):
        yield number, slice(*queries), slice(*keys)


class Packed:
    """Stands in for a `SpecKernel` of a spec as it is."""

    def __init__(self, wanted: calling.Asked, of: str = "", *, ordered: bool = False) -> None:
        assert wanted.plain
        self.base, self.causal = wanted.base, wanted.causal
        left_out = {"keys": {"dv"}, "values": {"v", "delta", "dk"}}.get(of, set[str]())
        left_out |= {"done", "n_tiles", *(() if ordered else ("turns",))}
        arguments = [n for n in read_spec(wanted.base).file.arguments if n not in left_out]
        told = (("turns", (("batch", 1), ("heads", 1)), "ceil(seq_q / 80)"),) if ordered else ()
        sums = ("dq",) if wanted.base == WHOLE else ()
        parameters = [SimpleNamespace(name=name) for name in arguments]
        self.facts = SimpleNamespace(parameters=parameters, turns=told, sums=sums, tells=None)

    def store(self, *arguments: Any) -> None:
        names = [parameter.name for parameter in self.facts.parameters]
        given = dict(zip(names, arguments, strict=True))
        for tensor in (x for x in arguments if isinstance(x, Tensor)):
            assert layouts.problem(tensor) is None
            assert tensor.numel()
        if self.base.endswith("_convert"):
            given["dq"].copy_(given["sum"] * given["scale"])
            return
        if "turns" in given:
            batch, heads, longest = given["lse"].shape
            assert not given["turns"].any()
            assert given["turns"].numel() == batch * heads * math.ceil(longest / 80)
        if self.base.endswith("_delta"):
            self._sums(given)
            return
        if "o" in given:
            given["lse"].fill_(math.nan)
        else:
            assert all(
                torch.isfinite(given[name]).all() for name in given.keys() & {"lse", "delta"}
            )
        for number, queries, keys in segments(given):
            self._sequence(given, number, queries, keys)

    def _sums(self, given: Given) -> None:
        do, o, lse = given["do"].float(), given["o"].float(), given["lse"]
        assert not given["delta"].any()
        assert not given["lse2"].any()
        for number, (begin, end) in enumerate(pairwise(given["cu_seqlens_q"].tolist())):
            here = number, slice(None), slice(0, end - begin)
            given["delta"][here] = (do[begin:end] * o[begin:end]).sum(-1).T
            given["lse2"][here] = (lse[here] * calling.LOG2_E).where(lse[here] > -1e30, 1e30)

    def _sequence(self, given: Given, number: int, queries: slice, keys: slice) -> None:
        q, heads = given["q"].float(), given["q"].shape[1]
        read = {name: given[name][keys].float() for name in given.keys() & {"k", "v"}}
        read = {name: x.repeat_interleave(heads // x.shape[1], 1) for name, x in read.items()}
        k = read["k"]
        q, m, n = q[queries], queries.stop - queries.start, keys.stop - keys.start
        scores = torch.einsum("qhd,khd->hqk", q, k) * (given["scale"] / calling.LOG2_E)
        seen = torch.ones(m, n, dtype=torch.bool)
        scores = scores.masked_fill(~(seen.tril(n - m) if self.causal else seen), -math.inf)
        here = number, slice(None), slice(0, m)
        if "o" in given:
            given["o"][queries] = torch.einsum(
                "hqk,khd->qhd", scores.softmax(-1).nan_to_num(0.0), read["v"]
            ).to(given["o"].dtype)
            given["lse"][here] = scores.logsumexp(-1)
            return
        do, lse = given["do"].float()[queries], given["lse"][here]
        p = torch.exp2(scores * calling.LOG2_E - lse[..., None])
        made = {"dv": ("hqk,qhd->khd", p, do, keys)}
        if "v" in read:
            ds = torch.einsum("qhd,khd->hqk", do, read["v"]) - given["delta"][here][..., None]
            ds = p * ds * (given["scale"] / calling.LOG2_E)
            made["dq"] = ("hqk,khd->qhd", ds, k, queries)
            made["dk"] = ("hqk,qhd->khd", ds, q, keys)
        for name in made.keys() & given.keys():
            formula, left, right, where = made[name]
            value = torch.einsum(formula, left, right)
            if name == "dq" and self.base == WHOLE:  # a sum of products without the softmax scale
                value = given[name][where] + value / (given["scale"] / calling.LOG2_E)
            given[name][where] = value.to(given[name].dtype)


def install(patch: pytest.MonkeyPatch) -> list[str]:
    """Puts them in the place of a Hopper GPU; returns the list of kernels to come."""
    found: list[str] = []

    def kernel_of(wanted: calling.Asked, target: str, settings: Any) -> Packed:
        assert target == "h200"
        found.append("_".join([wanted.base, *dict(settings).values(), *["causal"] * wanted.causal]))
        told = dict(settings)
        return Packed(wanted, told.get("of", ""), ordered="ordered" in told)

    patch.setattr(calling, "kernel_of", kernel_of)
    patch.setattr("schedgen.kernels.checks.devices", lambda **_: torch.device("cpu"))  # pyright: ignore
    patch.setattr("schedgen.kernels.keys.architecture", lambda _: "sm_90a")  # pyright: ignore
    return found

"""Kernels of attention's gradients that are made on first use, computed by torch on the CPU."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from schedgen.kernels.attention_backward import KEYS, QUERIES

RESULTS = {"": ("dk", "dv"), "keys": ("dk",), "values": ("dv",)}
"""By what is asked for of one of keys and values."""


class Walk:
    """Stands in for a `SpecKernel` of gradients."""

    def __init__(self, base: str, settings: Mapping[str, str], *, causal: bool = False) -> None:
        assert base in (KEYS, QUERIES)
        of = settings.get("of", "")
        results = ("dq",) if base == QUERIES else RESULTS[of]
        read = ("q", "k", "do", "lse") if of == "values" else ("q", "k", "v", "do", "lse", "delta")
        self.causal, self.free = causal, ()
        self.inputs, self.outputs = _named(*read, "scale"), _named(*results)
        self.facts = SimpleNamespace(parameters=(*_named(*read), *self.outputs, *_named("scale")))

    def __call__(self, **given: Any) -> Any:
        found, _ = self.told(**given)
        return found[0] if len(found) == 1 else found

    def told(self, **given: Any) -> tuple[tuple[Tensor, ...], None]:
        assert given.keys() == {one.name for one in self.inputs}
        return tuple(self._computed(given)[one.name] for one in self.outputs), None

    def store(self, *arguments: Any) -> None:
        names = [one.name for one in self.facts.parameters]
        given = dict(zip(names, arguments, strict=True))
        found = self._computed(given)
        for one in self.outputs:
            given[one.name].copy_(found[one.name])

    def _computed(self, given: Mapping[str, Any]) -> dict[str, Tensor]:
        """Probabilities and gradients of scores are not rounded."""
        q, k, do = (given[name].float() for name in ("q", "k", "do"))
        group, scale, dtype = q.shape[2] // k.shape[2], given["scale"], given["q"].dtype
        k = k.repeat_interleave(group, 2)
        p = torch.exp2(torch.einsum("bqhd,bkhd->bhqk", q, k) * scale - given["lse"][..., None])
        p = p.tril(k.shape[1] - q.shape[1]) if self.causal else p
        found = {"dv": torch.einsum("bhqk,bqhd->bkhd", p, do)}
        if "v" in given:
            v = given["v"].float().repeat_interleave(group, 2)
            ds = p * (torch.einsum("bqhd,bkhd->bhqk", do, v) - given["delta"][..., None])
            ds = ds * (scale * math.log(2))
            found["dk"] = torch.einsum("bhqk,bqhd->bkhd", ds, q)
            found["dq"] = torch.einsum("bhqk,bkhd->bqhd", ds, k)
        return {name: value.to(dtype) for name, value in found.items()}


def _named(*names: str) -> tuple[Any, ...]:
    return tuple(SimpleNamespace(name=name) for name in names)

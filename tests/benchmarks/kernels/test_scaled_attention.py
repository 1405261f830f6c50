"""`benchmarks/scaled_attention.py` without a GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.benchmarks import timing
from schedgen.driver import lock_file
from tests.kernels.test_attention_scaled_op import reference

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def scaled(
    q: Tensor, k: Tensor, v: Tensor, *factors: Tensor, causal: bool, prepared: bool = False
) -> Tensor:
    del prepared  # stays as it is, as on Blackwell
    return reference(q, k, v, factors[0], factors[1], factors[2], q.shape[3] ** -0.5, causal)[0]


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
    one = torch.ones(1)
    return scaled(q, k, v, one, one, one, causal=causal)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The command as a module, on the CPU by torch."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    found = import_module("scaled_attention")
    stand_ins: dict[str, Any] = {
        "DEVICE": "cpu",
        "scaled_attention": scaled,
        "attention": attention,
        "attention_values": lambda v: v,  # pyright: ignore
        "kernel": function_of_spec,
    }
    for name, value in stand_ins.items():
        monkeypatch.setattr(found, name, value)
    yield found
    for name in ("scaled_attention", "beside", "report"):
        sys.modules.pop(name, None)


def by_spec(
    q: Tensor, k: Tensor, v: Tensor, of_q: Tensor, of_k: Tensor, of_v: Tensor, scale: float
) -> tuple[Tensor, None]:
    """With a scale for powers of 2."""
    out = reference(q, k, v, of_q, of_k, of_v, scale / 1.4426950408889634, False)[0]
    return out, None


def function_of_spec(spec: str, **settings: Any) -> Any:
    assert (spec, settings.pop("keys")) == ("attention_fp8", "192")
    return by_spec


@pytest.mark.parametrize("causal", [False, True])
def test_candidates(script: Any, causal: bool) -> None:
    """All are near the reference in float64."""
    also = [] if causal else ["keys=192"]
    found = script.problem(2, 200, 4, 2, 64, causal=causal, also=also)
    names = [timing.OURS, f"{timing.OURS} with a copy", "bf16"]
    assert list(found.candidates) == names + [f"{timing.OURS} {one}" for one in also]
    for name, call in found.candidates.items():
        assert found.error(call()) < (5e-3 if name == "bf16" else 1e-5)
    assert found.error(torch.zeros(2, 200, 4, 64)) == 1
    assert found.flops == 4 * 2 * 4 * 200 * 200 * 64 / (2 if causal else 1)


def test_cases_and_kernels(script: Any) -> None:
    found = list(script.cases(script.PARTS))
    assert len(found) == 2 * len(script.SHAPES)
    names = script.kernels(script.PARTS)
    assert len(names) == len(set(names))
    assert set(names) <= {one.name for one in lock_file.every()}

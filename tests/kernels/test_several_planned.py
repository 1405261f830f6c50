"""Planned calls of plans of spec files, and of kernels with integers (the rest of plans is in
`test_operators`).
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
import torch
from torch import Tensor

from schedgen.kernels import PlanKernel, attention, attention_backward, kernel
from tests.kernels import test_operators
from tests.kernels.test_attention_op import operands
from tests.schedgen.driver.test_plan import SEEDS

pytestmark = test_operators.pytestmark
planned = test_operators.planned


@pytest.mark.medium
def test_several_kernels_in_one_call(planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of a spec file is planned as one: sums begin with zeros, numbers are of each call."""
    gradients = kernel("attention_gradients", target="h200", head_dim=64, ordered=False)
    assert isinstance(gradients, PlanKernel)
    test_operators.opened(gradients._operator, monkeypatch)  # pyright: ignore[reportPrivateUsage]
    for turn in range(4):
        q, k, v = operands(2, 50, 90, 2, 2, 64)
        out, lse = attention(q, k, v, return_lse=True)
        dout, scale = torch.randn_like(out), 0.125 * (turn + 1)
        planned.clear()
        found = gradients(q, k, v, out, lse, dout, scale)
        assert len(planned) == (3 if turn > 1 else 0)
        wanted = attention_backward(dout, q, k, v, out, lse, softmax_scale=scale)
        for mine, theirs in zip(found, wanted, strict=True):
            assert torch.allclose(mine.float(), theirs.float(), rtol=2e-2, atol=2e-2)


@pytest.mark.medium
@pytest.mark.parametrize("as_plan", [False, True])
def test_seeds_are_those_of_each_call(
    as_plan: bool, planned: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Integers are no part of a signature, and nothing is remembered of them."""
    path = tmp_path / "seeds.yaml"
    path.write_text(SEEDS, "utf-8")
    drop = kernel(path if as_plan else "dropout", target="h200")
    test_operators.opened(drop._operator, monkeypatch)  # pyright: ignore[reportPrivateUsage]
    x = torch.ones(64, 72).bfloat16()
    named = {"p": 0.5, "scale": 2.0}
    found: list[Tensor] = []
    for seed in (5, 6, 7, 8, 9):
        low = {"low": seed} if as_plan else {"seed_low": seed, "seed_high": 7}
        found.append(drop(x, **named, **low))
    assert len(planned) == 3
    assert not any(torch.equal(one, other) for one, other in combinations(found, 2))

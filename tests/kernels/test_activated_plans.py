"""Planned calls of products with an activation (the rest of plans is in `test_operators`)."""

from __future__ import annotations

import pytest
import torch

from schedgen.kernels import gemm, gemm_op
from tests.kernels import test_operators
from tests.kernels.test_gemm_op import random

pytestmark = test_operators.pytestmark
planned = test_operators.planned


@pytest.mark.parametrize("bias", [True, False])
def test_activated_products(planned: list[str], bias: bool) -> None:
    for turn in range(4):
        a, b = random(64, 40, seed=turn), random(40, 72, seed=turn + 9)
        row = random(72, seed=turn + 5) if bias else None
        found, out = gemm(a, b, bias=row, activation="gelu"), torch.empty(64, 72).bfloat16()
        gemm(a, b, bias=row, activation="gelu", out=out)
        wanted = torch.empty_like(found)
        gemm_op._compute(  # pyright: ignore[reportPrivateUsage]
            torch.device("cpu"), False, (a, b, row), 1.0, 1.0, wanted, activated=True
        )
        assert torch.equal(found, wanted)
        assert torch.equal(out, wanted)
    assert len(planned) == 2 * 2

"""Planned calls of products with other epilogues (the rest of plans is in `test_operators`)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.kernels import (
    dropout,
    dropout_op,
    gated_op,
    gemm,
    gemm_dropout,
    gemm_gated,
    gemm_op,
    gemm_rms,
    gemm_scaled,
    scaled_gemm,
)
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


def test_gated_products(planned: list[str]) -> None:
    for turn in range(4):
        a, gate, up = random(64, 40, seed=turn), random(72, 40, seed=9).mT, random(72, 40).mT
        found, out = gemm_gated(a, gate, up), torch.empty(64, 72).bfloat16()
        gemm_gated(a, gate, up, out=out)
        wanted = torch.empty_like(found)
        cpu = torch.device("cpu")
        gated_op._compute(cpu, "silu", (a, gate, up), None, wanted)  # pyright: ignore
        assert torch.equal(found, wanted)
        assert torch.equal(out, wanted)
    assert len(planned) == 2 * 2


@pytest.mark.parametrize("seed", [3, -1, 2**63 + 5])
def test_dropout(planned: list[str], seed: int) -> None:
    """One plan for all seeds: they are others in each call."""
    b, bias = random(72, 40, seed=9).mT, random(72, seed=4)
    for turn in range(4):
        a, c = random(64, 40, seed=turn), random(64, 72, seed=turn + 5)
        found = gemm_dropout(a, b, 0.25, seed + turn, bias=bias, residual=c)
        kept = dropout(torch.ones_like(c), 0.25, seed + turn).double()
        wanted = kept * (a.double() @ b.double() + bias.double()) + c.double()
        assert torch.allclose(found.double(), wanted, rtol=2**-6, atol=2e-2)
    assert len(planned) == 2 * 2


def test_integers_that_kernels_have_no_room_for(
    planned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No plan is for them, also where there is one for all others."""
    computed: list[int] = []
    compute = dropout_op.ELEMENTS._compute  # pyright: ignore[reportPrivateUsage]

    def counting(x: Tensor, *drawn: Any) -> Tensor:
        computed.append(int(drawn[2]))
        return compute(x, *drawn)

    monkeypatch.setattr(dropout_op.ELEMENTS, "_compute", counting)
    for low in (3, 4, -(2**31), 2**31 - 1, 2**31):
        dropout_op.ELEMENTS(random(64, 72), 0.5, 2.0, low, 0)
    assert planned
    assert set(computed) == {3, 4, 2**31}  # the second call makes a plan


@pytest.mark.parametrize("residual", [True, False])
def test_normalization(planned: list[str], residual: bool) -> None:
    for turn in range(4):
        a, b, w = random(2, 33, 40, seed=turn), random(72, 40, seed=9).mT, random(40, 72).mT
        c = random(2, 33, 72, seed=turn + 5) if residual else None
        d, r = gemm_rms(a, b, c)
        right = a.double() @ b.double() + (0.0 if c is None else c.double())
        assert torch.allclose(d.double(), right, rtol=2**-7, atol=1e-2)
        assert torch.allclose(r.double(), (right.square().mean(-1) + 1e-6).rsqrt(), rtol=1e-5)
        found, out = gemm_scaled(d, w, r), torch.empty(2, 33, 40).bfloat16()
        gemm_scaled(d, w, r, out=out)
        wanted = r.double()[..., None] * (d.double() @ w.double())
        assert torch.allclose(found.double(), wanted, rtol=2**-7, atol=1e-2)
        assert torch.equal(out, found)
    assert len(planned) == 2 * 4  # calls after the second; `gemm_rms` launches two kernels


@pytest.mark.parametrize("rows", [True, False])
def test_operands_of_8_bits(planned: list[str], rows: bool) -> None:
    """Factors of rows, or of whole operands, which are spread over rows."""
    for turn in range(4):
        a, b = (random(64, 48, seed=turn + n).to(torch.float8_e4m3fn) for n in (0, 9))
        scale = torch.rand(64, 1) if rows else torch.rand(())
        other = torch.rand(1, 64) if rows else torch.rand(())
        wanted = scale * (a.float() @ b.float().mT) * other
        found, out = scaled_gemm(a, b.mT, scale, other), torch.empty(64, 64).bfloat16()
        assert torch.allclose(found.float(), wanted, rtol=2**-7)
        assert gemm(a, b.mT, scale_a=scale, scale_b=other, out=out) is out
        assert torch.equal(out, found)
    assert len(planned) == 2 * 2


@pytest.mark.parametrize("along_m", [False, True])
def test_factors_of_long_blocks(planned: list[str], along_m: bool) -> None:
    """Those of b are copied where they lie along n; those of a where they lie along k."""
    for turn in range(4):
        a, b = (random(64, 512, seed=turn + n).to(torch.float8_e4m3fn) for n in (0, 9))
        scale, other = torch.rand(64, 4), torch.rand(4, 1)
        scale = scale.mT.contiguous().mT if along_m else scale
        left = a.float() * scale.repeat_interleave(128, 1)
        wanted = left @ (b.float() * other.mT.repeat_interleave(128, 1)).mT
        found = scaled_gemm(a, b.mT, scale, other)
        assert torch.allclose(found.float(), wanted, rtol=2**-6, atol=0.1)
    assert len(planned) == 2


@pytest.mark.parametrize("factors", ["rows", "blocks", "whole"])
def test_a_plan_made_for_alpha_1_is_not_one_for_another_alpha(
    planned: list[str], factors: str
) -> None:
    """It is multiplied into factors there, unless it is 1."""
    a, b = (random(64, 512, seed=n).to(torch.float8_e4m3fn) for n in (0, 9))
    shapes = {"rows": ((64, 1), (1, 64)), "blocks": ((64, 4), (4, 1)), "whole": ((), ())}
    scale, other = (torch.rand(shape) for shape in shapes[factors])
    once = scaled_gemm(a, b.mT, scale, other)
    for _ in range(3):
        assert torch.equal(scaled_gemm(a, b.mT, scale, other), once)
    for alpha in (2.0, 0.5, 2.0, 1.0):
        assert torch.equal(scaled_gemm(a, b.mT, scale, other, alpha=alpha), once * alpha)
    assert planned


def test_one_number_beside_factors_of_rows_has_any_shape(planned: list[str]) -> None:
    a, b = (random(64, 48, seed=n).to(torch.float8_e4m3fn) for n in (0, 9))
    rows = torch.rand(1, 64)
    wanted = scaled_gemm(a, b.mT, torch.full((), 0.5), rows)
    for _ in range(3):
        assert torch.equal(scaled_gemm(a, b.mT, torch.full((1, 1, 1), 0.5), rows), wanted)
    assert planned

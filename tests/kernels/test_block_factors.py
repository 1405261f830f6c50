"""Factors of blocks of a weight, prepared once; with products they are in `test_scaled_op`."""

from __future__ import annotations

import pytest
import torch

from schedgen.kernels import block_factors
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError


def test_factors_of_blocks_once() -> None:
    factors = block_factors(torch.arange(6.0).view(2, 3))
    assert factors.is_contiguous()
    assert factors.tolist() == [[float(n) for n in range(r, r + 3) for _ in "four"] for r in (0, 3)]
    with pytest.raises(ArgumentTypeError, match=r"allowed: torch\.float32"):
        block_factors(torch.zeros(2, 3).bfloat16())
    with pytest.raises(ArgumentValueError, match=r"\(..., k / 128, n / 128\)"):
        block_factors(torch.zeros(3))

"""Factors of blocks of a weight, copied once; with products they are in `test_scaled_op`."""

from __future__ import annotations

import pytest
import torch

from schedgen.kernels import block_factors
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError


def test_factors_of_blocks_lie_along_k() -> None:
    given = torch.arange(12.0).view(4, 3)
    factors = block_factors(given)
    assert torch.equal(factors, given)
    assert factors.mT.is_contiguous()
    assert block_factors(factors).data_ptr() == factors.data_ptr()
    rows = block_factors(torch.zeros(6, 3)).mT.stride()[0]
    assert rows % 4 == 0  # a bulk copy begins rows at multiples of 16 bytes
    with pytest.raises(ArgumentTypeError, match=r"allowed: torch\.float32"):
        block_factors(torch.zeros(2, 3).bfloat16())
    with pytest.raises(ArgumentValueError, match=r"\(..., k / 128, n / 128\)"):
        block_factors(torch.zeros(3))

"""Copies of factors of products' blocks to tensor memory, and products with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.schedgen.conform.conftest import Compiled

NVFP4 = "gemm_blockscaled_sm_100a_e2m1x2_e4m3"
"""Its right operand has two parts of four groups."""


@pytest.mark.slow
def test_groups_are_where_they_should_be(compiled: Callable[[str], Compiled]) -> None:
    kernel = compiled(NVFP4)
    assert kernel.conforms().holds
    body = kernel.code.body
    copies = [n for n, one in enumerate(body) if one.name.startswith("tcgen05.cp.")]
    assert len(copies) == 4 + 8
    for at, other in pairwise(copies):
        to, source = body[at].operands
        another_to, another = body[other].operands
        for wrong in ((to, another), (another_to, source)):
            assert not kernel.conforms(kernel.changed(at, replace(body[at], operands=wrong))).holds
    for at in (copies[0], copies[-1]):
        assert not kernel.conforms(kernel.changed(at, None)).holds

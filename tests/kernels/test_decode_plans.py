"""Planned calls of decode (the rest of plans is in `test_operators`)."""

from __future__ import annotations

import pytest
import torch

from schedgen.kernels import attention_decode
from schedgen.kernels.attention_decode import _attention_decode, _decode  # pyright: ignore
from tests.kernels import test_operators
from tests.kernels.test_attention_op import operands

pytestmark = test_operators.pytestmark
planned = test_operators.planned


@pytest.mark.medium
@pytest.mark.parametrize(
    ("tokens", "heads", "heads_k"), [(1, 8, 2), (1, 6, 2), (2, 8, 2), (3, 3, 1)]
)
def test_copies_are_steps_of_plans(
    monkeypatch: pytest.MonkeyPatch,
    planned: list[str],
    tokens: int,
    heads: int,
    heads_k: int,
) -> None:
    """Results are copied where rows of tiles are not the heads of one token, four or a multiple;
    operands of several tokens are."""
    test_operators.opened(_attention_decode, monkeypatch)
    for turn in range(4):
        q, k, v = (x + turn for x in operands(2, tokens, 300, heads, heads_k))
        scale = 0.125 * (turn + 1)
        out, lse = attention_decode(q, k, v, softmax_scale=scale, split=128, return_lse=True)
        wanted = _decode(q, k, v, scale, False, 128)
        assert torch.equal(out, wanted[0])
        assert torch.allclose(lse, wanted[1], rtol=1e-5)
    assert len(planned) == 2 * 2

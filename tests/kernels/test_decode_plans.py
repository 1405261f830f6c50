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


@pytest.mark.parametrize(
    ("tokens", "heads", "heads_k", "plans"), [(1, 8, 2, True), (1, 6, 2, False), (2, 8, 2, False)]
)
def test_single_tokens(
    monkeypatch: pytest.MonkeyPatch,
    planned: list[str],
    tokens: int,
    heads: int,
    heads_k: int,
    plans: bool,
) -> None:
    """Nothing is copied where rows of tiles are the heads of one token, four or a multiple."""
    test_operators.opened(_attention_decode, monkeypatch)
    for turn in range(4):
        q, k, v = (x + turn for x in operands(2, tokens, 300, heads, heads_k))
        scale = 0.125 * (turn + 1)
        out, lse = attention_decode(q, k, v, softmax_scale=scale, split=128, return_lse=True)
        wanted = _decode(q, k, v, scale, False, 128)
        assert torch.equal(out, wanted[0])
        assert torch.allclose(lse, wanted[1], rtol=1e-5)
    assert len(planned) == (2 * 2 if plans else 0)

"""Gradients of variants are computed by a plan from the third backward pass on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from schedgen.kernels import attention, attention_backward, library
from schedgen.kernels.of_spec import SpecKernel
from schedgen.kernels.variants import gradients
from schedgen.kernels.variants.calling import asked
from schedgen.kernels.variants.planned import (
    _operator,  # pyright: ignore[reportPrivateUsage]
    of_caller,
)
from tests.kernels import test_operators
from tests.kernels.test_attention_op import operands

pytestmark = test_operators.pytestmark
planned = test_operators.planned

FILES = [
    "attention_bwd_delta_sm_90a_bf16.py",
    "attention_bwd_kv_sm_90a_head_dim64_bf16.py",
    "attention_bwd_q_sm_90a_head_dim64_bf16.py",
]
MASK = "column >= first"


def test_gradients_are_planned(planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """All their launches are one plan, of other tensors and numbers, too; that of ``lse`` is
    subtracted in Python.
    """
    kernels = [SpecKernel(library.named(name)) for name in FILES]
    for kernel in kernels:
        test_operators.opened(kernel._operator, monkeypatch)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(gradients, "_kernels", lambda *_: kernels)  # pyright: ignore
    q, k, v = operands(1, 50, 30, 4, 2, 64)
    out, lse = attention(q, k, v, return_lse=True)
    wanted = asked(MASK, None, False, None, {"first": 0.0})
    named: dict[str, Any] = {"q": q, "k": k, "v": v, "do": q, "o": out, "lse": lse, "scale": 0.125}
    named |= of_caller(None, {"first": 0.0})
    takes = tuple((name, "Tensor" if torch.is_tensor(x) else "float") for name, x in named.items())
    test_operators.opened(_operator(gradients._FUNCTION, wanted, takes), monkeypatch)  # pyright: ignore
    for turn in range(5):
        q, k, v = (x + turn / 4 for x in operands(1, 50, 30, 4, 2, 64))
        out, lse = attention(q, k, v, return_lse=True)
        dout = torch.randn_like(q)
        right = attention_backward(dout, q, k, v, out, lse)
        planned.clear()
        given = wanted, 0.125, None, {"first": float(turn)}
        found = gradients.backward(dout, (q, k, v), (out, lse), None, *given)
        assert planned == (FILES if turn > 1 else [])
        for mine, its in zip(found, right, strict=False):
            torch.testing.assert_close(mine, its, rtol=0, atol=0)
    planned.clear()
    through_lse = gradients.backward(dout, (q, k, v), (out, lse), lse, *given)  # pyright: ignore
    assert not set(FILES[1:]) & set(planned)
    assert not torch.equal(through_lse[0], found[0])  # pyright: ignore

"""Planned calls of gradients (the rest of plans is in `test_operators`)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from schedgen.kernels import attention, attention_backward, launcher, one_walk
from schedgen.kernels.attention_backward import (
    _attention_bwd,  # pyright: ignore[reportPrivateUsage]
    _attention_bwd_unordered,  # pyright: ignore[reportPrivateUsage]
    _backward,  # pyright: ignore[reportPrivateUsage]
)
from tests.kernels import test_operators
from tests.kernels.test_attention_backward import near
from tests.kernels.test_attention_op import operands

pytestmark = test_operators.pytestmark
planned = test_operators.planned


@pytest.mark.medium
@pytest.mark.parametrize(("heads", "plans"), [(2, True), (4, False)])
def test_gradients(
    monkeypatch: pytest.MonkeyPatch, planned: list[str], heads: int, plans: bool
) -> None:
    """Three kernels from a plan; where heads share keys, torch adds up, which no plan does."""
    test_operators.opened(_attention_bwd, monkeypatch)
    for turn in range(4):
        q, k, v = (x + turn for x in operands(2, 40, 24, heads, 2))
        scale = 0.125 * (turn + 1)
        out, lse = attention(q, k, v, softmax_scale=scale, return_lse=True)
        before = len(planned)
        dout = torch.randn(out.shape).to(out.dtype)
        found = attention_backward(dout, q, k, v, out, lse, softmax_scale=scale)
        wanted = _backward(dout, q, k, v, out, lse, None, scale, False)
        assert all(map(near, found, wanted))
        assert len(planned) - before == (3 if plans and turn > 1 else 0)


@pytest.mark.medium
def test_gradients_in_any_order(monkeypatch: pytest.MonkeyPatch, planned: list[str]) -> None:
    """Three kernels from a plan, which fills what is added to with zeros in each call."""
    test_operators.opened(_attention_bwd_unordered, monkeypatch)
    for turn in range(4):
        q, k, v = (x + turn for x in operands(1, 40, 24, 2, 2, 64))
        out, lse = attention(q, k, v, return_lse=True)
        before = len(planned)
        dout = torch.randn(out.shape).to(out.dtype)
        found = attention_backward(dout, q, k, v, out, lse, deterministic=False)
        wanted = _backward(dout, q, k, v, out, lse, None, 0.125, False)
        assert all(map(near, found, wanted))
        names = planned[before:]
        assert len(names) == (3 if turn > 1 else 0)
        assert turn < 2 or "attention_bwd_sm" in names[1]


@pytest.mark.medium
def test_gradients_in_turns(monkeypatch: pytest.MonkeyPatch, planned: list[str]) -> None:
    """How many SMs there are is asked of the GPU of a call, also while its plan is made of tensors
    that are on none.
    """

    def one(device: torch.device) -> int:
        assert device.type != "meta"
        return 1

    monkeypatch.setattr(launcher, "multiprocessors", one)
    monkeypatch.setattr(one_walk, "IN_ORDER_FROM", 1)
    test_operators.opened(_attention_bwd, monkeypatch)
    for turn in range(4):
        q, k, v = (x + turn for x in operands(2, 40, 24, 2, 2, 64))
        out, lse = attention(q, k, v, return_lse=True)
        before = len(planned)
        dout = torch.randn(out.shape).to(out.dtype)
        found = attention_backward(dout, q, k, v, out, lse)
        wanted = _backward(dout, q, k, v, out, lse, None, 0.125, False)
        assert all(map(near, found, wanted))
        names = planned[before:]
        assert len(names) == (3 if turn > 1 else 0)
        assert turn < 2 or "_ordered" in names[1]


def test_gradients_and_modes(planned: list[str]) -> None:
    """Where torch has to know what is computed, the operator itself is called."""
    q, k, v = operands(1, 16, 16, 1, 1, 64)
    for _ in range(3):
        attention(q, k, v)
    assert (before := len(planned))
    needs = q.clone().requires_grad_()
    attention(needs, k, v).sum().backward()
    with torch.no_grad():
        assert not attention(needs, k, v).requires_grad
    assert len(planned) == before + 2  # the operator knows the plan, too
    seen: list[str] = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Mode():
        attention(q, k, v)
    assert seen[0] == "schedgen.attention_fwd.default"

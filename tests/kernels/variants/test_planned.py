"""Calls of variants: what they compute is computed by a plan from the third call on."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from schedgen.kernels import attention, attention_rows, library, plans
from schedgen.kernels.of_spec import SpecKernel
from schedgen.kernels.variants.calling import LOG2_E, Asked, expressed
from schedgen.kernels.variants.planned import (
    Function,
    Named,
    _operator,  # pyright: ignore[reportPrivateUsage]
    call,
    from_caller,
    of_caller,
)
from tests.kernels import test_operators
from tests.kernels.test_attention_op import operands

pytestmark = test_operators.pytestmark
planned = test_operators.planned

WANTED = Asked(None, "score * factor", False, False, (("factor", "real"),))
FILE = "attention_fwd_sm_90a_head_dim64_bf16.py"


def function_of(name: str, computed: list[str], patch: pytest.MonkeyPatch) -> Function:
    """Attention of queries that are converted first, whose scores are multiplied by a number;
    ``computed`` has a line for each time that Python computes it.
    """
    kernel = SpecKernel(library.named(FILE))
    test_operators.opened(kernel._operator, patch)  # pyright: ignore[reportPrivateUsage]

    def compute(wanted: Asked, named: Named) -> tuple[Tensor, Tensor]:
        computed.append("plan" if plans.current() is not None else "call")
        sinks, given = from_caller(named)
        assert wanted == WANTED
        assert sinks is None
        q = named["q"].permute(0, 2, 1, 3).bfloat16()
        return kernel(q=q, k=named["k"], v=named["v"], scale=given["factor"] * LOG2_E)

    def room(named: Named) -> tuple[Tensor, Tensor]:
        return attention_rows.room(named["q"].transpose(1, 2), 64, torch.bfloat16)

    return Function(name, compute, room)


def test_they_are_planned(planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []
    function = function_of("variant_planned", computed, monkeypatch)
    takes = (("q", "Tensor"), ("k", "Tensor"), ("v", "Tensor"), ("given factor", "float"))
    test_operators.opened(_operator(function, WANTED, takes), monkeypatch)
    for turn in range(5):
        q, k, v = (x + turn for x in operands(1, 50, 30, 2, 1, 64))
        factor = 0.125 * (1 + turn)
        named = {"q": q.transpose(1, 2).float(), "k": k, "v": v}
        out, lse = call(function, WANTED, named | of_caller(None, {"factor": factor}))
        wanted, wanted_lse = attention(q, k, v, softmax_scale=factor, return_lse=True)
        assert torch.equal(out, wanted)
        assert torch.equal(lse, wanted_lse)
    assert computed == ["call", "call", "plan"]
    assert planned.count(FILE) >= 3


def test_torch_sees_what_it_has_to_see(planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where gradients are asked for, or something else is done with calls, there is no plan."""
    computed: list[str] = []
    function = function_of("variant_seen", computed, monkeypatch)
    q, k, v = operands(1, 50, 30, 2, 1, 64)
    named = {"q": q.transpose(1, 2).float().requires_grad_(), "k": k, "v": v}
    for _ in range(4):
        call(function, WANTED, named | of_caller(None, {"factor": 1.0}))
    assert computed == ["call"] * 4
    with torch.no_grad():
        call(function, WANTED, named | of_caller(None, {"factor": 1.0}))
    assert computed == ["call"] * 5
    assert len(planned) == 3  # the kernel's own operator, which tells torch of gradients, has one


def test_names_of_callers_are_their_own() -> None:
    """A number that is called as an operand is not taken for it."""
    named = {"q": 1, "scale": 2} | of_caller(torch.ones(2), {"q": 3, "sinks": 4})
    sinks, given = from_caller(named)
    assert sinks is not None
    assert given == {"q": 3, "sinks": 4}
    assert named["q"] == 1


def test_numbers_of_a_plan_stay_such() -> None:
    number = plans.Number(0.5, 3)
    wanted = Asked(None, "score * factor", False, False, (("factor", "real"),))
    like = torch.empty(1)
    passed = expressed(wanted, {}, like, number, None, {"factor": plans.Number(0.25, 4)})
    found = [x for x in passed.values() if isinstance(x, plans.Number)]
    assert {(x.argument, x.factor) for x in found} == {(3, 1.0), (4, 1.0)}
    assert math.isclose(float(passed["scale"]), LOG2_E)

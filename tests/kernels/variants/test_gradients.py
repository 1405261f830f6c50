"""Gradients of variants around their kernels, which torch computes here: of shared heads, of sinks
and of ``lse``, and what is refused. The kernels are in test_backward.py and test_in_emulator.py.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.errors import SchedgenError
from schedgen.kernels import attention, flash_attn_func
from schedgen.kernels.errors import GradientError
from schedgen.kernels.variants import calling, gradients
from schedgen.kernels.variants.backward import QUERIES
from schedgen.kernels.variants.calling import Asked
from tests.kernels.walks import Walk

SEQ_Q, SEQ_K = 7, 9


def scores_of(q: Tensor, k: Tensor, scale: float) -> Tensor:
    k = k.float().repeat_interleave(q.shape[2] // k.shape[2], 2)
    return torch.einsum("bqhd,bkhd->bhqk", q.float(), k) * (scale / calling.LOG2_E)


def forward(q: Tensor, k: Tensor, v: Tensor, scale: float, **given: Any) -> tuple[Tensor, Tensor]:
    """With sinks."""
    scores = scores_of(q, k, scale)
    sinks = given.get("sink", torch.full((q.shape[2],), -math.inf))
    lse = torch.logaddexp(scores.logsumexp(3), sinks[:, None])
    p = (scores - lse[..., None]).exp()
    v = v.float().repeat_interleave(q.shape[2] // v.shape[2], 2)
    return torch.einsum("bhqk,bkhd->bqhd", p, v).to(q.dtype), lse


def row_sums(do: Tensor, o: Tensor, lse: Tensor) -> tuple[Tensor, Tensor]:
    return (do.float() * o.float()).sum(3).mT.contiguous(), lse * calling.LOG2_E


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """Kernels that were asked for; torch computes them."""
    found: list[Asked] = []
    by_spec = {"attention_fwd": forward, gradients.DELTA: row_sums}

    def kernel_of(wanted: Asked, target: str, settings: Any) -> Any:
        assert target == "h200"
        assert dict(settings)["dtype"] == "bf16"
        found.append(wanted)
        return by_spec.get(wanted.base) or Walk(wanted.base, dict(settings))

    monkeypatch.setattr(calling, "kernel_of", kernel_of)
    monkeypatch.setattr("schedgen.kernels.checks.devices", lambda **_: torch.device("cpu"))  # pyright: ignore
    monkeypatch.setattr("schedgen.kernels.keys.architecture", lambda _: "sm_90a")  # pyright: ignore
    return found


def operands(head_dim: int = 64, head_dim_v: int | None = None) -> list[Tensor]:
    shapes = (SEQ_Q, 4, head_dim), (SEQ_K, 2, head_dim), (SEQ_K, 2, head_dim_v or head_dim)
    return [torch.randn(2, *s).bfloat16().requires_grad_() for s in shapes]


@pytest.mark.parametrize(("dims", "walks"), [((64,), 2), ((192, 128), 3)])
def test_sinks_and_shared_heads(made: list[Asked], dims: tuple[int, ...], walks: int) -> None:
    """Also through ``lse``; the kernels of gradients know nothing of sinks. Keys and values of wide
    heads have one each.
    """
    q, k, v = operands(*dims)
    sinks = torch.tensor([0.5, -1.0, 2.0, -math.inf]).requires_grad_()
    out, lse = attention(q, k, v, sinks=sinks, return_lse=True)
    dout, dlse = torch.randn(out.shape).bfloat16(), torch.randn(lse.shape)
    found = torch.autograd.grad((out, lse), (q, k, v, sinks), (dout, dlse))
    assert [wanted.sinks for wanted in made] == [True, False, *[False] * walks]
    leaves = [x.detach().double().requires_grad_() for x in (q, k, v, sinks)]
    k2, v2 = (x.repeat_interleave(2, 2) for x in leaves[1:3])
    scores = torch.einsum("bqhd,bkhd->bhqk", leaves[0], k2) * dims[0] ** -0.5
    sums = torch.logaddexp(scores.logsumexp(3), leaves[3][:, None])
    result = torch.einsum("bhqk,bkhd->bqhd", (scores - sums[..., None]).exp(), v2)
    total = (result * dout.double()).sum() + (sums * dlse.double()).sum()
    wanted = [x.nan_to_num(0.0) for x in torch.autograd.grad(total, leaves)]
    for mine, its in zip(found, wanted, strict=True):
        assert mine.dtype in (torch.bfloat16, torch.float32)
        assert (mine.double() - its).abs().max() <= 1e-2 * max(1.0, its.abs().max())


def test_only_lse(made: list[Asked]) -> None:
    q, k, v = operands()
    _, lse = attention(q, k, v, sinks=torch.zeros(4), return_lse=True)
    _, _, dv = torch.autograd.grad(lse.sum(), (q, k, v))
    assert not dv.any()


def test_nothing_to_compute(made: list[Asked]) -> None:
    q, k, v = operands()
    k, v = (x.detach()[:, :0].requires_grad_() for x in (k, v))
    sinks = torch.ones(4).requires_grad_()
    out, lse = attention(q, k, v, sinks=sinks, return_lse=True)
    (out.sum() + lse.sum()).backward()
    assert q.grad is not None
    assert not q.grad.any()
    assert torch.equal(sinks.grad, torch.full((4,), 2.0 * SEQ_Q))  # type: ignore[arg-type]
    assert not made


def test_nothing_asked_for(made: list[Asked]) -> None:
    """No graph is made, and no kernel of gradients."""
    q, k, v = (x.detach() for x in operands())
    assert not attention(q, k, v, sinks=torch.zeros(4)).requires_grad
    q, k, v = operands()
    with torch.no_grad():
        assert not attention(q, k, v, sinks=torch.zeros(4)).requires_grad
    assert len(made) == 2


def test_tensors_of_expressions_have_none(made: list[Asked]) -> None:
    """Which is said when one is asked for; what is detached is no matter."""
    q, k, v = operands()
    slopes = torch.zeros(4).requires_grad_()
    out = flash_attn_func(q, k, v, alibi_slopes=slopes)
    with pytest.raises(GradientError, match=r"no gradient of 'alibi_slopes'; fix: pass alibi_slop"):
        out.sum().backward()
    flash_attn_func(q, k, v, alibi_slopes=slopes.detach()).sum().backward()
    assert q.grad is not None


def test_score_without_derivative(made: list[Asked], monkeypatch: pytest.MonkeyPatch) -> None:
    """The forward pass computes it; the place is shown."""
    q, k, v = operands()
    score = "score + floor(2 * score)"
    out = attention(q, k, v, score=score)

    def kernel_of(wanted: Asked, target: str, settings: Any) -> Any:
        del target, settings
        return calling.spec_of(wanted) if wanted.base != gradients.DELTA else row_sums

    monkeypatch.setattr(calling, "kernel_of", kernel_of)
    with pytest.raises(GradientError) as found:
        out.sum().backward()
    shown = str(found.value)
    assert "score, column 9: error[no-derivative]: 'floor' of 'score' has no derivative" in shown
    assert f"  {score}\n  {' ' * 8}^^^" in shown


def test_kernels_that_the_compiler_refuses(
    made: list[Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    from schedgen.codegen.errors import EmitError

    q, k, v = operands()
    out = attention(q, k, v, mask="column <= row")

    def kernel_of(*_: Any) -> Any:
        raise EmitError("registers do not suffice")

    monkeypatch.setattr(calling, "kernel_of", kernel_of)
    with pytest.raises(GradientError, match=r"(?s)of this variant on h200: .*registers do not"):
        out.sum().backward()


def test_no_second_derivative(made: list[Asked]) -> None:
    q, k, v = operands()
    out = attention(q, k, v, sinks=torch.zeros(4))
    (dq,) = torch.autograd.grad(out.sum(), q, create_graph=True)
    with pytest.raises(GradientError, match="gradients of attention have no backward pass"):
        dq.sum().backward()


def test_where_no_kernel_takes_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks are computed, and the next process does not try again."""
    wanted = calling.asked("doc[row] == doc[column]", None, False, None, {"doc": torch.empty(1)})
    wanted = replace(wanted, base=QUERIES, blocks=True)
    asked: list[bool] = []

    def kernel_of(wanted: Asked, target: str, settings: Any) -> Any:
        asked.append(wanted.blocks)
        if wanted.blocks:
            raise SchedgenError("it spills")
        return "all blocks"

    monkeypatch.setattr(calling, "kernel_of", kernel_of)
    for _ in range(2):
        found = gradients._walking(wanted, "b200", (("head_dim", "64"),))  # pyright: ignore
        assert found == "all blocks"
    assert asked == [True, False, False]

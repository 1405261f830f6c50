"""Sequences of several lengths: arguments, packed logarithms of sums, and what the kernel gets."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.kernels import attention_varlen, flash_attn_varlen_func
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from schedgen.kernels.variants import calling
from tests.kernels.test_attention_backward import near

LENGTHS_Q, LENGTHS_K = (5, 0, 70, 9), (3, 8, 100, 0)
HEADS, DIM = 4, 64


def cumulative(lengths: tuple[int, ...]) -> Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).int()


def operands() -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    q = torch.randn(sum(LENGTHS_Q), HEADS, DIM).bfloat16()
    k = torch.randn(sum(LENGTHS_K), 2, DIM).bfloat16()
    v = torch.randn(sum(LENGTHS_K), 2, DIM).bfloat16()
    return q, k, v, cumulative(LENGTHS_Q), cumulative(LENGTHS_K)


def wanted(causal: bool) -> tuple[Tensor, Tensor]:
    """Sequence by sequence, in float64; queries that see nothing give 0 and -inf."""
    q, k, v, *_ = operands()
    out, lse = torch.zeros(*q.shape[:2], DIM).double(), torch.zeros(HEADS, len(q)).double()
    at_q = at_k = 0
    for m, n in zip(LENGTHS_Q, LENGTHS_K, strict=True):
        queries = q[at_q : at_q + m].double().transpose(0, 1)
        keys, values = (x[at_k : at_k + n].double().repeat_interleave(2, 1) for x in (k, v))
        scores = queries @ keys.permute(1, 2, 0) / 8
        if causal:
            kept = torch.ones(m, n, dtype=torch.bool).tril(n - m)
            scores = scores.masked_fill(~kept, -math.inf)
        shares = scores.softmax(-1).nan_to_num(0.0)
        out[at_q : at_q + m] = (shares @ values.transpose(0, 1)).transpose(0, 1)
        lse[:, at_q : at_q + m] = scores.logsumexp(-1)
        at_q, at_k = at_q + m, at_k + n
    return out, lse


def derived(
    given: tuple[Tensor, Tensor, Tensor],
    scale: float,
    causal: bool,
    dout: Tensor,
    dlse: Tensor | None,
) -> tuple[Tensor, ...]:
    """By torch, in float64, sequence by sequence; ``dlse`` is packed."""
    leaves = [x.detach().double().requires_grad_() for x in given]
    q, k, v = leaves
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    total = (q * 0).sum() + (k * 0).sum() + (v * 0).sum()
    begin = begin_k = 0
    for m, n in zip(LENGTHS_Q, LENGTHS_K, strict=True):
        mine = q[begin : begin + m]
        its, values = (x[begin_k : begin_k + n] for x in (k, v))
        scores = torch.einsum("qhd,khd->hqk", mine, its) * scale
        if causal:
            seen = torch.ones(m, n, dtype=torch.bool).tril(n - m)
            scores = scores.masked_fill(~seen, -math.inf)
        blind = m if not n else max(m - n, 0) if causal else 0
        scores = scores[:, blind:]
        at = begin + m - scores.shape[1]
        begin, begin_k = begin + m, begin_k + n
        out = torch.einsum("hqk,khd->qhd", scores.softmax(-1), values)
        total = total + (out * dout[at:begin].double()).sum()
        if dlse is not None:
            total = total + (scores.logsumexp(-1) * dlse[:, at:begin].double()).sum()
    return torch.autograd.grad(total, leaves)


def test_what_a_kernel_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Padded logarithms of sums are packed without a look at lengths."""
    names = ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "o", "lse", "scale")
    seen: dict[str, Any] = {}

    class Function:
        facts = SimpleNamespace(parameters=[SimpleNamespace(name=name) for name in names])

        def store(self, *arguments: Any) -> None:
            seen.update(zip(names, arguments, strict=True))
            rows = torch.arange(70.0).expand(4, HEADS, 70)
            seen["lse"].copy_(rows + 100 * torch.arange(4.0)[:, None, None])

    monkeypatch.setattr("schedgen.kernels.checks.devices", lambda **_: torch.device("cpu"))  # pyright: ignore
    monkeypatch.setattr("schedgen.kernels.keys.architecture", lambda _: "sm_90a")  # pyright: ignore
    monkeypatch.setattr(calling, "kernel_of", lambda *_: Function())  # pyright: ignore
    _, lse = flash_attn_varlen_func(*operands(), 70, 100, causal=True, return_lse=True)
    assert seen["lse"].shape == (4, HEADS, 70)
    assert seen["lse"].stride() == (HEADS * 72, 72, 1)  # rows of multiples of 16 bytes
    assert lse.shape == (HEADS, sum(LENGTHS_Q))
    expected = [100 * n + i for n, length in enumerate(LENGTHS_Q) for i in range(length)]
    assert lse[1].tolist() == expected


def test_one_kernel_for_all_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variant of the spec of packed sequences, which other numbers do not change."""
    asked: list[tuple[calling.Asked, Any]] = []

    class Function:
        free = ("seq_q",)

        def __call__(self, **given: Any) -> tuple[Tensor, Tensor]:
            assert given["seq_q"] == 70
            assert "batch" not in given  # the slopes say it
            return given["q"], given["k"]

    def kernel_of(wanted: calling.Asked, *_: Any) -> Function:
        asked.append((wanted, _))
        return Function()

    monkeypatch.setattr("schedgen.kernels.checks.devices", lambda **_: torch.device("cpu"))  # pyright: ignore
    monkeypatch.setattr("schedgen.kernels.keys.architecture", lambda _: "sm_90a")  # pyright: ignore
    monkeypatch.setattr(calling, "kernel_of", kernel_of)
    for window, cap in (((3, 1), 2.0), ((700, -1), 5.0)):
        given: Any = {"window_size": window, "softcap": cap, "alibi_slopes": torch.rand(4, HEADS)}
        flash_attn_varlen_func(*operands(), 70, 100, **given)
    assert asked[0] == asked[1]
    assert asked[0][0].base == attention_varlen.SPEC
    data: Any = calling.spec_of(asked[0][0]).source.data
    assert data["ragged"]["seq_k"]["starts"] == "cu_seqlens_k"


def test_nothing_to_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedgen.kernels.checks.devices", lambda **_: torch.device("cpu"))  # pyright: ignore
    q, k, v, starts, _ = operands()
    none = torch.zeros(5, dtype=torch.int32)
    out, lse = flash_attn_varlen_func(q, k[:0], v[:0], starts, none, 70, 0, return_lse=True)
    assert not out.any()
    assert torch.equal(lse, torch.full((HEADS, len(q)), -math.inf))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"window_size": (3, 0, 1)}, "window_size: it has 3 numbers"),
        ({"softcap": -2.0}, "softcap: it is -2.0"),
        ({"alibi_slopes": torch.zeros(3, HEADS)}, r"alibi_slopes: its shape is \(3, 4\)"),
        ({"sinks": torch.zeros(3)}, r"sinks: its shape is \(3,\); allowed: \(4,\)"),
        ({"sinks": torch.zeros(4), "learnable_sink": torch.zeros(4)}, "learnable_sink is given"),
        ({"block_table": torch.zeros(1)}, "k: it has 3 dimensions"),
        ({"cu_seqlens_q": torch.zeros(5)}, "cu_seqlens_q: its dtype is torch.float32"),
        ({"cu_seqlens_k": torch.zeros(3).int()}, "cu_seqlens_k: it has 3 numbers; allowed: 5"),
        ({"k": torch.zeros(111, 3, 64).bfloat16()}, "v: its shape is"),
    ],
)
def test_what_is_refused(given: dict[str, Any], message: str) -> None:
    names = ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k")
    arguments: dict[str, Any] = {**dict(zip(names, operands(), strict=True)), **given}
    with pytest.raises((ArgumentValueError, ArgumentTypeError), match=message):
        flash_attn_varlen_func(**arguments, max_seqlen_q=70, max_seqlen_k=100)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.usefixtures("emulated")
def test_in_the_emulator(causal: bool) -> None:
    """On Hopper, with the race checker."""
    out, lse = flash_attn_varlen_func(*operands(), 70, 100, causal=causal, return_lse=True)
    result, sums = wanted(causal)
    assert torch.allclose(out.double(), result, atol=2e-2)
    assert torch.allclose(lse.double(), sums, atol=1e-3)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.usefixtures("emulated")
def test_gradients_in_the_emulator(causal: bool) -> None:
    """On Hopper, from the forward pass to the last kernel, with the race checker; also through
    logarithms of sums.
    """
    q, k, v, begin_q, begin_k = operands()
    leaves = [x.requires_grad_() for x in (q, k, v)]
    both = flash_attn_varlen_func(
        q, k, v, begin_q, begin_k, 70, 100, causal=causal, return_lse=True
    )
    seen = torch.isfinite(both[1])
    given = torch.randn(both[0].shape).bfloat16(), torch.randn(seen.shape) * seen
    found = torch.autograd.grad(both, leaves, given)
    assert all(map(near, found, derived((q, k, v), 1 / 8, causal, *given)))

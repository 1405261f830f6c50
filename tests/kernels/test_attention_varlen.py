"""Gradients of packed sequences without a GPU: what they are, torch's checks, what is refused, when
the kernels are computed by torch on the CPU.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from schedgen.kernels import flash_attn_varlen_func, launcher, one_walk
from schedgen.kernels.attention_varlen import GRADIENTS, OPERATOR, in_one_walk, without_turns
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError, GradientError
from tests.kernels import packed
from tests.kernels.test_attention_backward import near
from tests.kernels.test_flash_attn_varlen import LENGTHS_K, LENGTHS_Q, cumulative, derived

LONGEST = max(LENGTHS_Q), max(LENGTHS_K)
Operands = tuple[Tensor, Tensor, Tensor]


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return packed.install(monkeypatch)


def operands(
    heads: int, heads_k: int, dim: int = 64, dtype: torch.dtype = torch.bfloat16, behind: int = 0
) -> Operands:
    """With elements ``behind`` the last sequence."""
    totals = ((sum(LENGTHS_Q), heads), (sum(LENGTHS_K), heads_k), (sum(LENGTHS_K), heads_k))
    q, k, v = (torch.randn(n + behind, h, dim).to(dtype).requires_grad_() for n, h in totals)
    return q, k, v


def starts() -> tuple[Tensor, Tensor]:
    return cumulative(LENGTHS_Q), cumulative(LENGTHS_K)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("heads", "heads_k", "dim", "dtype"),
    [
        (2, 2, 64, torch.bfloat16),
        (4, 2, 64, torch.float16),
        (2, 1, 128, torch.bfloat16),
        (2, 1, 160, torch.bfloat16),
    ],
)
def test_gradients_are_those_of_float64(
    kernels: list[str], heads: int, heads_k: int, dim: int, dtype: torch.dtype, causal: bool
) -> None:
    """Also with ``lse``, and 0 where no sequence is."""
    given = operands(heads, heads_k, dim, dtype, behind=3)
    both = flash_attn_varlen_func(*given, *starts(), *LONGEST, causal=causal, return_lse=True)
    out, lse = (x.narrow(n, 0, sum(LENGTHS_Q)) for n, x in enumerate(both))
    dout, dlse = torch.randn(out.shape).to(dtype), torch.randn(lse.shape)
    found = torch.autograd.grad((out, lse), given, (dout, dlse))
    right = derived(given, dim**-0.5, causal, dout, dlse)
    for mine, its, operand in zip(found, right, given, strict=True):
        assert near(mine, its)
        assert (mine.dtype, mine.shape) == (operand.dtype, operand.shape)
        assert not mine[-3:].any()
    name = {torch.bfloat16: "bf16", torch.float16: "fp16"}[dtype]
    end = f"_{dim}_{name}" + "_causal" * causal
    assert kernels == [
        f"attention_varlen{end}",
        f"attention_varlen_bwd_delta_{name}",
        *(
            f"attention_varlen_bwd_kv_{dim}_{name}{of}" + "_causal" * causal
            for of in (("_keys", "_values") if dim > 128 else ("",))
        ),
        f"attention_varlen_bwd_q{end}",
    ]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_in_one_walk(kernels: list[str], ordered: bool, causal: bool) -> None:
    """By a kernel that adds to what has to be zeros, and one that rounds."""
    given = operands(4, 2, 128, behind=3)
    q, k, v = (x.detach() for x in given)
    out, lse = OPERATOR(q, k, v, *starts(), LONGEST[0], 128**-0.5, causal)
    dout = torch.randn(out.shape).bfloat16()
    both = {"causal": causal, "ordered": ordered}
    found = in_one_walk(dout, q, k, v, out, lse, *starts(), **both)
    right = derived(given, 128**-0.5, causal, dout[: sum(LENGTHS_Q)], None)
    for mine, its, operand in zip(found, right, given, strict=True):
        assert near(mine, its)
        assert (mine.dtype, mine.shape) == (operand.dtype, operand.shape)
        assert not mine[-3:].any()
    end = "_true" * ordered + "_causal" * causal
    assert kernels[1:] == [
        "attention_varlen_bwd_delta_bf16",
        f"attention_varlen_bwd_128_bf16{end}",
        "attention_bwd_convert_bf16",
    ]


@pytest.mark.parametrize(
    ("dim", "causal", "turns"), [(128, False, True), (128, True, False), (64, False, False)]
)
def test_long_sequences_take_turns(
    kernels: list[str], monkeypatch: pytest.MonkeyPatch, dim: int, causal: bool, turns: bool
) -> None:
    """As long as one is in the mean, where there are tiles enough; if not, two kernels."""
    monkeypatch.setattr(launcher, "multiprocessors", lambda _: 1)  # pyright: ignore
    monkeypatch.setattr(one_walk, "IN_ORDER_TILES", 1)
    q, k, v = (x.detach() for x in operands(2, 1, dim))
    out, lse = OPERATOR(q, k, v, *starts(), LONGEST[0], dim**-0.5, causal)
    given = torch.randn(out.shape).bfloat16(), q, k, v, out, lse, *starts()
    mean = sum(LENGTHS_Q) // len(LENGTHS_Q)
    for least, expected in ((mean, turns), (mean + 1, False)):
        monkeypatch.setattr(one_walk, "IN_ORDER_FROM", least)
        kernels.clear()
        found = GRADIENTS(*given, None, dim**-0.5, causal)
        assert any("_true" in name for name in kernels) == expected
        kernels.clear()
        other = without_turns(*given, causal=causal)
        assert not any("_true" in name for name in kernels)
        assert all(map(near, found, (x.double() for x in other)))


@pytest.mark.usefixtures("kernels")
def test_nothing_behind_sequences_counts() -> None:
    """Whatever the gradient of padded logarithms has there."""
    q, k, v = (x.detach() for x in operands(2, 1))
    out, lse = OPERATOR(q, k, v, *starts(), LONGEST[0], 1 / 8, False)
    dout, dlse = torch.randn(out.shape).bfloat16(), torch.zeros(lse.shape)
    found = GRADIENTS(dout, q, k, v, out, lse, *starts(), dlse, 1 / 8, False)
    for number, length in enumerate(LENGTHS_Q):
        dlse[number, :, length:] = math.nan
    again = GRADIENTS(dout, q, k, v, out, lse, *starts(), dlse, 1 / 8, False)
    assert all(map(torch.equal, found, again))


def test_gradients_of_one_result(kernels: list[str]) -> None:
    given = operands(2, 1)
    out, lse = flash_attn_varlen_func(*given, *starts(), *LONGEST, return_lse=True)
    dout, dlse = torch.randn(out.shape).to(out.dtype), torch.randn(lse.shape)
    found = torch.autograd.grad(out, given, dout, retain_graph=True)
    assert all(map(near, found, derived(given, 1 / 8, False, dout, None)))
    found = torch.autograd.grad(lse, given[:2], dlse)
    wanted = derived(given, 1 / 8, False, torch.zeros_like(dout), dlse)
    assert all(map(near, found, wanted[:2]))


def test_no_sequences(kernels: list[str]) -> None:
    given, none = operands(2, 1), torch.zeros(1, dtype=torch.int32)
    out = flash_attn_varlen_func(*given, none, none, 0, 0)
    out.sum().backward()
    assert all(x.grad is not None and not x.grad.any() for x in given)
    assert kernels == []


def test_no_second_derivative(kernels: list[str]) -> None:
    given = operands(1, 1)
    total = flash_attn_varlen_func(*given, *starts(), *LONGEST).sum()
    (dq,) = torch.autograd.grad(total, given[0], create_graph=True)
    with pytest.raises(GradientError, match="attention_varlen_bwd has no backward pass"):
        dq.sum().backward()


def test_refused(kernels: list[str]) -> None:
    q, k, v = operands(1, 1, 80)
    with pytest.raises(GradientError, match=r"head_dim of 80 .* those of 32, 64, 96, .* of 192 w"):
        flash_attn_varlen_func(q, k, v, *starts(), *LONGEST).sum().backward()
    q, k, v = (x.detach() for x in operands(1, 1))
    out, lse = OPERATOR(q, k, v, *starts(), LONGEST[0], 0.125, False)
    with pytest.raises(ArgumentValueError, match="dout: its shape is"):
        GRADIENTS(out[:4], q, k, v, out, lse, *starts(), None, 0.125, False)
    with pytest.raises(ArgumentValueError, match="lse: its shape is"):
        GRADIENTS(out, q, k, v, out, lse[:1], *starts(), None, 0.125, False)
    with pytest.raises(ArgumentTypeError, match=r"dlse: its dtype is torch\.float64"):
        GRADIENTS(out, q, k, v, out, lse, *starts(), lse.double(), 0.125, False)


@pytest.mark.medium
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_checks_of_torch(kernels: list[str], dtype: torch.dtype) -> None:
    given = q, k, v = operands(2, 1, dtype=dtype)
    lengths = (7, 7)  # of all: nothing is padded, which would be any number
    each = cumulative(lengths)
    leaves = (*(x.detach()[:14].requires_grad_() for x in given), each, each, 7, 0.125, True)
    torch.library.opcheck(torch.ops.schedgen.attention_varlen_fwd.default, leaves)
    q, k, v = (x.detach()[:14] for x in (q, k, v))
    out, lse = OPERATOR(q, k, v, each, each, 7, 0.125, True)
    arguments = (torch.ones_like(out), q, k, v, out, lse, each, each, None, 0.125, True)
    torch.library.opcheck(torch.ops.schedgen.attention_varlen_bwd.default, arguments)


@pytest.mark.medium
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(kernels: list[str], dynamic: bool) -> None:
    def loss(q: Tensor, k: Tensor, v: Tensor, of_q: Tensor, of_k: Tensor) -> Tensor:
        given = (q, k, v, of_q, of_k, *LONGEST)
        out, lse = flash_attn_varlen_func(*given, causal=True, return_lse=True)
        return (out.float() * 0.5).sum() + lse.masked_fill(lse == -math.inf, 0.0).sum()

    given = operands(2, 1)
    compiled = torch.compile(loss, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    found = torch.autograd.grad(compiled(*given, *starts()), given)
    wanted = torch.autograd.grad(loss(*given, *starts()), given)
    assert all(map(torch.equal, found, wanted))

"""`attention` without a GPU: what it refuses, shapes, torch's checks, and what is left to do when
the kernel is computed by torch on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from schedgen.errors import SchedgenError
from schedgen.kernels import attention
from schedgen.kernels.attention_arguments import HEAD_DIMS
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError, DeviceError

Shape = tuple[int, ...]
DIMS = [(q, v) for q, some in HEAD_DIMS.items() for v in some]


def operands(
    batch: int,
    seq_q: int,
    seq_k: int,
    heads: int,
    heads_k: int,
    head_dim: int = 64,
    head_dim_v: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    make = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=make).to(torch.bfloat16)

    return (
        random(batch, seq_q, heads, head_dim),
        random(batch, seq_k, heads_k, head_dim),
        random(batch, seq_k, heads_k, head_dim_v or head_dim),
    )


def reference(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> tuple[Tensor, Tensor]:
    """In float64; rows that see no key are 0 with -inf."""
    groups = q.shape[2] // k.shape[2]
    k, v = (x.double().repeat_interleave(groups, 2) for x in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q.double(), k) * scale
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(k.shape[1] - q.shape[1])
        scores = scores.masked_fill(~seen, -math.inf)
    weights = scores.softmax(-1).nan_to_num(0.0)
    return torch.einsum("bhqk,bkhd->bqhd", weights, v), scores.logsumexp(-1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "shape",
    [(1, 8, 8, 1, 1), (2, 5, 9, 4, 2), (2, 9, 5, 4, 1), (1, 4, 1, 2, 2), (1, 1, 7, 2, 1)],
)
def test_result_is_that_of_float64(launches: list[str], shape: Shape, causal: bool) -> None:
    q, k, v = operands(*shape)  # type: ignore[arg-type]
    before = [x.clone() for x in (q, k, v)]
    out, lse = attention(q, k, v, causal=causal, return_lse=True)
    wanted, wanted_lse = reference(q, k, v, 1 / 8, causal)
    assert torch.allclose(out.double(), wanted, atol=2e-2)
    assert torch.allclose(lse.double(), wanted_lse, atol=1e-5)
    assert out.is_contiguous()
    assert out.dtype == q.dtype
    assert lse.dtype == torch.float32
    assert all(torch.equal(x, y) for x, y in zip((q, k, v), before, strict=True))
    assert launches == ["attention_fwd_sm_90a_head_dim64_bf16" + "_causal" * causal + ".py"]


@pytest.mark.parametrize(("head_dim", "head_dim_v"), DIMS)
def test_head_dims(launches: list[str], head_dim: int, head_dim_v: int) -> None:
    q, k, v = operands(1, 5, 9, 2, 1, head_dim, head_dim_v)
    out, lse = attention(q, k, v, return_lse=True)
    wanted, wanted_lse = reference(q, k, v, head_dim**-0.5, False)
    assert out.shape == (1, 5, 2, head_dim_v)
    assert torch.allclose(out.double(), wanted, atol=2e-2)
    assert torch.allclose(lse.double(), wanted_lse, atol=1e-5)
    dims = f"head_dim{head_dim}" + f"_head_dim_v{head_dim_v}" * (head_dim_v != head_dim)
    assert launches == [f"attention_fwd_sm_90a_{dims}_bf16.py"]


def test_rows_that_see_no_key(launches: list[str]) -> None:
    q, k, v = operands(1, 9, 4, 1, 1)
    out, lse = attention(q, k, v, causal=True, return_lse=True)
    assert torch.equal(out[:, :5], torch.zeros_like(out[:, :5]))
    assert (lse[..., :5] == -math.inf).all()
    assert torch.isfinite(lse[..., 5:]).all()


@pytest.mark.parametrize("causal", [False, True])
def test_no_keys(launches: list[str], causal: bool) -> None:
    q, k, v = operands(2, 3, 0, 2, 1)
    out, lse = attention(q, k, v, causal=causal, return_lse=True)
    assert torch.equal(out, torch.zeros_like(q))
    assert (lse == -math.inf).all()
    assert launches == []


@pytest.mark.parametrize("shape", [(0, 4, 4, 2, 2), (2, 0, 4, 2, 2), (2, 4, 4, 0, 0)])
def test_empty_result(launches: list[str], shape: Shape) -> None:
    q, k, v = operands(*shape)  # type: ignore[arg-type]
    out, lse = attention(q, k, v, return_lse=True)
    assert out.shape == q.shape
    assert lse.shape == (q.shape[0], q.shape[2], q.shape[1])
    assert launches == []


def test_scale_and_layout_are_the_callers(launches: list[str]) -> None:
    packed = torch.randn(2, 6, 3, 2, 64).to(torch.bfloat16)  # q, k and v of one projection
    q, k, v = packed.unbind(2)
    out = attention(q, k, v, softmax_scale=0.5)
    assert torch.allclose(out.double(), reference(q, k, v, 0.5, False)[0], atol=2e-2)


Change = Callable[[Tensor, Tensor, Tensor], tuple[Any, ...]]
REFUSED: list[tuple[str, Change, type[Exception], str, str]] = [
    ("head_dim", lambda q, k, v: (q[..., :48], k[..., :48], v[..., :48]), ValueError, "q", "48"),
    ("fp32", lambda q, k, v: (q.float(), k, v), TypeError, "q", "torch.float32"),
    ("mixed types", lambda q, k, v: (q, k.half(), v), TypeError, "k", "torch.float16"),
    ("rank of q", lambda q, k, v: (q[0], k, v), ValueError, "q", "3 dimensions"),
    ("rank of v", lambda q, k, v: (q, k, v[0]), ValueError, "v", "3 dimensions"),
    ("heads", lambda q, k, v: (q, k[:, :, :3], v[:, :, :3]), ValueError, "k", "3 heads"),
    ("no heads", lambda q, k, v: (q, k[:, :, :0], v[:, :, :0]), ValueError, "k", "0 heads"),
    ("batch", lambda q, k, v: (q, k[:1], v[:1]), ValueError, "k", "batch is 1"),
    ("keys", lambda q, k, v: (q, k, v[:, :4]), ValueError, "v", "(2, 4, 4, 64)"),
    (
        "wide",
        lambda q, k, v: (*(torch.cat((x,) * 5, -1) for x in (q, k, v)),),
        ValueError,
        "q",
        "320",
    ),
    ("head_dim of v", lambda q, k, v: (q, k, v[..., :32]), ValueError, "v", "32"),
    ("head_dim of k", lambda q, k, v: (q, k[..., :32], v[..., :32]), ValueError, "k", "32"),
]
LAYOUTS: list[tuple[str, Change, type[Exception], str, str]] = [
    ("last dimension", lambda q, k, v: (q.mT.contiguous().mT, k, v), ValueError, "q", "stride"),
    ("address", lambda q, k, v: (q, torch.cat((k, k), -1)[..., 1:65], v), ValueError, "k", "addr"),
    ("row", lambda q, k, v: (q, k, torch.cat((v, v[..., :3]), -1)[..., :64]), ValueError, "v", "1"),
]


def refused(arguments: tuple[Any, ...], kind: type[Exception], name: str, got: str) -> None:
    with pytest.raises(SchedgenError) as caught:
        attention(*arguments)
    error = caught.value
    assert isinstance(error, (ArgumentValueError, ArgumentTypeError))
    assert isinstance(error, kind)
    assert error.argument == name
    assert got in error.got
    assert error.allowed
    assert error.fix
    assert str(error).startswith(f"{name}: ")


@pytest.mark.parametrize(("_what", "change", "kind", "name", "got"), REFUSED)
def test_refused_everywhere(
    _what: str, change: Change, kind: type[Exception], name: str, got: str
) -> None:
    refused(change(*operands(2, 8, 8, 4, 4)), kind, name, got)
    with FakeTensorMode() as mode:
        fakes = (mode.from_tensor(x) for x in operands(2, 8, 8, 4, 4))
        refused(change(*fakes), kind, name, got)


@pytest.mark.parametrize(("_what", "change", "kind", "name", "got"), LAYOUTS)
def test_refused_layouts(
    launches: list[str], _what: str, change: Change, kind: type[Exception], name: str, got: str
) -> None:
    refused(change(*operands(2, 8, 8, 4, 4)), kind, name, got)
    assert launches == []


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_refused_scale(scale: float) -> None:
    with pytest.raises(ArgumentValueError, match="softmax_scale"):
        attention(*operands(1, 8, 8, 1, 1), softmax_scale=scale)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu() -> None:
    with pytest.raises(DeviceError, match="there is no GPU here"):
        attention(*operands(1, 8, 8, 1, 1))


@pytest.mark.parametrize("causal", [False, True])
def test_opcheck(launches: list[str], causal: bool) -> None:
    for shape in ((2, 6, 7, 4, 2), (1, 9, 3, 2, 2), (2, 3, 0, 2, 1)):
        arguments = (*operands(*shape), 0.125, causal)
        torch.library.opcheck(torch.ops.schedgen.attention_fwd.default, arguments)


def test_shapes_without_data() -> None:
    with FakeTensorMode():
        q = torch.empty(3, 10, 8, 128, device="cuda", dtype=torch.float16)
        k = torch.empty(3, 20, 2, 128, device="cuda", dtype=torch.float16)
        out, lse = attention(q, k, k, return_lse=True)
    assert (out.shape, out.dtype, out.device) == (q.shape, q.dtype, q.device)
    assert (lse.shape, lse.dtype) == ((3, 8, 10), torch.float32)
    assert lse.stride() == (96, 12, 1)


@pytest.mark.medium
def test_compiles_in_one_graph(launches: list[str]) -> None:
    def block(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out, lse = attention(q * 2, k, v, causal=True, return_lse=True)
        return out.float() * lse.mT.unsqueeze(-1).sigmoid()

    compiled = torch.compile(block, fullgraph=True, backend="aot_eager", dynamic=True)
    for shape in ((2, 6, 7, 4, 2), (1, 9, 12, 2, 2)):
        arguments = operands(*shape)
        assert torch.equal(compiled(*arguments), block(*arguments))

"""`scaled_attention` without a GPU: on the CPU by torch, and in the emulator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from schedgen.codegen.facts import file_name
from schedgen.driver.emulating import launched
from schedgen.errors import SchedgenError
from schedgen.exchanges import order_of_results
from schedgen.kernels import attention_scaled_op, checks, layouts, library, scaled_attention
from schedgen.kernels.attention_scaled_op import attention_values
from tests.kernels import refusals

Operands = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
E4M3, CPU = torch.float8_e4m3fn, torch.device("cpu")


class ByTorch:
    """Stands in for `Launcher`."""

    calls: ClassVar[list[tuple[str, Sequence[Tensor]]]] = []

    def __init__(self, name: str) -> None:
        self.name = name

    def launch(self, tensors: Sequence[Tensor], scalars: Sequence[float] = ()) -> None:
        self.calls.append((self.name, tensors))
        assert all(layouts.problem(tensor) is None for tensor in tensors[:5])
        q, k, v, o, lse, scale_q, scale_k, scale_v = tensors
        v = in_order(v) if "sm_90a" in self.name else v.transpose(1, 2)
        scale, causal = scalars[0] * math.log(2), "causal" in self.name
        out, sums = reference(q, k, v, scale_q, scale_k, scale_v, scale, causal)
        o.copy_(out)
        lse.copy_(sums)


def in_order(v: Tensor) -> Tensor:
    """(batch, seq_v, heads, head_dim) of values along keys in the order of results."""
    keys = v.permute(0, 3, 1, 2)
    found = torch.empty_like(keys)
    found[:, order_of_results(keys.shape[1])] = keys
    return found


class Emulated(ByTorch):
    """Executes kernels, with the race checker."""

    def launch(self, tensors: Sequence[Tensor], scalars: Sequence[float] = ()) -> None:
        arch = "sm_100a" if "sm_100a" in self.name else "sm_90a"
        report = launched(library.named(self.name).read_text("utf-8"), arch, tensors, scalars)
        assert not report.errors, report.text


def reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale_q: Tensor,
    scale_k: Tensor,
    scale_v: Tensor,
    scale: float,
    causal: bool,
) -> tuple[Tensor, Tensor]:
    """In float64; rows that see nothing give 0. Factors are of one element or of heads."""
    group, v = q.shape[2] // k.shape[2], v[:, : k.shape[1]]

    def numbers(x: Tensor, factor: Tensor) -> Tensor:
        heads = x.double().transpose(1, 2).repeat_interleave(q.shape[2] // x.shape[2], 1)
        if factor.numel() > 1 and factor.shape[1] != heads.shape[1]:
            factor = factor.repeat_interleave(group, 1)
        return heads * (factor if factor.numel() == 1 else factor[..., None, None])

    q, k, v = numbers(q, scale_q), numbers(k, scale_k), numbers(v, scale_v)
    scores = scale * q @ k.mT
    if causal:
        seen = torch.ones(scores.shape[-2:]).tril(k.shape[-2] - q.shape[-2]).bool()
        scores = scores.masked_fill(~seen, -math.inf)
    out = scores.softmax(-1).nan_to_num() @ v
    return out.transpose(1, 2), scores.logsumexp(-1)


def _install(patch: pytest.MonkeyPatch, arch: str, kind: type[ByTorch]) -> None:
    patch.setattr(ByTorch, "calls", [])
    patch.setattr(checks, "devices", lambda **_: CPU)  # pyright: ignore
    patch.setattr(attention_scaled_op, "architecture", lambda _: arch)  # pyright: ignore

    def launcher(device: torch.device, spec: str, **settings: str) -> ByTorch:
        assert device == CPU
        return kind(file_name(spec, arch, settings))

    patch.setattr(library, "launcher", launcher)


@pytest.fixture(params=["sm_90a", "sm_100a"])
def arch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    _install(monkeypatch, request.param, ByTorch)
    return request.param


def operands(batch: int, seq_q: int, seq_k: int, heads: int, heads_k: int, dim: int) -> Operands:
    """q, k and v, and factors of their heads."""
    random = torch.Generator().manual_seed(0)
    shapes = ((seq_q, heads), (seq_k, heads_k), (seq_k, heads_k))
    q, k, v = (torch.randn(batch, *shape, dim, generator=random).to(E4M3) for shape in shapes)
    of_q, of_k, of_v = (0.5 + torch.rand(batch, shape[1], generator=random) for shape in shapes)
    return q, k, v, of_q, of_k, of_v


def near(found: Tensor, wanted: Tensor, most: float) -> bool:
    """Whether the mean square of the difference is below that share of the one of ``wanted``."""
    difference = (found.double() - wanted).square().mean()
    return bool((difference / wanted.square().mean()).sqrt() < most)


SHAPES = [(2, 70, 150, 2, 2, 64), (1, 40, 130, 4, 2, 128), (1, 150, 70, 1, 1, 128)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("causal", [False, True])
def test_by_torch(arch: str, shape: tuple[int, int, int, int, int, int], causal: bool) -> None:
    every = operands(*shape)
    out, lse = scaled_attention(*every, causal=causal, return_lse=True)
    wanted, sums = reference(*every, 1 / math.sqrt(shape[5]), causal)
    assert near(out, wanted, 4e-3)
    assert torch.allclose(lse.double(), sums)
    assert out.dtype is torch.bfloat16
    more = "_causal" if causal else ""
    assert [name for name, _ in ByTorch.calls] == [
        f"attention_fp8_{arch}_head_dim{shape[5]}_e4m3{more}.py"
    ]


def test_factors_of_operands(arch: str) -> None:
    q, k, v, *_ = operands(1, 8, 24, 4, 2, 64)
    factors = torch.tensor(0.5), torch.tensor([2.0]), torch.full((1, 1), 0.25)
    found = scaled_attention(q, k, v, *factors, softmax_scale=0.25)
    assert near(found, reference(q, k, v, *factors, 0.25, False)[0], 4e-3)


@pytest.mark.parametrize("seq", [32, 40])
def test_prepared_values(arch: str, seq: int) -> None:
    """Made once they are not copied again; on Blackwell they are read as they are."""
    q, k, v, *_ = operands(1, 8, seq, 2, 2, 64)
    factors = torch.tensor(0.5), torch.tensor(2.0), torch.tensor(0.25)
    prepared = attention_values(v)
    assert (prepared is v) == (arch != "sm_90a")
    found = scaled_attention(q, k, prepared, *factors, prepared=True)
    assert ByTorch.calls[-1][1][2].data_ptr() == prepared.data_ptr()
    if arch == "sm_90a":
        assert torch.equal(scaled_attention(q, k, v, *factors), found)
        assert ByTorch.calls[-1][1][2].data_ptr() != v.data_ptr()
        assert not in_order(prepared.float())[:, seq:].any()
        with pytest.raises(SchedgenError, match="pass what attention_values returned"):
            scaled_attention(q, k, v, *factors, prepared=True)
    else:
        of_hopper = v.new_empty(1, 2, 64, -(-seq // 16) * 16)
        with pytest.raises(SchedgenError, match="prepare it on this GPU"):
            scaled_attention(q, k, of_hopper, *factors, prepared=True)
        turned = v.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        with pytest.raises(SchedgenError, match="its last dimension has stride"):
            scaled_attention(q, k, turned, *factors)


def test_empty(arch: str) -> None:
    q, k, v, *_ = operands(1, 8, 24, 2, 2, 64)
    factors = torch.tensor(0.5), torch.tensor(2.0), torch.tensor(0.25)
    out, lse = scaled_attention(q, k[:, :0], v[:, :0], *factors, return_lse=True)
    assert not out.any()
    assert bool((lse == -math.inf).all())
    assert scaled_attention(q[:, :0], k, v, *factors).shape == (1, 0, 2, 64)
    assert not ByTorch.calls


Q, K, V, SQ, SK, SV = operands(1, 8, 24, 4, 2, 64)
FACTORS = SQ, SK, SV
REFUSED: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("bf16", lambda: scaled_attention(Q.bfloat16(), K, V, SQ, SK, SV), TypeError, "q"),
    ("e5m2", lambda: scaled_attention(Q, K.to(torch.float8_e5m2), V, SQ, SK, SV), TypeError, "k"),
    ("half a factor", lambda: scaled_attention(Q, K, V, SQ, SK.half(), SV), TypeError, "scale_k"),
    ("factors of q", lambda: scaled_attention(Q, K, V, SK, SK, SV), ValueError, "scale_q"),
    ("factors of v", lambda: scaled_attention(Q, K, V, SQ, SK, SQ), ValueError, "scale_v"),
    ("head_dim", lambda: scaled_attention(Q[..., :32], K, V, SQ, SK, SV), ValueError, "q"),
    ("v", lambda: scaled_attention(Q, K, V[:, :16], SQ, SK, SV), ValueError, "v"),
    ("heads", lambda: scaled_attention(Q[:, :, :3], K, V, SQ, SK, SV), ValueError, "k"),
    ("scale", lambda: scaled_attention(Q, K, V, *FACTORS, softmax_scale=0.0), ValueError,
     "softmax_scale"),
    ("layout", lambda: scaled_attention(Q[..., 1:].new_zeros(1, 8, 4, 65)[..., 1:], K, V, *FACTORS),
     ValueError, "q"),
]  # fmt: skip


@pytest.mark.parametrize(("_what", "call", "kind", "name"), REFUSED)
@pytest.mark.parametrize("arch", ["sm_90a"], indirect=True)
def test_refused(
    arch: str, _what: str, call: Callable[[], Any], kind: type[Exception], name: str
) -> None:
    refusals.check(call, kind, name)


CHECKS = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
"""Those of opcheck that torch can do with numbers of 8 bits: it cannot compare schemas."""


def test_opcheck_and_shapes(arch: str) -> None:
    arguments = (Q, K, V, *FACTORS, 0.125, True, False)
    torch.library.opcheck(torch.ops.schedgen.scaled_attention.default, arguments, test_utils=CHECKS)
    with FakeTensorMode():
        q, k = (torch.empty(2, 5, 4, 64, device="cuda", dtype=E4M3) for _ in range(2))
        one = torch.ones((), device="cuda")
        out, lse = scaled_attention(q, k, k, one, one, one, return_lse=True)
        assert (out.shape, out.dtype) == (q.shape, torch.bfloat16)
        assert (lse.shape, lse.dtype) == ((2, 4, 5), torch.float32)
        turned = torch.empty(2, 4, 64, 16, device="cuda", dtype=E4M3)
        assert scaled_attention(q, k, turned, one, one, one, prepared=True).shape == q.shape


def test_compiled(arch: str) -> None:
    def layer(q: Tensor) -> Tensor:
        return scaled_attention(q, K, V, SQ, SK, SV) + 1

    compiled: Any = torch.compile(layer, backend="eager", fullgraph=True)
    assert torch.equal(compiled(Q), layer(Q))


def test_no_gradients(arch: str) -> None:
    found = scaled_attention(Q, K, V, SQ.clone().requires_grad_(), SK, SV)
    with pytest.raises(SchedgenError, match="has no backward pass"):
        found.sum().backward()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arch", "shape", "causal"),
    [
        ("sm_90a", (1, 130, 200, 2, 1, 128), False),
        ("sm_90a", (1, 130, 131, 1, 1, 128), True),
        ("sm_90a", (1, 70, 150, 1, 1, 64), True),
        ("sm_100a", (1, 70, 200, 2, 1, 128), False),
        ("sm_100a", (1, 130, 131, 1, 1, 128), True),
        ("sm_100a", (1, 70, 150, 1, 1, 64), True),
    ],
)  # fmt: skip
def test_emulated(
    monkeypatch: pytest.MonkeyPatch,
    arch: str,
    shape: tuple[int, int, int, int, int, int],
    causal: bool,
) -> None:
    """Rounding exponentials to 4 bits is the largest error, of 2^-4 each at most."""
    _install(monkeypatch, arch, Emulated)
    every = operands(*shape)
    out, lse = scaled_attention(*every, causal=causal, return_lse=True)
    wanted, sums = reference(*every, 1 / math.sqrt(shape[5]), causal)
    assert near(out, wanted, 3e-2)
    assert torch.allclose(lse.double(), sums, atol=1e-3)

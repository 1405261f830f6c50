"""`gemm_rms` and `gemm_scaled` without a GPU: what they refuse, shapes, checks of torch, and what
is left to do when the kernels are computed by torch on the CPU.
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
from schedgen.kernels import gemm_rms, gemm_scaled
from schedgen.kernels.errors import ArgumentValueError, DeviceError
from tests.kernels import refusals
from tests.kernels.test_gemm_op import OUTS, SHAPES, Shape, close, random


def factors(raw: Tensor, eps: float) -> Tensor:
    return (raw.double().square().mean(-1) + eps).rsqrt()


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_factors(launches: list[str], left: Shape, right: Shape, transposed: bool) -> None:
    a, b = random(*left), random(*right, seed=1)
    b = b.mT.contiguous().mT if transposed else b
    d, r = gemm_rms(a, b, eps=0.5)
    assert close(d, a, b)
    assert (r.dtype, r.shape, r.is_contiguous()) == (torch.float32, d.shape[:-1], True)
    assert torch.allclose(r.double(), factors(a.double() @ b.double(), 0.5), rtol=1e-5)
    name, factor = launches
    assert name.startswith("gemm_rms_sm_90a_bf16")
    assert factor.startswith("rms_factors_sm_90a")


@pytest.mark.parametrize("n", [8, 40, 300, 1000])
def test_several_output_tiles(launches: list[str], n: int) -> None:
    a, b = random(300, 16), random(16, n, seed=1)
    _, r = gemm_rms(a, b)
    assert torch.allclose(r.double(), factors(a.double() @ b.double(), 1e-6), rtol=1e-5)


@pytest.mark.parametrize("addend", [(2, 16, 24), (16, 24), (24,), (16, 1), ()])
def test_residual(launches: list[str], addend: Shape) -> None:
    a, b, c = random(2, 16, 8), random(8, 24, seed=1), random(*addend, seed=2)
    d, r = gemm_rms(a, b, c, beta=2.0)
    raw = a.double() @ b.double() + 2.0 * c.double()
    assert close(d, a, b, 2.0 * c.double().expand(2, 16, 24))
    assert torch.allclose(r.double(), factors(raw, 1e-6), rtol=1e-5)
    found = gemm_rms(a, b, torch.full_like(d, math.nan), beta=0.0)
    assert all(map(torch.equal, found, gemm_rms(a, b)))


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_scaled(launches: list[str], left: Shape, right: Shape, transposed: bool) -> None:
    a, b = random(*left), random(*right, seed=1)
    b = b.mT.contiguous().mT if transposed else b
    wanted = a.double() @ b.double()
    r = torch.rand(wanted.shape[:-1])
    found = gemm_scaled(a, b, r)
    assert torch.allclose(found.double(), r[..., None] * wanted, rtol=2**-7, atol=1e-2)
    out = torch.full_like(found, math.nan)
    assert gemm_scaled(a, b, r, out=out) is out
    assert torch.equal(out, found)


@pytest.mark.parametrize("make", OUTS)
def test_result_in_place(launches: list[str], make: Callable[[], Tensor]) -> None:
    a, b, r, out = random(2, 16, 8), random(8, 24, seed=1), torch.rand(2, 16), make()
    assert gemm_scaled(a, b, r, out=out) is out
    assert torch.equal(out, gemm_scaled(a, b, r))


def test_empty(launches: list[str]) -> None:
    c = random(5, 6)
    d, r = gemm_rms(random(5, 0), random(0, 6), c, beta=2.0)
    assert torch.equal(d, 2 * c)
    assert torch.allclose(r.double(), factors(2 * c.double(), 1e-6), rtol=1e-5)
    d, r = gemm_rms(random(5, 0), random(0, 6), eps=0.25)
    assert (d.any().item(), r.tolist()) == (False, [2.0] * 5)
    d, r = gemm_rms(random(5, 8), random(8, 0))
    assert (d.shape, r.isnan().all().item()) == ((5, 0), True)
    assert gemm_rms(random(0, 8), random(8, 4))[1].shape == (0,)
    assert not gemm_scaled(random(5, 0), random(0, 6), torch.rand(5)).any()
    assert launches == []


A, B, R = random(4, 8), random(8, 4), torch.ones(4)
REFUSED: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("fp32", lambda: gemm_rms(A.float(), B), TypeError, "a"),
    ("residual's type", lambda: gemm_rms(A, B, torch.zeros(4, 4)), TypeError, "c"),
    ("residual", lambda: gemm_rms(A, B, random(4, 5)), ValueError, "c"),
    ("k", lambda: gemm_rms(A, A), ValueError, "b"),
    ("beta", lambda: gemm_rms(A, B, beta=math.nan), ValueError, "beta"),
    ("eps", lambda: gemm_rms(A, B, eps=-1.0), ValueError, "eps"),
    ("mixed", lambda: gemm_scaled(A, B.half(), R), TypeError, "b"),
    ("factors' type", lambda: gemm_scaled(A, B, R.bfloat16()), TypeError, "row_scale"),
    ("factors", lambda: gemm_scaled(A, B, torch.ones(8)), ValueError, "row_scale"),
    ("one factor", lambda: gemm_scaled(A, B, torch.ones(())), ValueError, "row_scale"),
    ("out", lambda: gemm_scaled(A, B, R, out=random(4, 5)), ValueError, "out"),
]


@pytest.mark.parametrize(("_what", "call", "kind", "name"), REFUSED)
def test_refused(_what: str, call: Callable[[], Any], kind: type[Exception], name: str) -> None:
    refusals.check(call, kind, name)


def test_result_apart_from_operands(launches: list[str]) -> None:
    a, b = random(16, 16), random(16, 16, seed=1)
    for out, name in ((a, "a"), (b.mT, "b")):
        with pytest.raises(ArgumentValueError, match=f"out: it overlaps {name}"):
            gemm_scaled(a, b, torch.rand(16), out=out)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu() -> None:
    with pytest.raises(DeviceError, match="there is no GPU here"):
        gemm_rms(A, B)


@pytest.mark.medium
def test_opcheck(launches: list[str]) -> None:
    rms, scaled = torch.ops.schedgen.gemm_rms.default, torch.ops.schedgen.gemm_scaled.default
    for a, b in ((random(5, 8), random(8, 6)), (random(2, 4, 8), random(2, 8, 16))):
        c = random(b.shape[-1], seed=3)
        torch.library.opcheck(rms, (a, b, c, 0.5, 1e-6))
        torch.library.opcheck(rms, (a, b, None, 1.0, 1e-6))
        r = torch.rand(a.shape[:-1])
        torch.library.opcheck(scaled, (a, b, r))
        out = torch.zeros(*a.shape[:-1], b.shape[-1], dtype=a.dtype)
        torch.library.opcheck(torch.ops.schedgen.gemm_scaled_out.default, (a, b, r, out))


def test_shapes_without_data() -> None:
    with FakeTensorMode():
        a = torch.empty(2, 5, 8, device="cuda", dtype=torch.float16)
        b = torch.empty(8, 3, device="cuda", dtype=torch.float16)
        d, r = gemm_rms(a, b)
        assert (d.shape, d.dtype, r.shape, r.dtype) == ((2, 5, 3), a.dtype, (2, 5), torch.float32)
        assert gemm_scaled(a, b, r).shape == (2, 5, 3)


def test_compiles_in_one_graph(launches: list[str]) -> None:
    def layer(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
        d, r = gemm_rms(x, first.mT, x)
        return gemm_scaled(d, second.mT, r).sum(-1)

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (5, 16):
        arguments = random(rows, 24), random(24, 24, seed=1), random(40, 24, seed=2)
        assert torch.equal(compiled(*arguments), layer(*arguments))


def test_gradients(launches: list[str]) -> None:
    a = A.clone().requires_grad_()
    assert all(x.requires_grad for x in gemm_rms(a, B))
    with pytest.raises(SchedgenError, match="out= and gradients"):
        gemm_scaled(a, B, R, out=random(4, 4))

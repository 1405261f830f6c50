"""`quantized_gemm` without a GPU: what it refuses, shapes, checks of torch, and what is left to do
when the kernel is computed by torch on the CPU.
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
from schedgen.kernels import quantized_gemm, scaled_gemm
from schedgen.kernels.errors import DeviceError
from tests.kernels import refusals
from tests.kernels.test_gemm_op import SHAPES, Shape, random

A, B = random(4, 8), random(8, 5)


def restored(d: Tensor, factors: Tensor) -> Tensor:
    """What the numbers and the factors of their blocks stand for."""
    return d.double() * factors.double().repeat_interleave(128, -1)[..., : d.shape[-1]]


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_results(launches: list[str], left: Shape, right: Shape, transposed: bool) -> None:
    a, b = random(*left), random(*right, seed=1)
    b = b.mT.contiguous().mT if transposed else b
    d, factors = quantized_gemm(a, b)
    wanted = a.double() @ b.double()
    assert (d.dtype, d.shape, d.is_contiguous()) == (torch.float8_e4m3fn, wanted.shape, True)
    assert factors.shape == (*wanted.shape[:-1], -(-wanted.shape[-1] // 128))
    assert factors.dtype is torch.float32
    assert ((restored(d, factors) - wanted).abs() <= wanted.abs() / 16 + 1e-5).all()
    assert all(name.startswith("gemm_quantized_sm_90a_bf16") for name in launches)
    assert len(launches) == 1


@pytest.mark.parametrize("n", [8, 128, 200, 1000])
def test_each_block_has_a_factor(launches: list[str], n: int) -> None:
    a, b = random(3, 40, 16), random(16, n, seed=1)
    d, factors = quantized_gemm(a, b)
    wanted = (a.double() @ b.double()).abs()
    for block in range(factors.shape[-1]):
        top = wanted[..., 128 * block : 128 * (block + 1)].amax(-1)
        assert torch.allclose(factors[..., block].double(), top / 448, rtol=1e-5)
    assert (d.float().abs() <= 448).all()


def test_what_the_next_product_takes(launches: list[str]) -> None:
    x, up, down = random(16, 256), random(384, 256, seed=1), random(256, 384, seed=2)
    d, factors = quantized_gemm(x, up.mT)
    scale = torch.ones(3, 2)
    y = scaled_gemm(d, down.to(torch.float8_e4m3fn).mT, factors, scale)
    wanted = restored(d, factors) @ down.to(torch.float8_e4m3fn).double().mT
    assert torch.allclose(y.double(), wanted, rtol=0.01, atol=0.01 * wanted.abs().max().item())
    assert launches[1].startswith("gemm_fp8_blocks")


def test_next_to_nothing(launches: list[str]) -> None:
    d, factors = quantized_gemm(torch.zeros_like(A), B, least=0.5)
    assert not d.float().any()
    assert torch.allclose(factors, torch.full((4, 1), 0.5 / 448))
    d, factors = quantized_gemm(random(4, 0), random(0, 5), least=0.5)
    assert not d.float().any()
    assert torch.allclose(factors, torch.full((4, 1), 0.5 / 448))
    d, factors = quantized_gemm(random(0, 8), B)
    assert (d.shape, factors.shape) == ((0, 5), (0, 1))
    assert len(launches) == 1


REFUSED: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("fp32", lambda: quantized_gemm(A.float(), B.float()), TypeError, "a"),
    ("mixed", lambda: quantized_gemm(A, B.half()), TypeError, "b"),
    ("k", lambda: quantized_gemm(A, A), ValueError, "b"),
    ("least", lambda: quantized_gemm(A, B, least=0.0), ValueError, "least"),
    ("nan", lambda: quantized_gemm(A, B, least=math.nan), ValueError, "least"),
    ("dtype", lambda: quantized_gemm(A, B, dtype=torch.float8_e5m2), TypeError, "dtype"),
]


@pytest.mark.parametrize(("_what", "call", "kind", "name"), REFUSED)
def test_refused(_what: str, call: Callable[[], Any], kind: type[Exception], name: str) -> None:
    refusals.check(call, kind, name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu() -> None:
    with pytest.raises(DeviceError, match="there is no GPU here"):
        quantized_gemm(A, B)


def test_opcheck(launches: list[str]) -> None:
    operator = torch.ops.schedgen.quantized_gemm.default
    for a, b in (
        (random(5, 8), random(8, 6)),
        (random(2, 4, 8), random(2, 8, 16)),
        (random(2, 3, 4, 8), random(8, 16)),
    ):
        torch.library.opcheck(operator, (a, b, 1e-4))


def test_shapes_without_data() -> None:
    with FakeTensorMode():
        a = torch.empty(2, 5, 8, device="cuda", dtype=torch.float16)
        d, factors = quantized_gemm(a, torch.empty(8, 300, device="cuda", dtype=torch.float16))
        assert (d.shape, d.dtype) == ((2, 5, 300), torch.float8_e4m3fn)
        assert (factors.shape, factors.dtype) == ((2, 5, 3), torch.float32)


def test_no_gradients(launches: list[str]) -> None:
    d, _ = quantized_gemm(A.clone().requires_grad_(), B)
    with pytest.raises((SchedgenError, RuntimeError), match="backward"):
        d.float().sum().backward()

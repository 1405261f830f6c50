"""`quantized_gemm` without a GPU: what it refuses, shapes, checks of torch, and what is left to do
when the kernel is computed by torch on the CPU.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from schedgen.codegen.facts import file_name
from schedgen.driver import lock_file
from schedgen.errors import SchedgenError
from schedgen.kernels import library, quantized_gemm, scaled_gemm
from schedgen.kernels.errors import DeviceError
from tests.kernels import refusals, standin
from tests.kernels import test_scaled_op as scaled
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


@pytest.fixture
def blackwell(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kernels for Blackwell, computed on the CPU; the names of the files that were launched."""
    calls = standin.install(monkeypatch)

    def launcher(_: torch.device, spec: str, **settings: str) -> standin.StandIn:
        return standin.StandIn(calls, file_name(spec, "sm_100a", settings))

    monkeypatch.setattr(library, "launcher", launcher)
    return calls


def powers_of(laid_out: Tensor, m: int, blocks: int) -> Tensor:
    """(..., m, blocks) of factors in the layout of cuBLAS (its documentation, 1D block scaling)."""
    found = torch.empty(*laid_out.shape[:-2], m, blocks)
    each = laid_out.float().flatten(-2)
    groups = laid_out.shape[-1] // 4
    for row, block in itertools.product(range(m), range(blocks)):
        tile = row // 128 * groups + block // 4
        found[..., row, block] = each[
            ..., 512 * tile + row % 32 * 16 + row % 128 // 32 * 4 + block % 4
        ]
    return found


@pytest.mark.parametrize(("left", "right"), [((5, 16), (16, 200)), ((2, 3, 130, 8), (8, 40))])
def test_powers_of_two(blackwell: list[str], left: Shape, right: Shape) -> None:
    a, b = random(*left), random(*right, seed=1)
    d, factors = quantized_gemm(a, b, scale_dtype=torch.float8_e8m0fnu)
    m, blocks = left[-2], -(-right[-1] // 32)
    assert factors.dtype is torch.float8_e8m0fnu
    assert factors.shape == (*left[:-2], -(-m // 128) * 128, -(-blocks // 4) * 4)
    powers = powers_of(factors, m, blocks)
    wanted = a.double() @ b.double()
    restored = d.double() * powers.double().repeat_interleave(32, -1)[..., : right[-1]]
    assert ((restored - wanted).abs() <= wanted.abs() / 16 + powers.max() / 256).all()
    assert blackwell == ["gemm_quantized_sm_100a_bf16_e4m3_e8m0.py"]


def test_powers_of_nothing(blackwell: list[str]) -> None:
    d, factors = quantized_gemm(
        random(4, 0), random(0, 8), least=0.5, scale_dtype=torch.float8_e8m0fnu
    )
    assert not d.float().any()
    assert (powers_of(factors, 4, 1) == 2.0**-9).all()  # 0.5 / 448 = 2^-9.8
    assert blackwell == []


def test_no_powers_on_hopper() -> None:
    settings = {"dtype": "bf16", "out": "e4m3", "factor": "e8m0"}
    assert lock_file.locked("gemm_quantized", "sm_100a", settings) is not None
    assert lock_file.locked("gemm_quantized", "sm_90a", settings) is None


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n", "k"), [(130, 264, 40), (5, 40, 136)])
def test_powers_bit_by_bit(monkeypatch: pytest.MonkeyPatch, m: int, n: int, k: int) -> None:
    """In the emulator, of sums that are exact; then the product that takes them."""
    scaled.install(monkeypatch, "sm_100a", scaled.Emulated)
    a, b = (torch.randint(-4, 5, shape).bfloat16() for shape in ((m, k), (k, n)))
    a *= 2.0 ** torch.randint(-8, 9, (m, 1))
    a[1], a[2] = 0, torch.tensor([7.0] + [0.0] * (k - 1))
    b[0, :32] = 64  # 448 in the first block of row 2: the factor is 1
    d, factors = quantized_gemm(a, b, scale_dtype=torch.float8_e8m0fnu)
    blocks = -(-n // 32)
    sums = functional.pad(a.double() @ b.double(), (0, 32 * blocks - n)).view(m, blocks, 32)
    power = (sums.abs().amax(-1).clamp(min=1e-4) / 448).log2().ceil().exp2()
    assert power[2, 0] == 1
    assert torch.equal(powers_of(factors, m, blocks).double(), power)
    wanted = (sums / power[..., None]).view(m, -1)[:, :n].to(torch.float8_e4m3fn)
    assert torch.equal(d.view(torch.uint8), wanted.view(torch.uint8))
    w = scaled.Quantized(torch.float8_e4m3fn, torch.float8_e8m0fnu, 1, 48, n)
    found = scaled_gemm(d[None], w.data.mT, factors[None], w.scale)
    restored = (wanted.double() * power.repeat_interleave(32, -1)[:, :n])[None]
    close = restored @ w.numbers.double().mT
    assert torch.allclose(found.double(), close, rtol=2**-7, atol=1e-3 * close.abs().max().item())


REFUSED: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("fp32", lambda: quantized_gemm(A.float(), B.float()), TypeError, "a"),
    ("mixed", lambda: quantized_gemm(A, B.half()), TypeError, "b"),
    ("k", lambda: quantized_gemm(A, A), ValueError, "b"),
    ("least", lambda: quantized_gemm(A, B, least=0.0), ValueError, "least"),
    ("nan", lambda: quantized_gemm(A, B, least=math.nan), ValueError, "least"),
    ("factors", lambda: quantized_gemm(A, B, scale_dtype=torch.bfloat16), TypeError, "scale_dtype"),
    ("dtype", lambda: quantized_gemm(A, B, dtype=torch.float8_e5m2), TypeError, "dtype"),
]


@pytest.mark.parametrize(("_what", "call", "kind", "name"), REFUSED)
def test_refused(_what: str, call: Callable[[], Any], kind: type[Exception], name: str) -> None:
    refusals.check(call, kind, name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu() -> None:
    with pytest.raises(DeviceError, match="there is no GPU here"):
        quantized_gemm(A, B)


@pytest.mark.slow
def test_opcheck(launches: list[str]) -> None:
    operator = torch.ops.schedgen.quantized_gemm.default
    for a, b in (
        (random(5, 8), random(8, 6)),
        (random(2, 4, 8), random(2, 8, 16)),
        (random(2, 3, 4, 8), random(8, 16)),
    ):
        torch.library.opcheck(operator, (a, b, 1e-4, False))
        torch.library.opcheck(operator, (a, b, 1e-4, True), test_utils=scaled.CHECKS)


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

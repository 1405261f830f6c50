"""`gemm_rotary` without a GPU: what it refuses, shapes, checks of torch, what is left to do when
the kernel is computed by torch on the CPU, and the kernel in the emulator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from schedgen.errors import SchedgenError
from schedgen.kernels import gemm_rotary
from schedgen.kernels.errors import DeviceError
from tests.kernels import refusals
from tests.kernels import test_scaled_op as scaled
from tests.kernels.test_gemm_op import Shape, random

A, B = random(4, 8), random(8, 128)
COSINE, SINE = torch.ones(4, 64), torch.zeros(4, 64)


def angles(*shape: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines."""
    found = torch.rand(shape) * 6
    return found.cos(), found.sin()


def turned(a: Tensor, b: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """In float64."""
    half = cosine.shape[-1]
    sums = a.double() @ b.double()
    pairs = sums.view(*sums.shape[:-1], -1, 2, half)
    x, y = pairs.select(-2, 0), pairs.select(-2, 1)
    c, s = cosine.double()[..., None, :], sine.double()[..., None, :]
    return torch.cat([x * c - y * s, y * c + x * s], -1)


CASES: list[tuple[Shape, int, int, Shape]] = [
    ((5, 16), 3, 64, (5, 64)),
    ((130, 16), 2, 32, (130, 32)),
    ((2, 3, 7, 24), 4, 32, (7, 32)),
    ((2, 7, 24), 1, 64, (2, 7, 64)),
    ((2, 7, 24), 1, 64, (1, 64)),
]


@pytest.mark.parametrize(("left", "heads", "half", "given"), CASES)
@pytest.mark.parametrize("transposed", [False, True])
def test_results(
    launches: list[str], left: Shape, heads: int, half: int, given: Shape, transposed: bool
) -> None:
    a, b = random(*left), random(left[-1], 2 * half * heads, seed=1)
    b = b.mT.contiguous().mT if transposed else b
    cosine, sine = angles(*given)
    found = gemm_rotary(a, b, cosine, sine)
    assert (found.shape, found.dtype) == ((*left[:-1], heads, 2 * half), a.dtype)
    assert found.is_contiguous()
    assert torch.allclose(found.double(), turned(a, b, cosine, sine), rtol=2**-7, atol=1e-2)
    assert launches == [f"gemm_rotary_sm_90a_bf16_half{half}.py"]


def test_nothing(launches: list[str]) -> None:
    assert not gemm_rotary(random(4, 0), random(0, 128), COSINE, SINE).any()
    assert gemm_rotary(random(0, 8), B, COSINE[:0], SINE[:0]).shape == (0, 1, 128)
    assert gemm_rotary(A, random(8, 0), COSINE, SINE).shape == (4, 0, 128)
    assert launches == []


REFUSED: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("fp32", lambda: gemm_rotary(A.float(), B.float(), COSINE, SINE), TypeError, "a"),
    ("mixed", lambda: gemm_rotary(A, B.half(), COSINE, SINE), TypeError, "b"),
    ("weights", lambda: gemm_rotary(A[None], B[None], COSINE, SINE), ValueError, "b"),
    ("heads", lambda: gemm_rotary(A, random(8, 96), COSINE, SINE), ValueError, "b"),
    ("half", lambda: gemm_rotary(A, B, COSINE[:, :48], SINE), ValueError, "cosine"),
    ("angles", lambda: gemm_rotary(A, B, COSINE, SINE.bfloat16()), TypeError, "sine"),
    ("rows", lambda: gemm_rotary(A, B, COSINE, SINE[:3]), ValueError, "sine"),
    ("more", lambda: gemm_rotary(A, B, COSINE.expand(2, 4, 64), SINE), ValueError, "cosine"),
]


@pytest.mark.parametrize(("_what", "call", "kind", "name"), REFUSED)
def test_refused(_what: str, call: Callable[[], Any], kind: type[Exception], name: str) -> None:
    refusals.check(call, kind, name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu() -> None:
    with pytest.raises(DeviceError, match="there is no GPU here"):
        gemm_rotary(A, B, COSINE, SINE)


def test_opcheck(launches: list[str]) -> None:
    operator = torch.ops.schedgen.gemm_rotary.default
    torch.library.opcheck(operator, (A, B, *angles(4, 64)))
    torch.library.opcheck(operator, (random(2, 5, 8), B, *angles(5, 32)))


def test_shapes_without_data() -> None:
    with FakeTensorMode():
        a = torch.empty(2, 5, 8, device="cuda", dtype=torch.float16)
        b = torch.empty(8, 384, device="cuda", dtype=torch.float16)
        c = torch.empty(5, 64, device="cuda")
        found = gemm_rotary(a, b, c, c)
        assert (found.shape, found.dtype) == ((2, 5, 3, 128), torch.float16)


def test_no_gradients(launches: list[str]) -> None:
    found = gemm_rotary(A.clone().requires_grad_(), B, COSINE, SINE)
    with pytest.raises((SchedgenError, RuntimeError), match="backward"):
        found.sum().backward()


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(("left", "heads", "half", "given"), [CASES[1], CASES[3], CASES[4]])
def test_emulated(
    monkeypatch: pytest.MonkeyPatch, arch: str, left: Shape, heads: int, half: int, given: Shape
) -> None:
    scaled.install(monkeypatch, arch, scaled.Emulated)
    a, b = random(*left), random(left[-1], 2 * half * heads, seed=1)
    cosine, sine = angles(*given)
    found = gemm_rotary(a, b.mT.contiguous().mT, cosine, sine)
    assert torch.allclose(found.double(), turned(a, b, cosine, sine), rtol=2**-7, atol=1e-2)

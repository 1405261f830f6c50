"""`linear_cross_entropy` without a GPU: what it refuses, shapes, checks of torch, what is left to
do when the kernel is computed by torch on the CPU, and the kernel in the emulator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from schedgen.errors import SchedgenError
from schedgen.kernels import cross_entropy_op, linear_cross_entropy
from schedgen.kernels.errors import DeviceError
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec
from schedgen.walking import counted
from tests.kernels import refusals
from tests.kernels import test_scaled_op as scaled
from tests.kernels.test_gemm_op import Shape, random

A, B = random(4, 8), random(8, 50)
TARGET = torch.tensor([0, 49, 7, -100])


def wanted(a: Tensor, b: Tensor, target: Tensor, scale: float = 1.0) -> Tensor:
    """In float64."""
    logits = (a.double() @ b.double() * scale).flatten(0, -2)
    loss = functional.cross_entropy(logits, target.long().flatten(), reduction="none")
    return loss.view(target.shape)


def targets(shape: Shape, n: int) -> Tensor:
    return torch.randint(0, n, shape)


@pytest.fixture
def hopper(launches: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were launched."""
    monkeypatch.setattr(cross_entropy_op, "architecture", lambda _: "sm_90a")  # pyright: ignore
    return launches


@pytest.mark.parametrize(("left", "n"), [((5, 16), 40), ((130, 24), 1000), ((2, 3, 16), 257)])
@pytest.mark.parametrize("transposed", [False, True])
def test_results(hopper: list[str], left: Shape, n: int, transposed: bool) -> None:
    a, b = random(*left), random(left[-1], n, seed=1)
    b = b.mT.contiguous().mT if transposed else b
    target = targets(left[:-1], n)
    found = linear_cross_entropy(a, b, target, scale=0.5)
    assert isinstance(found, Tensor)
    assert found.dtype is torch.float32
    assert torch.allclose(found.double(), wanted(a, b, target, 0.5), rtol=1e-4, atol=1e-4)
    assert hopper == ["gemm_lse_sm_90a_bf16.py"]


@pytest.mark.parametrize(("target", "arch"), [("h200", "sm_90a"), ("b200", "sm_100a")])
def test_columns_of_tiles(target: str, arch: str) -> None:
    spec = read_spec("gemm_lse")
    (kernel, *_) = bind(spec.source, spec.file, target, {})
    assert counted(kernel)["n_tiles"] == ("n", cross_entropy_op.COLUMNS[arch], 1)


def test_ignored_rows_and_sums(hopper: list[str]) -> None:
    loss, lse = linear_cross_entropy(A, B, TARGET, return_lse=True)
    assert torch.allclose(loss.double(), wanted(A, B, TARGET), rtol=1e-4, atol=1e-4)
    assert loss[3] == 0
    assert torch.allclose(lse.double(), (A.double() @ B.double()).logsumexp(-1), rtol=1e-4)
    (again, _) = linear_cross_entropy(A, B, TARGET.int(), ignore_index=7, return_lse=True)
    assert again[2] == 0


def test_nothing(hopper: list[str]) -> None:
    loss = linear_cross_entropy(random(4, 0), random(0, 50), TARGET)
    assert isinstance(loss, Tensor)
    assert torch.allclose(loss, torch.tensor([math.log(50)] * 3 + [0.0]))
    empty = linear_cross_entropy(random(0, 8), B, TARGET[:0])
    assert isinstance(empty, Tensor)
    assert empty.shape == (0,)
    assert hopper == []


REFUSED: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("fp32", lambda: linear_cross_entropy(A.float(), B.float(), TARGET), TypeError, "a"),
    ("mixed", lambda: linear_cross_entropy(A, B.half(), TARGET), TypeError, "b"),
    ("weights", lambda: linear_cross_entropy(A[None], B[None], TARGET[None]), ValueError, "b"),
    ("no columns", lambda: linear_cross_entropy(A, B[:, :0], TARGET), ValueError, "b"),
    ("numbers", lambda: linear_cross_entropy(A, B, TARGET.float()), TypeError, "target"),
    ("rows", lambda: linear_cross_entropy(A, B, TARGET[:3]), ValueError, "target"),
    ("scale", lambda: linear_cross_entropy(A, B, TARGET, scale=0.0), ValueError, "scale"),
]


@pytest.mark.parametrize(("_what", "call", "kind", "name"), REFUSED)
def test_refused(_what: str, call: Callable[[], Any], kind: type[Exception], name: str) -> None:
    refusals.check(call, kind, name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu() -> None:
    with pytest.raises(DeviceError, match="there is no GPU here"):
        linear_cross_entropy(A, B, TARGET)


def test_opcheck(hopper: list[str]) -> None:
    operator = torch.ops.schedgen.linear_cross_entropy.default
    torch.library.opcheck(operator, (A, B, TARGET, 1.0, -100))
    torch.library.opcheck(operator, (random(2, 5, 8), B, targets((2, 5), 50), 2.0, -100))


def test_shapes_without_data() -> None:
    with FakeTensorMode():
        a = torch.empty(2, 5, 8, device="cuda", dtype=torch.float16)
        b = torch.empty(8, 300, device="cuda", dtype=torch.float16)
        target = torch.empty(2, 5, device="cuda", dtype=torch.int64)
        found = linear_cross_entropy(a, b, target)
        assert isinstance(found, Tensor)
        assert (found.shape, found.dtype) == ((2, 5), torch.float32)


def test_no_gradients(hopper: list[str]) -> None:
    loss = linear_cross_entropy(A.clone().requires_grad_(), B, TARGET)
    assert isinstance(loss, Tensor)
    with pytest.raises((SchedgenError, RuntimeError), match="backward"):
        loss.sum().backward()


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(("left", "n"), [((130, 72), 520), ((2, 7, 40), 33)])
def test_emulated(monkeypatch: pytest.MonkeyPatch, arch: str, left: Shape, n: int) -> None:
    scaled.install(monkeypatch, arch, scaled.Emulated)
    monkeypatch.setattr(cross_entropy_op, "architecture", lambda _: arch)  # pyright: ignore
    a, b = random(*left), random(left[-1], n, seed=1)
    target = targets(left[:-1], n)
    target.view(-1)[1] = -100
    found = linear_cross_entropy(a, b.mT.contiguous().mT, target, scale=0.25)
    assert isinstance(found, Tensor)
    assert torch.allclose(found.double(), wanted(a, b, target, 0.25), rtol=1e-4, atol=1e-4)

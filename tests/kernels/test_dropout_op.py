"""Dropout without a GPU: what is refused, checks of torch, gradients, which elements are dropped
when kernels are computed by torch on the CPU; and the kernels in the emulator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from schedgen.expressions import Name, parse
from schedgen.interpret.formulas import compute
from schedgen.kernels import dropout, dropout_op, gemm_dropout
from schedgen.kernels.errors import DeviceError
from tests.kernels import refusals
from tests.kernels import test_scaled_op as scaled
from tests.kernels.test_gemm_gradients import check
from tests.kernels.test_gemm_op import Shape, random

A, B, BIAS, C = random(4, 8), random(8, 24), random(24), random(4, 24)
SEEDS = [0, 7, -1, 2**31, 2**63 + 12345]
PARTS = "uniform(low, high, row, column)"


def kept(shape: Shape, p: float, seed: int) -> Tensor:
    """What elements of a result are multiplied by, in float64, from the seed's two halves."""
    halves = (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF)
    rows = torch.Size(shape[:-1]).numel()
    names = {
        **{name: torch.tensor(half) for name, half in zip(("low", "high"), halves, strict=True)},
        "row": torch.arange(rows)[:, None],
        "column": torch.arange(shape[-1])[None],
    }

    def look(name: Name) -> Tensor:
        return names[name.name]

    drawn = compute(parse(PARTS), look)
    scale = 1 / (1 - p) if p < 1 else 0.0
    return torch.where(drawn < torch.tensor(p), 0.0, scale).double().view(shape)


def wanted(
    a: Tensor, b: Tensor, p: float, seed: int, bias: Tensor | None, residual: Tensor | None
) -> Tensor:
    """In float64."""
    found = a.double() @ b.double()
    found = found if bias is None else found + bias.double()
    found = found * kept(tuple(found.shape), p, seed)
    return found if residual is None else found + residual.double()


def close(found: Tensor, right: Tensor) -> bool:
    return torch.allclose(found.double(), right, rtol=2**-7, atol=1e-2)


@pytest.mark.parametrize(
    ("left", "right", "addend"),
    [
        ((5, 16), (16, 40), (5, 40)),
        ((130, 24), (24, 264), None),
        ((2, 3, 16), (16, 33), (33,)),
        ((2, 7, 16), (2, 16, 24), (7, 24)),
        ((3, 1, 7, 16), (2, 16, 24), (1, 24)),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_results(
    launches: list[str], left: Shape, right: Shape, addend: Shape | None, bias: bool
) -> None:
    a, b = random(*left), random(*right, seed=1)
    row = random(right[-1], seed=2) if bias else None
    residual = None if addend is None else random(*addend, seed=3)
    found = gemm_dropout(a, b, 0.3, 11, bias=row, residual=residual)
    assert found.is_contiguous()
    assert close(found, wanted(a, b, 0.3, 11, row, residual))
    assert len(launches) == 1
    assert launches[0].startswith("gemm_dropout_sm_90a_bf16")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", [(24,), (5, 16), (2, 3, 33)])
def test_elements(launches: list[str], shape: Shape, seed: int) -> None:
    x = random(*shape).half()
    found = dropout(x, 0.5, seed)
    assert torch.equal(found.double(), x.double() * kept(shape, 0.5, seed))
    assert launches == ["dropout_sm_90a_fp16.py"]


def test_both_drop_the_same(launches: list[str]) -> None:
    """Also where batches of results are rows of one matrix, and where they are not."""
    for right in ((16, 40), (2, 16, 40)):
        a, b = torch.ones(2, 33, 16).bfloat16(), torch.ones(*right).bfloat16()
        found = gemm_dropout(a, b, 0.5, 3)
        assert torch.equal(found == 0, dropout(torch.ones_like(found), 0.5, 3) == 0)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_all_or_nothing(launches: list[str], p: float) -> None:
    """Also of what is infinite: what is dropped is 0."""
    a = A.clone()
    a[1, 2] = torch.inf
    found = gemm_dropout(a, B, p, 5, residual=C)
    if p:
        assert torch.equal(found, C)
    else:
        assert close(found[2:], wanted(A, B, 0.0, 5, None, C)[2:])
        assert not found[1].isfinite().any()


def test_empty_sums(launches: list[str]) -> None:
    """Where k is 0 a bias is left, and a residual."""
    none = random(4, 0), random(0, 24)
    assert close(gemm_dropout(*none, 0.5, 1, bias=BIAS, residual=C), wanted(*none, 0.5, 1, BIAS, C))
    assert not gemm_dropout(*none, 0.5, 1).any()
    assert gemm_dropout(random(0, 8), B, 0.5, 1).shape == (0, 24)
    assert dropout(random(0, 8), 0.5, 1).shape == (0, 8)


@pytest.mark.parametrize(
    ("left", "right", "addend"),
    [((40, 24), (24, 56), (40, 56)), ((2, 40, 24), (24, 56), (56,)), ((2, 9, 24), (2, 24, 56), ())],
)
def test_gradients(launches: list[str], left: Shape, right: Shape, addend: Shape) -> None:
    a, b, bias = random(*left), random(*right, seed=1), random(right[-1], seed=3)
    factors = kept((*left[:-1], right[-1]), 0.25, 9)

    def found(a: Tensor, b: Tensor, bias: Tensor, c: Tensor) -> Tensor:
        return gemm_dropout(a, b, 0.25, 9, bias=bias, residual=c)

    def exact(a: Tensor, b: Tensor, bias: Tensor, c: Tensor) -> Tensor:
        return factors * (a @ b + bias) + c

    check(found, exact, a, b, bias, random(*addend, seed=2))


def test_gradients_of_elements(launches: list[str]) -> None:
    factors = kept((7, 40), 0.5, 9)

    def found(x: Tensor) -> Tensor:
        return dropout(x, 0.5, 9)

    def exact(x: Tensor) -> Tensor:
        return factors * x

    check(found, exact, random(7, 40))


REFUSED: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("fp32", lambda: gemm_dropout(A.float(), B.float(), 0.5, 0), TypeError, "a"),
    ("mixed", lambda: gemm_dropout(A, B, 0.5, 0, residual=C.half()), TypeError, "residual"),
    ("inner", lambda: gemm_dropout(A, A, 0.5, 0), ValueError, "b"),
    ("bias", lambda: gemm_dropout(A, B, 0.5, 0, bias=BIAS[:8]), ValueError, "bias"),
    ("residual", lambda: gemm_dropout(A, B, 0.5, 0, residual=C[:3]), ValueError, "residual"),
    ("percent", lambda: gemm_dropout(A, B, 50, 0), ValueError, "p"),
    ("negative", lambda: dropout(A, -0.5, 0), ValueError, "p"),
    ("no number", lambda: dropout(A, float("nan"), 0), ValueError, "p"),
    ("long seed", lambda: dropout(A, 0.5, 2**64), ValueError, "seed"),
    ("least seed", lambda: gemm_dropout(A, B, 0.5, -(2**63) - 1), ValueError, "seed"),
    ("type", lambda: dropout(A.double(), 0.5, 0), TypeError, "x"),
    ("scalar", lambda: dropout(A[0, 0], 0.5, 0), ValueError, "x"),
]


@pytest.mark.parametrize(("_what", "call", "kind", "name"), REFUSED)
def test_refused(_what: str, call: Callable[[], Any], kind: type[Exception], name: str) -> None:
    refusals.check(call, kind, name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu() -> None:
    for call in (lambda: gemm_dropout(A, B, 0.5, 0), lambda: dropout(A, 0.5, 0)):
        with pytest.raises(DeviceError, match="there is no GPU here"):
            call()


def test_opcheck(launches: list[str]) -> None:
    operators = torch.ops.schedgen
    a, b, bias, c = (x.clone().requires_grad_() for x in (A, B, BIAS, C))
    torch.library.opcheck(operators.gemm_dropout.default, (a, b, bias, c, 0.5, 2.0, 7, -9))
    torch.library.opcheck(operators.gemm_dropout.default, (A, B, None, None, 0.5, 2.0, 7, -9))
    torch.library.opcheck(operators.dropout.default, (a, 0.5, 2.0, 7, -9))


def test_shapes_without_data() -> None:
    with FakeTensorMode():
        a = torch.empty(2, 5, 8, device="cuda", dtype=torch.float16)
        b = torch.empty(8, 300, device="cuda", dtype=torch.float16)
        found = gemm_dropout(a, b, 0.5, 1)
        assert (found.shape, found.dtype) == ((2, 5, 300), torch.float16)
        assert dropout(found, 0.5, 1).shape == (2, 5, 300)


class Emulated(scaled.Emulated):
    """With what a launcher has, too."""

    zeros = {torch.bfloat16: torch.zeros(8, dtype=torch.bfloat16)}  # noqa: RUF012


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(("left", "right"), [((130, 72), (72, 264)), ((2, 7, 40), (2, 40, 13))])
def test_emulated(monkeypatch: pytest.MonkeyPatch, arch: str, left: Shape, right: Shape) -> None:
    """Both kernels, over tiles with ragged ends and batches; and gradients drop the same."""
    scaled.install(monkeypatch, arch, Emulated)
    monkeypatch.setattr(dropout_op.choosing, "architecture", lambda _: arch)  # pyright: ignore
    monkeypatch.setattr(dropout_op.choosing, "multiprocessors", lambda _: 2)  # pyright: ignore
    dropout_op._kernel.cache_clear()  # pyright: ignore[reportPrivateUsage]
    a, b = random(*left), random(*right, seed=1)
    bias, c = random(right[-1], seed=2), random(right[-1], seed=3)
    seed = 2**63 + 12345
    found = gemm_dropout(a, b, 0.4, seed, bias=bias, residual=c)
    assert close(found, wanted(a, b, 0.4, seed, bias, c))
    ones = dropout(torch.ones_like(found), 0.4, seed)
    assert close(ones, kept(tuple(found.shape), 0.4, seed))


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_tiles_drop_the_same(monkeypatch: pytest.MonkeyPatch, arch: str) -> None:
    """Of every size that there are kernels for."""
    scaled.install(monkeypatch, arch, Emulated)
    a, b = torch.ones(150, 16).bfloat16(), torch.ones(16, 264).bfloat16()
    for tile in dropout_op.choosing.tiling.DROPPED[arch]:

        def kernel(*_: Any, _tile: Any = tile, **__: Any) -> tuple[Any, Any]:
            settings = {"dtype": "bf16", **_tile.settings}
            return _tile, dropout_op.library.launcher(scaled.CPU, "gemm_dropout", **settings)

        monkeypatch.setattr(dropout_op, "_kernel", kernel)
        found = gemm_dropout(a, b, 0.5, 1)
        assert torch.equal(found.double(), 16 * kept((150, 264), 0.5, 1))

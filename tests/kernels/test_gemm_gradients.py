"""Gradients of products beside those of torch in float64, with kernels computed on the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from schedgen.errors import SchedgenError
from schedgen.kernels import gemm, gemm_gated, gemm_rms, gemm_scaled, symmetric_gemm
from tests.kernels.test_gemm_op import random

Function = Callable[..., Tensor]


def near(found: Tensor | None, wanted: Tensor) -> bool:
    """As near as results of products in bf16 are."""
    assert found is not None
    assert found.shape == wanted.shape
    apart = found.double() - wanted
    return bool(apart.square().sum() <= (8e-3) ** 2 * wanted.square().sum() + 1e-12)


def check(found: Function, wanted: Function, *operands: Tensor) -> None:
    """Results, and gradients of all operands, are those of ``wanted`` in float64."""
    mine = [x.clone().requires_grad_() for x in operands]
    exact = [x.double().requires_grad_() for x in operands]
    one, other = found(*mine), wanted(*exact)
    outside = torch.randn(one.shape, generator=torch.Generator().manual_seed(7)).to(one.dtype)
    of_mine = torch.autograd.grad(one, mine, outside)
    of_exact = torch.autograd.grad(other, exact, outside.double())
    for each, x, right in zip(of_mine, operands, of_exact, strict=True):
        assert each.dtype is x.dtype
        assert near(each, right)


@pytest.mark.parametrize(
    ("left", "right", "addend"),
    [
        ((40, 24), (24, 56), None),
        ((2, 40, 24), (24, 56), (56,)),
        ((2, 40, 24), (2, 24, 56), (40, 56)),
        ((3, 1, 40, 24), (2, 24, 56), (1, 1)),
    ],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_products(
    launches: list[str],
    left: tuple[int, ...],
    right: tuple[int, ...],
    addend: tuple[int, ...] | None,
    transposed: bool,
) -> None:
    a, b = random(*left), random(*right, seed=1)
    b = b.mT.contiguous().mT if transposed else b
    c = () if addend is None else (random(*addend, seed=2),)

    def wanted(a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
        return 0.5 * a @ b + (0 if c is None else 2.0 * c)

    check(lambda *x: gemm(*x, alpha=0.5, beta=2.0), wanted, a, b, *c)


@pytest.mark.parametrize("bias", [True, False])
def test_activation(launches: list[str], bias: bool) -> None:
    a, b = random(2, 40, 24), random(24, 56, seed=1)
    more = (random(56, seed=2),) if bias else ()

    def found(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
        return gemm(a, b, bias=bias, activation="gelu")

    def wanted(a: Tensor, b: Tensor, bias: Tensor | float = 0.0) -> Tensor:
        return functional.gelu(a @ b + bias, approximate="tanh")

    check(found, wanted, a, b, *more)


def test_symmetric(launches: list[str]) -> None:
    """Of a a^T, through both operands."""

    def wanted(a: Tensor) -> Tensor:
        return a @ a.mT

    check(symmetric_gemm, wanted, random(48, 24))


@pytest.mark.parametrize("gate", ["silu", "gelu"])
@pytest.mark.parametrize("scaled", [True, False])
def test_gates(launches: list[str], gate: Any, scaled: bool) -> None:
    x, g, u = random(2, 40, 24), random(24, 56, seed=1), random(24, 56, seed=2)
    r = (torch.rand(2, 40) + 0.5,) if scaled else ()
    activation = functional.silu if gate == "silu" else _gelu

    def found(x: Tensor, g: Tensor, u: Tensor, r: Tensor | None = None) -> Tensor:
        return gemm_gated(x, g, u, activation=gate, row_scale=r)

    def wanted(x: Tensor, g: Tensor, u: Tensor, r: Tensor | None = None) -> Tensor:
        factor = 1.0 if r is None else r[..., None]
        return activation(factor * (x @ g)) * (factor * (x @ u))

    check(found, wanted, x, g, u, *r)


def _gelu(x: Tensor) -> Tensor:
    return functional.gelu(x, approximate="tanh")


def test_factors_of_rows(launches: list[str]) -> None:
    a, b, r = random(2, 40, 24), random(24, 56, seed=1), torch.rand(2, 40) + 0.5

    def wanted(a: Tensor, b: Tensor, r: Tensor) -> Tensor:
        return r[..., None] * (a @ b)

    check(gemm_scaled, wanted, a, b, r)


def test_normalization(launches: list[str]) -> None:
    """Through the result and through its factors, as a layer uses them."""
    a, b, c, w = random(40, 24), random(24, 56, seed=1), random(40, 56, seed=2), random(56, 16)

    def found(a: Tensor, b: Tensor, c: Tensor, w: Tensor) -> Tensor:
        d, r = gemm_rms(a, b, c, beta=0.5, eps=0.25)
        return gemm_scaled(d, w, r)

    def wanted(a: Tensor, b: Tensor, c: Tensor, w: Tensor) -> Tensor:
        d = a @ b + 0.5 * c
        return (d.square().mean(-1, keepdim=True) + 0.25).rsqrt() * (d @ w)

    check(found, wanted, a, b, c, w)


def test_only_what_is_asked_for(launches: list[str]) -> None:
    a, b = random(40, 24).requires_grad_(), random(24, 56, seed=1)
    gemm(a, b).sum().backward()
    assert a.grad is not None
    assert len(launches) == 2


def test_twice(launches: list[str]) -> None:
    """A graph is used once, as in torch; gradients have gradients."""
    a, b = (random(16, 16, seed=n).requires_grad_() for n in range(2))
    d = gemm(a, b)
    (first,) = torch.autograd.grad((d * d).sum(), a, create_graph=True)
    first.sum().backward()
    wanted = 2 * (torch.ones(16, 16).double() @ b.double()) @ b.double().mT
    exact = [x.detach().double().requires_grad_() for x in (a, b)]
    of_a = torch.autograd.grad((exact[0] @ exact[1]).square().sum(), exact[0], create_graph=True)
    of_a[0].sum().backward()
    assert near(a.grad, wanted)
    assert near(b.grad, exact[1].grad if exact[1].grad is not None else wanted)
    d = gemm(a, b).sum()
    d.backward()
    with pytest.raises(RuntimeError, match="second time"):
        d.backward()


def test_in_one_graph(launches: list[str]) -> None:
    def layer(x: Tensor, w: Tensor) -> Tensor:
        return gemm(x, w.mT, bias=None, activation="gelu").float().square().mean()

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x, w = random(24, 16).requires_grad_(), random(32, 16, seed=1).requires_grad_()
    wanted = torch.autograd.grad(layer(x, w), (x, w))
    found = torch.autograd.grad(compiled(x, w), (x, w))
    assert all(map(torch.equal, found, wanted))


def test_written_results_have_none(launches: list[str]) -> None:
    a, b = random(8, 8).requires_grad_(), random(8, 8, seed=1)
    with pytest.raises(SchedgenError, match="out= and gradients"):
        gemm(a, b, out=torch.full((8, 8), math.nan, dtype=a.dtype))

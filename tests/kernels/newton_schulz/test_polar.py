"""`polar` against float64 evaluations of the same polynomials."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.kernels import ArgumentTypeError, ArgumentValueError, GradientError, polar
from schedgen.kernels.newton_schulz.coefficients import Step, resolve
from schedgen.kernels.newton_schulz.iterations import halley
from schedgen.kernels.newton_schulz.restarts import best

linalg: Any = torch.linalg
GAUSSIAN, DECAYING = 1e-2, 6e-2
"""Relative errors in the norm that rounding may leave (issue 6, as measured for others)."""


def reference(x: Tensor, steps: Sequence[Step]) -> Tensor:
    """The same polynomials in float64."""
    tall = x.shape[-2] > x.shape[-1]
    x = x.double().mT if tall else x.double()
    x = x / x.square().sum((-2, -1), keepdim=True).sqrt()
    for a, b, c in steps:
        r = x @ x.mT
        z = r @ x
        x = a * x + b * z + c * (r @ z)
    return x.mT if tall else x


def error(found: Tensor, wanted: Tensor) -> float:
    return math.sqrt((found.double() - wanted).square().sum() / wanted.square().sum())


def defect(x: Tensor) -> float:
    """|| X X^T - I || / sqrt(n) of the smaller side."""
    x = x.double() if x.shape[-2] <= x.shape[-1] else x.double().mT
    n = x.shape[-2]
    return math.sqrt((x @ x.mT - torch.eye(n, device=x.device)).square().sum() / n)


def decaying(m: int, n: int) -> Tensor:
    """Singular values from 1 to 1e-5."""
    k = min(m, n)
    left, right = (linalg.qr(torch.randn(size, k)).Q for size in (m, n))
    return (left * torch.logspace(0, -5, k)) @ right.mT


@pytest.mark.parametrize("method", ["standard", "gram"])
@pytest.mark.parametrize("name", ["polar_express", "you", "jordan", "cubic5"])
@pytest.mark.parametrize(
    "shape",
    [(64, 200), (200, 64), (96, 96), (3, 72, 130), (2, 2, 33, 17), (5, 40)],
)
def test_gaussian(shape: tuple[int, ...], name: str, method: Any) -> None:
    x = torch.randn(shape)
    kept = x.clone()
    found = polar(x, method, coefficients=name)
    wanted = reference(x, resolve(name, 5))
    assert error(found, wanted) <= GAUSSIAN
    assert defect(found.reshape(-1, *shape[-2:])[0]) == pytest.approx(
        defect(wanted.reshape(-1, *shape[-2:])[0]), rel=0.02, abs=2e-3
    )
    assert torch.equal(x, kept)
    assert found.is_contiguous()
    assert found.shape == x.shape
    assert found.dtype == x.dtype


@pytest.mark.parametrize("shape", [(96, 384), (384, 96)])
@pytest.mark.parametrize("method", ["standard", "gram"])
def test_decaying(shape: tuple[int, int], method: Any) -> None:
    x = decaying(*shape)
    assert error(polar(x, method), reference(x, resolve("polar_express", 5))) <= DECAYING


def test_without_restarts_it_goes_wrong() -> None:
    """So `restarts` does something."""
    x, steps = decaying(96, 384), resolve("polar_express", 5)
    wanted = reference(x, steps)
    without, found = polar(x, restarts=()), polar(x)
    assert best(steps) == (2,)
    assert not error(without, wanted) < 2 * error(found, wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_types(dtype: torch.dtype) -> None:
    x = torch.randn(40, 90).to(dtype)
    found = polar(x)
    assert found.dtype == dtype
    assert error(found, reference(x, resolve("polar_express", 5))) <= GAUSSIAN


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e20, 1e30])
def test_any_norm(scale: float) -> None:
    x = torch.randn(40, 90)
    assert error(polar(x * scale), polar(x).double()) <= GAUSSIAN


@pytest.mark.parametrize("shape", [(1, 50), (50, 1), (1, 1), (3, 1, 7)])
def test_vectors(shape: tuple[int, ...]) -> None:
    """Their only singular value is exactly 1, where b R + c R^2 cancels most of a."""
    x = torch.randn(shape)
    assert error(polar(x), reference(x, resolve("polar_express", 5))) <= 2 * GAUSSIAN


def test_zeros_and_lost_ranks() -> None:
    assert torch.equal(polar(torch.zeros(2, 30, 70)), torch.zeros(2, 30, 70))
    x = torch.randn(60, 5) @ torch.randn(5, 150)
    found = polar(x)
    values = linalg.svdvals(found.double())
    assert found.isfinite().all()
    assert values[:5].min() > 0.5
    assert values[5:].max() < 0.1


@pytest.mark.parametrize("method", ["standard", "gram", "turbo", "rational"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite(method: Any, value: float) -> None:
    x = torch.randn(2, 30, 70)
    x[0, 3, 4] = value
    found = polar(x, method)
    assert found[0].isnan().any()
    assert found[1].isfinite().all()


def test_empty() -> None:
    assert polar(torch.zeros(0, 3, 4)).shape == (0, 3, 4)
    assert polar(torch.zeros(3, 0)).shape == (3, 0)


@pytest.mark.parametrize("shape", [(64, 200), (200, 64), (2, 80, 90)])
def test_turbo_is_closer_with_fewer_steps(shape: tuple[int, ...]) -> None:
    """A function of its own: what it is measured by is how orthogonal its result is."""
    x = torch.randn(shape)
    assert defect(polar(x, "turbo").reshape(-1, *shape[-2:])[0]) < 0.15


def test_preconditioner_alone() -> None:
    x = torch.randn(64, 200)
    assert torch.equal(polar(x, "turbo"), polar(x, steps=4, preconditioner="aol"))


def test_rational_reaches_orthogonality_where_polynomials_do_not() -> None:
    x = torch.randn(64, 200)
    assert defect(polar(x, "rational", 3)) < 1e-3
    assert defect(polar(x, "rational", 3)) < defect(polar(x, "rational", 1))


def test_halley_is_the_function_it_claims_to_be() -> None:
    values = torch.tensor([1.0, 0.3, 1e-2, 1e-3])
    found = halley(torch.diag(values)[None], 4, 1e-3)[0].diagonal()
    assert found.min() > 0.999
    assert found.max() < 1.001
    assert halley(torch.diag(values)[None], 1, 1e-3)[0].diagonal().min() < 0.3


@pytest.mark.parametrize(
    ("arguments", "kind", "says"),
    [
        ({"X": torch.zeros(3)}, ArgumentValueError, "X: it has 1 dimensions"),
        ({"X": torch.zeros(3, 3).int()}, ArgumentTypeError, "X: its dtype is torch.int32"),
        ({"X": [[1.0]]}, ArgumentTypeError, "X: it is a list"),
        ({"method": "svd"}, ArgumentValueError, "method: it is 'svd'"),
        ({"backend": "quack"}, ArgumentValueError, "backend: it is 'quack'"),
        ({"preconditioner": "norm"}, ArgumentValueError, "preconditioner: it is 'norm'"),
        ({"steps": 0}, ArgumentValueError, "steps: it is 0"),
        ({"restarts": (5,)}, ArgumentValueError, "restarts: it is (5,)"),
        ({"method": "rational", "coefficients": "you"}, ArgumentValueError, "method: there are"),
    ],
)
def test_refused(arguments: dict[str, Any], kind: type[Exception], says: str) -> None:
    call: Any = polar
    with pytest.raises(kind, match=re.escape(says)):
        call(**{"X": torch.randn(3, 4), **arguments})


def test_gradients_are_refused() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    with pytest.raises(GradientError):
        polar(x)
    with torch.no_grad():
        polar(x)

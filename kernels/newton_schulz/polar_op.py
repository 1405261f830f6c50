"""`polar`: the orthogonal polar factor U V^T of X = U S V^T, approximately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from schedgen.kernels.checks import DTYPES
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError, GradientError
from schedgen.kernels.newton_schulz import graphs, streams
from schedgen.kernels.newton_schulz import restarts as search
from schedgen.kernels.newton_schulz.backends import GeneratedProducts, Products, TorchProducts
from schedgen.kernels.newton_schulz.coefficients import Step, resolve
from schedgen.kernels.newton_schulz.elementwise import converted, normalized
from schedgen.kernels.newton_schulz.iterations import balanced, gram, halley, standard

Coefficients = str | Sequence[float] | Sequence[Sequence[float]]

_METHODS = ("standard", "gram", "turbo", "rational")
_BACKENDS = ("auto", "torch", "generated")
_SMALLEST = 256
"""Below this the n x n products are too small to gain from half of the tiles."""
_SQUARE = 1.2
"""Up to this aspect `standard` takes about as many operations as `gram`, and is more accurate: such
matrices have small singular values."""
_SMALLEST_SINGULAR_VALUE = 1e-3
"""Relative to the norm: what the weights of `rational` are chosen for. Two steps bring larger
values close to 1; this one takes four."""


def polar(
    X: Tensor,
    method: Literal["standard", "gram", "turbo", "rational"] = "gram",
    steps: int | None = None,
    coefficients: Coefficients | None = None,
    restarts: Literal["auto"] | Sequence[int] = "auto",
    preconditioner: Literal["aol"] | None = None,
    backend: Literal["auto", "torch", "generated"] = "auto",
) -> Tensor:
    """The orthogonal polar factor of X by Newton-Schulz iterations: all singular values go near 1.

    Norms are computed in float64, iterations run in float16 with products that accumulate in
    float32. How near to 1 depends on the polynomials, not on rounding: five steps of Polar Express
    bring singular values from 1e-3 of the norm on to between 0.73 and 1.12. A zero matrix gives
    zeros; what is not finite gives NaN. ``X`` is not changed. There is no backward pass. On a GPU,
    calls with small matrices become CUDA graphs, which are kept for each shape.

    Args:
        X: (..., m, n), float32, bfloat16 or float16, any aspect, any batch.
        method: ``gram`` iterates X X^T (or X^T X, whichever is smaller) where X is not about
            square, which takes fewer operations than ``standard``; ``turbo`` is ``gram`` with
            ``preconditioner="aol"`` and one step fewer; ``rational`` is QDWH in float32 by
            Cholesky factors, a different function with errors of its own.
        steps: iterations; default 5, for ``turbo`` 4, for ``rational`` 2.
        coefficients: name of a set (`coefficients.SETS`), a triple for all steps, or a triple for
            each. Default ``polar_express``, with the preconditioner ``aol``. Not for ``rational``.
        restarts: iterations at which ``gram`` starts again from X; ``auto`` finds them
            (`restarts.best`).
        preconditioner: ``aol`` scales the smaller side so that no singular value exceeds 1, with
            less loss than dividing by the norm.
        backend: ``generated`` for this project's kernels, ``torch``; ``auto`` takes the former on
            GPUs that they are made for, from 256 on.

    Returns:
        (..., m, n) of X's type, contiguous.

    Raises:
        ArgumentValueError, ArgumentTypeError: an argument that does not fit.
        DeviceError: ``generated``, and there is no kernel for this GPU.
        GradientError: X requires a gradient and gradients are enabled.
    """
    _check(X, method, preconditioner, backend)
    if not X.numel():
        return torch.empty_like(X, memory_format=torch.contiguous_format)
    if method == "rational":
        if coefficients is not None or preconditioner is not None:
            got = "there are coefficients or a preconditioner"
            raise ArgumentValueError("method", got, "neither with 'rational'", "leave them away")
        return _factor(X.detach(), _Rational(_steps(steps, 2)))
    aol = method == "turbo" or preconditioner == "aol"
    triples = resolve(
        coefficients or ("aol" if aol else "polar_express"),
        _steps(steps, 4 if method == "turbo" else 5),
    )
    places = _places(restarts, triples)
    products = _products(X, backend)
    return _factor(X.detach(), _Polynomial(method == "standard", triples, places, aol, products))


@dataclass(frozen=True)
class _Rational:
    steps: int
    dtype: ClassVar[torch.dtype] = torch.float32

    def __call__(self, x: Tensor) -> Tensor:
        return halley(x, self.steps, _SMALLEST_SINGULAR_VALUE)


@dataclass(frozen=True)
class _Polynomial:
    """What is done to x (batch, n, m) with n <= m."""

    standard: bool
    triples: tuple[Step, ...]
    restarts: tuple[int, ...]
    aol: bool
    products: Products
    dtype: ClassVar[torch.dtype] = torch.float16

    def __call__(self, x: Tensor) -> Tensor:
        r = None
        if self.aol:
            x, r = balanced(x, self.products.symmetric(x, x.mT))
        square = x.shape[-1] <= _SQUARE * x.shape[-2]
        if self.standard or (square and not self.aol):
            return standard(x, self.triples, self.products)
        return gram(x, self.triples, self.restarts, self.products, r)


def _factor(X: Tensor, iteration: _Rational | _Polynomial) -> Tensor:
    """Flattens the batch, turns tall matrices over, normalizes; and back."""
    tall = X.shape[-2] > X.shape[-1]
    x = X.reshape(-1, *X.shape[-2:])
    x = x.mT if tall else x

    def taken(found: Tensor) -> Tensor:
        result = torch.empty_like(X, memory_format=torch.contiguous_format)
        flat = result.view(-1, *X.shape[-2:])
        converted(found, flat.mT if tall else flat)
        return result

    def fill(start: Tensor) -> Tensor:
        return normalized(x, start)

    if isinstance(iteration, _Polynomial) and graphs.worthwhile(x):
        kind = graphs.Kind(x.shape, iteration.dtype, x.device)
        return graphs.replayed(kind, fill, iteration, taken, iteration)
    return taken(iteration(fill(x.new_empty(x.shape, dtype=iteration.dtype))))


def _steps(given: int | None, default: int) -> int:
    if given is not None and given < 1:
        raise ArgumentValueError("steps", f"it is {given}", "1 and above", "use at least one step")
    return default if given is None else given


def _places(
    restarts: Literal["auto"] | Sequence[int], triples: tuple[Step, ...]
) -> tuple[int, ...]:
    if restarts == "auto":
        return search.best(triples)
    places = tuple(restarts)
    if any(not 0 < p < len(triples) for p in places):
        allowed = f"'auto' or numbers from 1 to {len(triples) - 1}"
        raise ArgumentValueError("restarts", f"it is {restarts!r}", allowed, "restarts='auto'")
    return places


def _products(x: Tensor, backend: str) -> Products:
    if backend == "torch":
        return TorchProducts()
    if backend == "generated":
        return GeneratedProducts(streams.allowed())
    small = min(x.shape[-2:]) < _SMALLEST
    if not x.is_cuda or small or torch.cuda.get_device_capability(x.device)[0] not in (9, 10):
        return TorchProducts()
    return GeneratedProducts(streams.allowed())


def _check(x: object, method: str, preconditioner: str | None, backend: str) -> None:
    if not isinstance(x, Tensor) or x.dtype not in (torch.float32, *DTYPES):
        got = f"its dtype is {x.dtype}" if isinstance(x, Tensor) else f"it is a {type(x).__name__}"
        allowed = "a tensor of float32, bfloat16 or float16"
        raise ArgumentTypeError("X", got, allowed, "X.float()")
    if x.dim() < 2:
        got = f"it has {x.dim()} dimensions"
        raise ArgumentValueError("X", got, "(..., m, n)", "X.unsqueeze(0)")
    for name, value, allowed in (
        ("method", method, _METHODS),
        ("preconditioner", preconditioner, (None, "aol")),
        ("backend", backend, _BACKENDS),
    ):
        if value not in allowed:
            words = ", ".join(map(repr, allowed))
            raise ArgumentValueError(name, f"it is {value!r}", words, f"{name}={allowed[0]!r}")
    if torch.is_grad_enabled() and x.requires_grad:
        raise GradientError("polar has no backward pass; fix: torch.no_grad(), or X.detach()")

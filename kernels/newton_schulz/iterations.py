"""Newton-Schulz iterations on (batch, n, m) with n <= m, in float16.

An iteration maps every singular value x to a x + b x^3 + c x^5 = (a + b x^2 + c x^4) x, so that all
of them approach 1. With R = X X^T this is X <- (a I + b R + c R^2) X.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from schedgen.kernels.newton_schulz.backends import Products
from schedgen.kernels.newton_schulz.coefficients import Step
from schedgen.kernels.newton_schulz.elementwise import shifted

_linalg: Any = torch.linalg
"""Its stubs name no types."""


def standard(x: Tensor, steps: Sequence[Step], products: Products) -> Tensor:
    """Each iteration multiplies X: 2 m n^2 more work each than `gram` where m is large."""
    for a, b, c in steps:
        r = products.symmetric(x, x.mT)
        z = _z(r, b, c, products)
        x = products.product(z, x, x, beta=a)
    return x


def gram(
    x: Tensor,
    steps: Sequence[Step],
    restarts: Collection[int],
    products: Products,
    r: Tensor | None = None,
) -> Tensor:
    """Only R = X X^T is iterated, n x n, and the product Q of all factors; X is multiplied by Q
    at the end and where the iteration starts again.

    All factors are polynomials of R, so they commute and are symmetric. With P = a I + b R + c R^2
    one iteration is Q <- Q P and R <- P R P. a I is added in the accumulator of the products that
    follow, not to the float16 matrix b R + c R^2, which would lose digits.

    ``r`` is X X^T, if it is known.
    """
    q: Tensor | None = None
    z: Tensor | None = None
    for number, (a, b, c) in enumerate(steps):
        if r is None or z is None:
            r = products.symmetric(x, x.mT) if r is None else r
            z = _z(r, b, c, products)
        factor = partial(_factor, q, z, a, products)
        if number + 1 == len(steps) or number + 1 in restarts:
            x = products.product(factor(), x)
            q = r = z = None
        else:  # the next R and the next Q need R and Z, and not each other
            following = partial(_following, r, z, a, steps[number + 1], products)
            (r, z), q = products.together(z, following, factor)
    return x


def _factor(q: Tensor | None, z: Tensor, a: float, products: Products) -> Tensor:
    """Q P, with P = Z + a I; Q is I where it is None."""
    return shifted(z, a) if q is None else products.symmetric(q, z, q, beta=a)


def _following(
    r: Tensor, z: Tensor, a: float, step: Step, products: Products
) -> tuple[Tensor, Tensor]:
    """P R P, the R of the next ``step``, and Z of that."""
    _, b, c = step
    rz = products.symmetric(r, z, r, beta=a)
    r = products.symmetric(z, rz, rz, beta=a)
    return r, _z(r, b, c, products)


def _z(r: Tensor, b: float, c: float, products: Products) -> Tensor:
    """b R + c R^2; for a cubic polynomial that is no product at all."""
    return products.symmetric(r, r, r, alpha=c, beta=b) if c else r * b


def balanced(x: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """AOL: rows of X, and with them R = X X^T, scaled so that no singular value exceeds 1.

    The factors are the inverse square roots of the sums of |R|'s rows (arXiv 2208.03160). A row of
    zeros stays one. In float32 until the end.
    """
    sums = r.float().abs().sum(-1, keepdim=True)
    scale = torch.where(sums > 0, sums.rsqrt(), torch.zeros_like(sums))
    scale = torch.where(sums.isnan(), sums, scale)
    return (x.float() * scale).to(x.dtype), (r.float() * scale * scale.mT).to(r.dtype)


def halley(x: Tensor, steps: int, smallest: float) -> Tensor:
    """Dynamically weighted Halley iterations (QDWH) through Cholesky factors, in float32.

    x (batch, n, m) in float32 with singular values in [``smallest``, 1] or 0. An iteration maps x
    to x (a + b x^2) / (1 + c x^2) with the weights that are best for the interval (Nakatsukasa,
    Bai, Gygi 2010), as b/c X + (a - b/c) (I + c R)^-1 X.
    """
    identity = torch.eye(x.shape[-2], device=x.device)
    for _ in range(steps):
        a, b, c = _weights(smallest)
        factor = _linalg.cholesky_ex(identity + c * (x @ x.mT)).L
        inverse = torch.cholesky_inverse(factor)
        x = torch.baddbmm(x, inverse, x, beta=b / c, alpha=a - b / c)
        smallest = min(1.0, smallest * (a + b * smallest**2) / (1 + c * smallest**2))
    return x


def _weights(smallest: float) -> Step:
    square = smallest * smallest
    d = (4 * (1 - square) / (square * square)) ** (1 / 3)
    root = (1 + d) ** 0.5
    a = root + 0.5 * (8 - 4 * d + 8 * (2 - square) / (square * root)) ** 0.5
    b = (a - 1) ** 2 / 4
    return a, b, a + b - 1

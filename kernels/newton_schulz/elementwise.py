"""What `polar` does beside products: norms, conversions, and a I.

Each is bound by memory. On a GPU they are Triton kernels where Triton is installed, as it is with
torch for CUDA; torch's own functions make a copy in float64 to get the norm, and convert types at a
quarter of the memory's rate.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

_NO_NORM = 1e-300
"""Below any norm but 0; its inverse is finite."""
_linalg: Any = torch.linalg
"""Its stubs name no types."""


def normalized(x: Tensor, out: Tensor) -> Tensor:
    """x / ||x||, each matrix by itself, written to ``out``; zeros stay zeros.

    Norms are in float64, whose range holds the square of any float32.

    Args:
        x: (batch, n, m), any strides.
        out: (batch, n, m), contiguous.
    """
    if fast := _fast(x):
        fast.normalize(x, out)
        return out
    norm = _linalg.vector_norm(x, dim=(-2, -1), keepdim=True, dtype=torch.float64)
    return torch.mul(x, norm.clamp_min_(_NO_NORM).reciprocal_(), out=out)


def converted(x: Tensor, out: Tensor) -> None:
    """Writes x to ``out``, which may have another type and other strides; both (batch, n, m)."""
    if fast := _fast(x):
        fast.convert(x, out, 0.0)
    else:
        out.copy_(x)


def shifted(z: Tensor, a: float) -> Tensor:
    """z + a I, rounded once; z (batch, n, n)."""
    q = torch.empty_like(z)
    if fast := _fast(z):
        fast.convert(z, q, a)
        return q
    q.copy_(z)
    torch.diagonal(q, dim1=-2, dim2=-1).add_(a)
    return q


def _fast(x: Tensor) -> ModuleType | None:
    """The Triton kernels, where they can be used."""
    if not x.is_cuda or not x.numel() or torch.compiler.is_compiling():
        return None
    return _triton()


@cache
def _triton() -> ModuleType | None:
    try:
        return import_module("schedgen.kernels.newton_schulz.elementwise_triton")
    except ImportError:
        return None

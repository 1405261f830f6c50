"""What products of groups of rows demand of their arguments."""

from __future__ import annotations

import torch
from torch import Tensor

from schedgen.kernels import checks, layouts
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError


def check_operands(a: Tensor, b: Tensor) -> None:
    """They are of bf16. Raises ArgumentTypeError."""
    checks.dtypes(a=a, b=b)
    if a.dtype is not torch.bfloat16:  # of others there are no shipped kernels, but the spec
        got, fix = f"its dtype is {a.dtype}", "a.bfloat16()"
        raise ArgumentTypeError("a", got, "torch.bfloat16", fix)


def check_matrices(a: Tensor, b: Tensor) -> None:
    """Rows of ``a`` can be multiplied by any of ``b``. Raises ArgumentValueError."""
    if b.shape[-2] != a.shape[1]:
        got, fix = f"its shape is {tuple(b.shape)}", "pass weights (groups, n, k) as weights.mT"
        allowed = f"(groups, {a.shape[1]}, n), as a is {tuple(a.shape)}"
        if b.dim() == 2:
            fix, allowed = "pass a of (rows, m) as a.mT", allowed.replace("groups, ", "")
        raise ArgumentValueError("b", got, allowed, fix)


def check_offsets(offsets: Tensor, b: Tensor) -> None:
    """There is an end for each matrix, or as many as there are groups of rows. Raises
    ArgumentValueError, ArgumentTypeError.
    """
    check_integers("offsets", offsets)
    along_k = b.dim() == 2
    if offsets.dim() != 1 or not (along_k or offsets.shape == b.shape[:1]):
        got, fix = f"its shape is {tuple(offsets.shape)}", "pass where each group ends: no first 0"
        allowed = f"({b.shape[0]},), a number for each matrix of b"
        raise ArgumentValueError("offsets", got, "(groups,)" if along_k else allowed, fix)


def check_integers(name: str, array: Tensor) -> None:
    """Raises ArgumentTypeError."""
    if array.dtype is not torch.int32:
        raise ArgumentTypeError(name, f"its dtype is {array.dtype}", "torch.int32", f"{name}.int()")


def right(b: Tensor) -> tuple[Tensor, str]:
    """Matrices as a kernel reads them, along k or along n, and which of both; a copy along k if
    there is no other way.
    """
    if layouts.problem(b.mT) is not None and layouts.problem(b) is None:
        return b, "kn"
    return layouts.accessible(b.mT), "nk"

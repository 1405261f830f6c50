"""Operands of products whose epilogues do more, as their kernels take them: with one batch
dimension, in layouts that bulk copies can read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from schedgen.kernels import layouts
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError


class Operands(NamedTuple):
    """What a kernel is launched with.

    Attributes:
        a: (batch, m, k).
        right: (batch, n, k).
        out: (batch, m, n).
        direct: ``out`` is the caller's tensor, and not beside it because that cannot be written in
            bulk.
    """

    a: Tensor
    right: list[Tensor]
    out: Tensor
    direct: bool

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """batch, m, n, k"""
        batch, m, n = self.out.shape
        return batch, m, n, self.a.shape[-1]

    def addend(self, c: Tensor, shape: Sequence[int]) -> Tensor:
        """``c``, which broadcasts to the result's ``shape``, as (batch, m, n)."""
        return layouts.accessible(c.expand(shape).reshape(self.out.shape))

    def of_rows(self, values: Tensor) -> Tensor:
        """Values of all rows of the result as (batch, m)."""
        return layouts.accessible(values.reshape(self.out.shape[:-1]))

    def give(self, out: Tensor) -> None:
        """Copies the result to the caller's ``out`` if it is another tensor."""
        if not self.direct:
            out.copy_(self.out.reshape(out.shape))


def operands(a: Tensor, right: Sequence[Tensor], out: Tensor) -> Operands:
    """(..., m, k), one or more (..., k, n) and (..., m, n), none of them empty. Rows of all batches
    form one matrix where right operands have no batches. Right operands that do not lie along k are
    copied.
    """
    if right[0].dim() == 2:
        rows, target = a.reshape(1, -1, a.shape[-1]), layouts.merged(out, 1)
        columns = [b.unsqueeze(0) for b in right]
    else:
        outer = out.shape[:-2]
        rows, target = layouts.batches(a, outer), layouts.merged(out, outer.numel())
        columns = [layouts.batches(b, outer) for b in right]
    direct = target is not None and layouts.problem(target) is None
    if target is None or not direct:
        target = layouts.room(out, (rows.shape[0], rows.shape[1], out.shape[-1]))
    columns = [layouts.accessible(b.mT) for b in columns]
    return Operands(layouts.accessible(rows), columns, target, direct)


def check_row_scale(row_scale: Tensor | None, shape: torch.Size) -> None:
    """``row_scale`` has a float32 number for each row of a result of ``shape``.

    Raises ArgumentValueError, ArgumentTypeError.
    """
    if row_scale is None:
        return
    if row_scale.dtype is not torch.float32:
        got, fix = f"its dtype is {row_scale.dtype}", "row_scale.float()"
        raise ArgumentTypeError("row_scale", got, "torch.float32", fix)
    if row_scale.shape != shape[:-1]:
        got = f"its shape is {tuple(row_scale.shape)}"
        allowed = f"{tuple(shape[:-1])}, a number for each row of the result"
        raise ArgumentValueError("row_scale", got, allowed, "expand or reshape it")

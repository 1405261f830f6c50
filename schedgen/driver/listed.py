"""Lists of rows for checks: rows that several elements take, and numbers of rows that are not
there.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from schedgen.kernel import Kernel

_ROWS = 53
"""Rows of a tensor that is gathered: fewer than lists have elements."""
_NOWHERE = (-1, 2**31 - 1, -(2**31), None)
"""Numbers of no row in turn; None: the first one behind the last row."""
_EACH = 7
"""One element of so many names no row."""
_UNUSED = 4
"""One row of so many is in no list."""


def sources(kernel: Kernel) -> dict[str, int]:
    """Sizes of the extents along which rows are taken."""
    return {a.passed[0]: _ROWS for a in kernel.arguments if a.index}


def lists(kernel: Kernel) -> set[str]:
    """Arguments that say which rows are taken."""
    return {argument.index for argument in kernel.arguments if argument.index}


def listed(kernel: Kernel, name: str, extents: Mapping[str, int], seed: int) -> torch.Tensor:
    """What the argument ``name`` says of the tensor whose rows it takes."""
    given = next(a for a in kernel.arguments if a.name == name)
    taken = next(a for a in kernel.arguments if a.index == name)
    rows, count = extents[taken.passed[0]], extents[given.passed[0]]
    generator = torch.Generator().manual_seed(seed + count)
    used = [row for row in range(rows) if row % _UNUSED or rows < _UNUSED]
    chosen = torch.randint(len(used), (count,), generator=generator)
    numbers = [used[int(number)] for number in chosen]
    for turn, at in enumerate(range(_EACH - 1, count, _EACH)):
        nowhere = _NOWHERE[turn % len(_NOWHERE)]
        numbers[at] = rows if nowhere is None else nowhere
    return torch.tensor(numbers, dtype=torch.int32)


def spoil_unlisted(tensor: torch.Tensor, index: torch.Tensor) -> None:
    """NaN, or the largest whole number, in rows that no element takes: whoever lets them into a
    result is found out.
    """
    nothing = torch.nan if tensor.is_floating_point() else torch.iinfo(tensor.dtype).max
    used = {int(row) for row in index}
    for number, row in enumerate(tensor):
        if number not in used:
            row.fill_(nothing)

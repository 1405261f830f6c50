"""Sizes along ragged extents for checks: mixed, with none, one, and those around a tile's."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import torch

from schedgen.kernel import Kernel
from schedgen.tensors import Argument, Ragged

_MIX = (None, 1, 129, 0, 127)
"""Sizes in turn, as far as there is room; None: as large as possible."""
NUMBERS = len(_MIX)
"""Numbers that have all of these."""
_BEFORE, _BEHIND = 3, 5
"""Elements of packed tensors that belong to nobody, at both ends."""
_UNUSED = 3
"""Pages that belong to nobody."""
_NOWHERE = (-1, 2**31 - 1, -(2**31))
"""What tables say behind the last page, where nobody may look."""


def sizes_of(kernel: Kernel, one: Ragged, extents: Mapping[str, int]) -> list[int]:
    """The size at each number; each ragged extent goes through the mix in another order."""
    step = 1 if kernel.ragged.index(one) == 0 else NUMBERS - 1
    most = extents[one.extent]
    mixed = (_MIX[number * step % NUMBERS] for number in range(extents[one.of]))
    return [most if size is None else min(size, most) for size in mixed]


def with_totals(kernel: Kernel, extents: Mapping[str, int]) -> dict[str, int]:
    """``extents`` with those that follow from the sizes: of what is packed, of pages and arrays."""
    found = dict(extents)
    for one in kernel.ragged:
        if one.packed:
            before = _BEFORE if one.starts else 0
            found[one.packed] = before + sum(sizes_of(kernel, one, extents)) + _BEHIND
        if one.starts:
            found[one.bounds] = extents[one.of] + 1
        if one.table:
            each = [-(-size // one.page_size) for size in sizes_of(kernel, one, extents)]
            found[one.page] = one.page_size
            found[one.most_pages] = max(-(-extents[one.extent] // one.page_size), 1)
            found[one.pages] = sum(each) + _UNUSED
    return found


def array(kernel: Kernel, name: str, extents: Mapping[str, int]) -> torch.Tensor:
    """What the argument ``name`` says of the sizes, or where pages are."""
    one = next(one for one in kernel.ragged if name in one.arrays)
    if name == one.table:
        return _table(kernel, one, extents)
    found = sizes_of(kernel, one, extents)
    if one.starts:
        found = list(accumulate(found, initial=_BEFORE))
    if one.ends:
        found = list(accumulate(found))
    return torch.tensor(found, dtype=torch.int32)


def _table(kernel: Kernel, one: Ragged, extents: Mapping[str, int]) -> torch.Tensor:
    """Pages in no order, each at most once."""
    most, count = extents[one.most_pages], extents[one.pages]
    generator = torch.Generator().manual_seed(count)
    order = [int(n) for n in torch.randperm(count, generator=generator)]
    rows: list[list[int]] = []
    for size in sizes_of(kernel, one, extents):
        pages = -(-size // one.page_size)
        rows.append([order.pop() for _ in range(pages)])
        rows[-1] += [_NOWHERE[n % len(_NOWHERE)] for n in range(most - pages)]
    return torch.tensor(rows, dtype=torch.int32)


def spoil(
    kernel: Kernel,
    argument: Argument,
    tensor: torch.Tensor,
    arrays: Mapping[str, torch.Tensor],
    extents: Mapping[str, int],
) -> None:
    """NaN, or the largest whole number, where a tensor that is loaded has nothing that belongs to
    anyone: behind the sizes, in pages that no table lists. Whoever lets it into a result is found
    out.
    """
    nothing = torch.nan if tensor.is_floating_point() else torch.iinfo(tensor.dtype).max
    for one in kernel.ragged:
        sizes = sizes_of(kernel, one, extents)
        if one.table and one.pages in argument.passed:
            axes = argument.passed.index(one.pages), argument.passed.index(one.page)
            pages = tensor.movedim(axes, (0, 1))
            used = torch.zeros(pages.shape[:2], dtype=torch.bool)
            table = [[int(n) for n in row] for row in arrays[one.table]]
            for row, size in zip(table, sizes, strict=True):
                for n in range(-(-size // one.page_size)):
                    used[row[n], : size - n * one.page_size] = True
            pages[~used] = nothing
        elif {one.of, one.extent} <= {*argument.passed[:-1]}:
            of, along = argument.passed.index(one.of), argument.passed.index(one.extent)
            for row, size in zip(tensor.movedim((of, along), (0, 1)), sizes, strict=True):
                row[size:] = nothing

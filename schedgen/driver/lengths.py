"""Sizes along ragged extents for checks: mixed, with none, one, and those around a tile's."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import torch

from schedgen.kernel import Kernel
from schedgen.tensors import Ragged

_MIX = (None, 1, 129, 0, 127)
"""Sizes in turn, as far as there is room; None: as large as possible."""
NUMBERS = len(_MIX)
"""Numbers that have all of these."""
_BEFORE, _BEHIND = 3, 5
"""Elements of packed tensors that belong to nobody, at both ends."""


def sizes_of(kernel: Kernel, one: Ragged, extents: Mapping[str, int]) -> list[int]:
    """The size at each number; each ragged extent goes through the mix in another order."""
    step = 1 if kernel.ragged.index(one) == 0 else NUMBERS - 1
    most = extents[one.extent]
    mixed = (_MIX[number * step % NUMBERS] for number in range(extents[one.of]))
    return [most if size is None else min(size, most) for size in mixed]


def with_totals(kernel: Kernel, extents: Mapping[str, int]) -> dict[str, int]:
    """``extents`` with those that follow from the sizes: of what is packed, and of arrays."""
    found = dict(extents)
    for one in kernel.ragged:
        if one.starts:
            found[one.packed] = _BEFORE + sum(sizes_of(kernel, one, extents)) + _BEHIND
            found[one.bounds] = extents[one.of] + 1
    return found


def array(kernel: Kernel, name: str, extents: Mapping[str, int]) -> torch.Tensor:
    """What the argument ``name`` says of the sizes."""
    one = next(one for one in kernel.ragged if one.array == name)
    found = sizes_of(kernel, one, extents)
    if one.starts:
        found = list(accumulate(found, initial=_BEFORE))
    return torch.tensor(found, dtype=torch.int32)

"""Arrays of blocks for checks: mixed, with none, all, too many, and blocks that there are not."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from schedgen.expressions import evaluate_int
from schedgen.kernel import Kernel
from schedgen.spec.parameters import literal
from schedgen.walking import most_blocks, numbers_of_tiles, tiles_of

_FULL = 4
"""Numbers of full blocks are -1 to 2."""
_MORE = 3
"""By how much numbers that are too large are."""


def with_blocks(kernel: Kernel, extents: Mapping[str, int]) -> dict[str, int]:
    """``extents`` with those that follow from the others: they count output tiles, or belong to the
    arrays of a walk.
    """
    extents = {**extents, **numbers_of_tiles(kernel, extents)}
    if kernel.walk is None:
        return extents
    return {**extents, **tiles_of(kernel, extents), most_blocks(kernel): _trips(kernel, extents)}


def blocks(kernel: Kernel, name: str, extents: Mapping[str, int], seed: int) -> torch.Tensor:
    """An array of a walk: numbers of iterations, in turn all, none, too many and one; output tiles
    in random orders; or lists in random orders, in which the last element of every other one is no
    block at all.
    """
    generator = torch.Generator().manual_seed(seed)
    argument = next(a for a in kernel.arguments if a.name == name)
    shape = [extents[extent] for extent in argument.shape]
    assert kernel.walk is not None
    if name == kernel.walk.full:
        return torch.arange(torch.Size(shape).numel(), dtype=torch.int32).reshape(shape) % _FULL - 1
    if name == kernel.walk.count:
        most = extents[most_blocks(kernel)]
        mix = torch.tensor([most, 0, most + _MORE, 1, max(most - 1, 1)], dtype=torch.int32)
        number = torch.arange(torch.Size(shape).numel())
        return mix[number % len(mix)].reshape(shape)
    if name == kernel.walk.order:
        return torch.rand(shape, generator=generator).argsort(-1).int()
    rows = torch.Size(shape[:-1]).numel()
    last = _trips(kernel, extents) - 1
    orders = [torch.randperm(shape[-1], generator=generator).clamp(max=last) for _ in range(rows)]
    found = torch.stack(orders).int()
    found[::2, -1] = torch.where(torch.arange(len(found[::2])) % 2 == 0, -_MORE, last + _MORE).int()
    return found.reshape(shape)


def _trips(kernel: Kernel, extents: Mapping[str, int]) -> int:
    assert kernel.trip_count is not None
    values = {name: literal(text) for name, text in kernel.parameters}
    return max(1, evaluate_int(kernel.trip_count, {**values, **extents}))

"""Words by which a kernel follows the output tiles of another one (`schedgen.following`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import prod

import torch
from torch import Tensor

from schedgen.codegen.facts import Facts
from schedgen.kernels import layouts, turns


def zeros(facts: Facts, extents: Mapping[str, int], like: Tensor) -> dict[str, Tensor]:
    """The words of a kernel that tells, by their name, where ``like`` is; {} of other kernels."""
    if facts.tells is None:
        return {}
    name, shape, _ = facts.tells
    integers = like.new_empty(0, dtype=torch.int32)
    return {name: layouts.room(integers, [extents[extent] for extent in shape]).zero_()}


def tiles(facts: Facts, extents: Mapping[str, int]) -> int:
    """How many output tiles each word counts, of a kernel that tells."""
    assert facts.tells is not None
    _, _, others = facts.tells
    return prod(-(-extents[extent] // block) for extent, block in others)


def with_sum(
    facts: Facts, extents: Mapping[str, int], shape: Sequence[int], like: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """A sum of ``shape`` in float32, and by their names the turns and the words of the kernel that
    adds to it. All are zeros, and lie behind each other, so that one step makes them.
    """
    sizes: dict[str, tuple[int, ...]] = {
        name: (count,) for name, count in turns.counts(facts, extents).items()
    }
    if facts.tells is not None:
        name, along, _ = facts.tells
        sizes[name] = tuple(extents[extent] for extent in along)
    rooms = [_room(each) for each in (shape, *sizes.values())]
    ends = [*accumulate(map(prod, rooms))]
    flat = like.new_empty(ends[-1], dtype=torch.float32).zero_()
    places = zip(ends, rooms, strict=True)
    parts = [flat[end - prod(room) : end].view(room) for end, room in places]  # views, for plans
    words = {
        name: part.view(torch.int32)[..., : each[-1]]
        for (name, each), part in zip(sizes.items(), parts[1:], strict=True)
    }
    return parts[0][..., : shape[-1]], words


def _room(shape: Sequence[int]) -> tuple[int, ...]:
    """``shape`` with rows that begin at multiples of 16 bytes."""
    step = layouts.ALIGNMENT // torch.float32.itemsize
    *outer, columns = shape
    return (*outer, -(-columns // step) * step)

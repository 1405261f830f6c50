"""Words by which a kernel follows the output tiles of another one (`schedgen.following`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    sizes = [extents[extent] for extent in shape]
    return {name: like.new_empty(sizes, dtype=torch.int32).zero_()}


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
    sizes = {name: (count,) for name, count in turns.counts(facts, extents).items()}
    if facts.tells is not None:
        name, along, _ = facts.tells
        sizes[name] = tuple(extents[extent] for extent in along)
    every = [tuple(shape), *sizes.values()]
    step = layouts.ALIGNMENT // torch.float32.itemsize
    places = [0]
    for each in every:
        places.append(places[-1] + -(-prod(each) // step) * step)
    flat = like.new_empty(places[-1], dtype=torch.float32).zero_()
    parts = [flat[at : at + prod(each)].view(each) for at, each in zip(places, every, strict=False)]
    total, *words = parts
    named = zip(sizes, words, strict=True)
    return total, {name: words.view(torch.int32) for name, words in named}

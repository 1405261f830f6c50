"""Words by which a kernel follows the output tiles of another one (`schedgen.following`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from schedgen.codegen.facts import Facts
from schedgen.following import tiles_told
from schedgen.kernels import layouts


@dataclass(frozen=True)
class Counted:
    """The words in which a kernel counts its output tiles, and how many each of them will count.

    Attributes:
        name: of the argument.
        words: zeros until the kernel runs.
        tiles: what a word counts once all that belongs to it is there.
    """

    name: str
    words: Tensor
    tiles: int


def zeros(facts: Facts, extents: Mapping[str, int], like: Tensor) -> Counted | None:
    """The words of a kernel that tells, where ``like`` is; None of other kernels."""
    if facts.tells is None:
        return None
    name, shape, _ = facts.tells
    integers = like.new_empty(0, dtype=torch.int32)
    words = layouts.room(integers, [extents[extent] for extent in shape]).zero_()
    return Counted(name, words, tiles(facts, extents))


def tiles(facts: Facts, extents: Mapping[str, int]) -> int:
    """How many output tiles each word counts, of a kernel that tells."""
    assert facts.tells is not None
    _, _, along = facts.tells
    return tiles_told(along, extents)

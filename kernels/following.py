"""Words by which a kernel follows the output tiles of another one (`schedgen.following`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

import torch
from torch import Tensor

from schedgen.codegen.facts import Facts
from schedgen.following import tiles_told
from schedgen.kernels import checks, layouts, library, turns

CONVERT = "attention_bwd_convert"
"""The spec that rounds a sum of gradients of queries."""


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


def rounded(total: Tensor, result: Tensor, counted: Counted | None, scale: float) -> None:
    """``scale`` times a sum of gradients of queries, (batch, seq, heads, head_dim), in the type of
    ``result``: head by head as the kernel before completes them, or behind its end.
    """
    device, dtype = checks.devices(q=result), {"dtype": checks.DTYPES[result.dtype]}
    if counted is None:
        library.launcher(device, CONVERT, **dtype).launch((total, result), (scale,))
        return
    run = library.launcher(device, CONVERT, **dtype, follows="true")
    run.launch((total, result, counted.words), (counted.tiles, scale))


def with_sum(
    facts: Facts, extents: Mapping[str, int], shape: Sequence[int], like: Tensor
) -> tuple[Tensor, dict[str, Tensor], Counted | None]:
    """A sum of ``shape`` in float32, by their names the turns and the words of the kernel that adds
    to it, and what is counted. All are zeros, and lie behind each other, so that one step makes
    them.
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
    counted = None
    if facts.tells is not None:
        name, *_ = facts.tells
        counted = Counted(name, words[name], tiles(facts, extents))
    return parts[0][..., : shape[-1]], words, counted


def _room(shape: Sequence[int]) -> tuple[int, ...]:
    """``shape`` with rows that begin at multiples of 16 bytes."""
    step = layouts.ALIGNMENT // torch.float32.itemsize
    *outer, columns = shape
    return (*outer, -(-columns // step) * step)

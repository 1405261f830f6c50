"""Where gradients of attention are computed in one walk, of five products, instead of two of seven.

The kernel of one walk adds to the gradient of queries from all tiles of keys: in any order, or in
turns, by which the same arguments give the same bits (docs/backward.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from math import prod

import torch
from torch import Tensor

from schedgen.codegen.facts import Facts
from schedgen.kernels import checks, following, launcher, layouts, library, turns

CONVERT = "attention_bwd_convert"
"""The spec that rounds a sum of gradients of queries."""

UNORDERED: Mapping[str, Collection[int]] = {"sm_90a": (64, 128), "sm_100a": (64,)}
"""Head dimensions for which there is a kernel that adds up in any order, by architecture: those
with fewer model cycles than the two kernels have."""
ORDERED: Mapping[str, Collection[int]] = {"sm_90a": (64, 128), "sm_100a": ()}
"""And for which it adds up in turns: where that was measured to be faster than two kernels."""
BLOCK = 128
"""Keys of an output tile."""
IN_ORDER_FROM = 2048
"""Queries from which it does so: with fewer a tile is as short as its turns. On an H200 two kernels
took 8 % less time for 8 x 1024 queries of 16 heads, and 2 % more for 4 x 2048 (graphs;
`benchmarks/backward.py --short` has these cases).
"""
IN_ORDER_TILES = 4
"""Output tiles of each SM from which it does so: with fewer SMs wait for turns with nothing else to
do. Two kernels took 4 % less time for 4096 queries of 8 heads, and 4 % more for 2 x 3072 of 16.
"""


VARIANTS: Mapping[str, Collection[int]] = {"sm_90a": (64, 128)}
"""And with masks and scores as text. On an H200 turns took 15 to 19 % less time than two kernels
with a window of 1024 keys (`benchmarks/window_gradients.py`); others were not measured.
"""
PACKED: Mapping[str, Collection[int]] = {"sm_90a": (128,)}
"""And of packed sequences without a mask. With a causal mask tiles that are launched one by one
took 9 to 14 % longer than two kernels for a mix of lengths, and in any order 10 to 13 % less
(`benchmarks/packed_gradients.py`; 64 columns without a mask were not measured).
"""


def in_turns(
    arch: str,
    head_dims: tuple[int, int],
    queries: int,
    tiles: int,
    device: torch.device,
    among: Mapping[str, Collection[int]] = ORDERED,
) -> bool:
    """Whether turns to add take less time than two kernels, where there are both.

    Args:
        head_dims: of q and k, and of v.
        queries: of a sequence; of packed ones, their mean.
        tiles: output tiles, which are blocks of keys of all heads.
        device: that of the operands.
        among: head dimensions that may take turns: `ORDERED`, `VARIANTS` or `PACKED`.
    """
    head_dim, of_v = head_dims
    there = head_dim == of_v and head_dim in among.get(arch, ())
    return (
        there
        and queries >= IN_ORDER_FROM
        and tiles >= IN_ORDER_TILES * launcher.multiprocessors(device)
    )


def rounded(total: Tensor, result: Tensor, counted: following.Counted | None, scale: float) -> None:
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
) -> tuple[Tensor, dict[str, Tensor], following.Counted | None]:
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
    rooms = [layouts.padded(each, torch.float32.itemsize) for each in (shape, *sizes.values())]
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
        counted = following.Counted(name, words[name], following.tiles(facts, extents))
    return parts[0][..., : shape[-1]], words, counted

"""Kernels whose output tiles follow those of the kernel before them, and not its end.

A kernel ``tells``: each output tile counts itself, in a word of global memory, once all that it
stores is there. The next one ``follows``: it begins while the first one still runs, where blocks
have found no tile left, and each of its output tiles waits until the word at its place counts as
many tiles as it reads from. Words lie along extents of which an output tile of either kernel has
one element, such as batches and heads; they are zeros before the first launch
(docs/adr/0041-a-kernel-follows-the-tiles-of-the-one-before.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from schedgen.expressions import Values, evaluate_int
from schedgen.extents import single_extents
from schedgen.kernel import Kernel
from schedgen.tensors import Argument


def words_of(kernel: Kernel) -> Argument | None:
    """The argument in which a kernel counts its tiles, or those that it waits for."""
    name = kernel.tells or (kernel.follows[0] if kernel.follows else "")
    return next((a for a in kernel.arguments if a.name == name), None) if name else None


def tiles_awaited(kernel: Kernel, extents: Mapping[str, int], values: Values) -> int:
    """How many tiles the word of an output tile has to count; ``values`` has what the formula
    names beside extents.
    """
    assert kernel.follows is not None
    return evaluate_int(kernel.follows[1], {**values, **extents})


def counted_along(kernel: Kernel) -> tuple[tuple[str, int], ...]:
    """Extents along which several output tiles count at each word of a kernel that tells, and how
    many elements a tile has there.
    """
    argument = words_of(kernel)
    assert argument is not None
    once = {*argument.shape, *single_extents(kernel)}
    return tuple((axis.extent, axis.block) for axis in kernel.grid if axis.extent not in once)


def tiles_told(along: Iterable[tuple[str, int]], extents: Mapping[str, int]) -> int:
    """How many output tiles count at each word, by what `counted_along` says."""
    return prod(-(-extents[extent] // block) for extent, block in along)

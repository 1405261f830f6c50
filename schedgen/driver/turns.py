"""Words in global memory by which output tiles take turns to add (`schedgen.ordered`), and by which
a kernel follows the tiles of another one (`schedgen.following`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from schedgen.comparing import Compared, compare
from schedgen.expressions import references
from schedgen.following import counted_along, tiles_awaited, tiles_told, words_of
from schedgen.kernel import Kernel
from schedgen.ordered import most_trips, ordered_sums, words
from schedgen.spec.parameters import literal


def told(kernel: Kernel) -> set[str]:
    """The arguments that are zeros before a launch: turns, and what tiles are counted in."""
    return {one.turns for one in ordered_sums(kernel)} | ({kernel.tells} if kernel.tells else set())


def told_right(kernel: Kernel, extents: Mapping[str, int], words: torch.Tensor) -> Compared:
    """What a kernel that tells has counted, beside how many output tiles there are."""
    argument = words_of(kernel)
    assert argument is not None
    found = words.double().numpy()
    right = np.full_like(found, tiles_told(counted_along(kernel), extents))
    return compare(found, right, np.zeros_like(found), np.ones(found.shape, bool), argument.shape)


AWAITED = 3
"""How many tiles a kernel that follows waits for, where nobody says it: what it reads is there."""


def awaited(kernel: Kernel) -> set[str]:
    """Numbers without an extent that say how many tiles a kernel waits for."""
    names = references(kernel.follows[1]) if kernel.follows else ()
    scalars = {argument.name for argument in kernel.arguments if not argument.shape}
    return scalars & {name.name for name in names}


def counted(kernel: Kernel, extents: Mapping[str, int]) -> torch.Tensor:
    """The words of a kernel that follows, whose tiles have all been counted. ``extents`` may have
    numbers of `awaited`, too.
    """
    argument = words_of(kernel)
    assert argument is not None
    values = {name: literal(text) for name, text in kernel.parameters}
    known = {**dict.fromkeys(awaited(kernel), AWAITED), **extents}
    shape = [extents[extent] for extent in argument.shape]
    return torch.full(shape, tiles_awaited(kernel, known, values), dtype=torch.int32)


def turns_of(kernel: Kernel, extents: Mapping[str, int]) -> dict[str, int]:
    """How many words there are, by the extents of the arguments that tell turns."""
    found: dict[str, int] = {}
    values = {name: literal(text) for name, text in kernel.parameters}
    block = {axis.extent: axis.block for axis in kernel.grid}
    for one in ordered_sums(kernel):
        trips = most_trips(kernel)
        assert trips is not None
        (extent,) = next(a for a in kernel.arguments if a.name == one.turns).shape
        places = [(axis, block[axis]) for axis in one.places]
        found[extent] = words(places, trips, extents, values)
    return found

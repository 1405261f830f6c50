"""Words in global memory by which output tiles take turns to add (`schedgen.ordered`)."""

from __future__ import annotations

from collections.abc import Mapping

from schedgen.kernel import Kernel
from schedgen.ordered import most_trips, ordered_sums, words
from schedgen.spec.parameters import literal


def told(kernel: Kernel) -> set[str]:
    """The arguments that have them: zeros before a launch."""
    return {one.turns for one in ordered_sums(kernel)}


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

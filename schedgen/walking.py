"""Extents that count output tiles: of results that have elements for each of them, and of arrays of
blocks that the main loop takes.
"""

from __future__ import annotations

from collections.abc import Mapping

from schedgen.kernel import Kernel


def counted(kernel: Kernel) -> dict[str, tuple[str, int, int]]:
    """Extents that count blocks in tensors that are moved by tile: the extents that these are
    blocks of, how large they are, and how many elements there are for each.
    """
    places = [place for operation in kernel.operations for place in operation.places]
    size = {place.extent: place.step for place in places if place.step and not place.counts}
    size |= {axis.extent: axis.block for axis in kernel.grid}
    return {
        place.extent: (
            place.counts,
            size[place.counts] * place.unit // (place.step or place.block),
            place.unit,
        )
        for place in places
        if place.counts
    }


def numbers_of_tiles(kernel: Kernel, extents: Mapping[str, int]) -> dict[str, int]:
    """How large those of `counted` are for the extents of tensors."""
    return {
        extent: unit * -(-extents[along] // size)
        for extent, (along, size, unit) in counted(kernel).items()
    }


def tiles_of(kernel: Kernel, extents: Mapping[str, int]) -> dict[str, int]:
    """How large extents of a walk that count output tiles have to be for the extents of tensors."""
    if kernel.walk is None:
        return {}
    argument = next(a for a in kernel.arguments if a.name == kernel.walk.count)
    block = {axis.extent: axis.block for axis in kernel.grid}
    pairs = zip(argument.shape, kernel.walk.axes, strict=True)
    return {
        extent: -(-extents[along] // block[along]) for extent, along in pairs if extent != along
    }


def most_blocks(kernel: Kernel) -> str:
    """The extent of the list that iterations are numbered along; "" without a walk."""
    if kernel.walk is None:
        return ""
    return next(a for a in kernel.arguments if a.name == kernel.walk.listed).shape[-1]

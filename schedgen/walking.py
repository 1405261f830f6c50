"""Kernels whose main loop takes blocks of an array: what that asks of extents."""

from __future__ import annotations

from collections.abc import Mapping

from schedgen.kernel import Kernel


def tiles_of(kernel: Kernel, extents: Mapping[str, int]) -> dict[str, int]:
    """How large extents that count output tiles have to be for the extents of tensors."""
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

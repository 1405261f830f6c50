"""Kernels with extents whose sizes are data, number by number: each is a problem of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from schedgen.kernel import Kernel
from schedgen.tensors import Argument, Ragged


def dense(kernel: Kernel) -> Kernel:
    """``kernel`` for a single number: nothing is ragged, and no array says so."""
    arrays = {array for one in kernel.ragged for array in one.arrays}
    arguments = [replace(a, stored=()) for a in kernel.arguments if a.name not in arrays]
    return replace(kernel, arguments=tuple(arguments), ragged=())


def along(kernel: Kernel) -> str:
    """The extent along which sizes differ; there is one for all of them."""
    return kernel.ragged[0].of


def cut_densely(kernel: Kernel) -> Ragged | None:
    """The extent along which output tiles are numbered without those behind a size, if any is."""
    if kernel.tiles != "dense":
        return None
    cut = {axis.extent for axis in kernel.grid}
    return next(one for one in kernel.ragged if one.extent in cut)


def left_out(kernel: Kernel) -> bool:
    """Whether there are output tiles that begin behind a size, of which nothing is computed."""
    cut = {axis.extent for axis in kernel.grid}
    return kernel.tiles != "dense" and any(one.extent in cut for one in kernel.ragged)


def unpaged(kernel: Kernel) -> Kernel:
    """``kernel`` for tensors that have room for the largest size, where it has pages."""
    tables = {one.table for one in kernel.ragged}
    pages = {one.pages for one in kernel.ragged if one.table}
    arguments = [
        replace(a, stored=() if pages & {*a.stored} else a.stored)
        for a in kernel.arguments
        if a.name not in tables
    ]
    without = {"table": "", "most_pages": "", "pages": "", "page": "", "page_size": 0}
    ragged = tuple(replace(one, **without) for one in kernel.ragged)
    return replace(kernel, arguments=tuple(arguments), ragged=ragged)


def segments(
    one: Ragged, values: Sequence[int], extents: Mapping[str, int]
) -> list[tuple[int, int]]:
    """Where the elements of each number begin in a tensor, and how many there are, as kernels limit
    what an array says to what there is.
    """
    most = one.room(extents)
    if one.lengths:
        return [(0, min(max(value, 0), most)) for value in values]
    found: list[tuple[int, int]] = []
    for first, last in pairwise([0, *values] if one.ends else values):
        begin = min(max(first, 0), most)
        found.append((begin, min(max(last, begin), most) - begin))
    return found


def padded(kernel: Kernel, argument: Argument) -> list[Ragged]:
    """Ragged extents along which a tensor has room for the largest size: what lies beyond the size
    of a number is undefined.
    """
    return [one for one in kernel.ragged if one.extent in argument.passed]

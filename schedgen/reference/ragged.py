"""Extents whose sizes are data: each number is a problem of its own, on parts of the tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from schedgen.kernel import Kernel
from schedgen.reference.rounding import Array
from schedgen.tensors import LARGEST, Argument, Ragged

Parts = dict[str, tuple[slice | None, ...]]
"""For each tensor its part along each axis, and None where the part has an axis more."""


def numbers(
    kernel: Kernel, inputs: Mapping[str, Array | float], extents: Mapping[str, int]
) -> Iterator[tuple[Parts, dict[str, int]]]:
    """The parts of the tensors that belong to each number that has any output, and its sizes."""
    where = {
        one.extent: _spans(one, np.asarray(inputs[one.array], np.float64), extents)
        for one in kernel.ragged
    }
    cut = {axis.extent for axis in kernel.grid} & where.keys()
    for number in range(extents[kernel.ragged[0].of]):
        here = {extent: found[number] for extent, found in where.items()}
        if all(here[extent][1] for extent in cut):
            parts = {a.name: _part(kernel, a, number, here) for a in kernel.arguments if a.shape}
            sizes = {extent: size for extent, (_, size) in here.items()}
            yield parts, {**extents, kernel.ragged[0].of: 1, **sizes}


def dense(kernel: Kernel) -> Kernel:
    """The kernel of a single number, in which no size is data."""
    says = [one.array for one in kernel.ragged]
    kept = (replace(a, stored=()) for a in kernel.arguments if a.name not in says)
    return replace(kernel, arguments=tuple(kept), ragged=())


def unpaged(
    kernel: Kernel, inputs: Mapping[str, Array | float]
) -> tuple[Kernel, dict[str, Array | float]]:
    """The same with tensors that have room for the largest size instead of pages: these behind each
    other as tables list them, zeros for those that are not there.
    """
    found = dict(inputs)
    for one in (one for one in kernel.ragged if one.table):
        listed = np.asarray(found.pop(one.table), np.float64)
        for argument in kernel.arguments:
            if one.pages in argument.passed and argument.name in found:
                axes = argument.passed.index(one.pages), argument.passed.index(one.page)
                tensor = np.asarray(found[argument.name])
                found[argument.name] = _in_order(np.moveaxis(tensor, axes, (0, 1)), listed, axes)
    says = [one.table for one in kernel.ragged]
    kept = [replace(a, stored=()) if a.name in found and _paged(kernel, a) else a
            for a in kernel.arguments if a.name not in says]  # fmt: skip
    plain = (replace(one, table="", pages="", page="", page_size=0) for one in kernel.ragged)
    return replace(kernel, arguments=tuple(kept), ragged=tuple(plain)), found


def _paged(kernel: Kernel, argument: Argument) -> bool:
    return any(one.table and one.pages in argument.passed for one in kernel.ragged)


def _in_order(pages: Array, listed: Array, axes: tuple[int, int]) -> Array:
    """Pages, which are along the first axis, in the order of each row of ``listed``."""
    count, size, *rest = pages.shape
    there = (listed >= 0) & (listed < count)
    number = np.where(there, listed, 0).astype(np.int64)
    nothing = np.zeros((*listed.shape, size, *rest), pages.dtype)
    if count:
        inside = there.reshape(*there.shape, *(1 for _ in pages.shape[1:]))
        nothing = np.where(inside, pages[number], nothing)
    rows = nothing.reshape(listed.shape[0], listed.shape[1] * size, *rest)
    return np.moveaxis(rows, (0, 1), axes)


def _spans(one: Ragged, said: Array, extents: Mapping[str, int]) -> list[tuple[int, int]]:
    """Where the elements of each number begin, and how many: what an array says, within limits."""
    if one.lengths:
        sizes = np.clip(said, 0, extents.get(one.extent, LARGEST))
        return [(0, int(size)) for size in sizes]
    if one.ends:
        said = np.concatenate([np.zeros(1), said])
    begins = np.clip(said[:-1], 0, extents[one.packed])
    ends = np.minimum(np.maximum(said[1:], begins), extents[one.packed])
    return [(int(a), int(b - a)) for a, b in zip(begins, ends, strict=True)]


def _part(
    kernel: Kernel, argument: Argument, number: int, here: Mapping[str, tuple[int, int]]
) -> tuple[slice | None, ...]:
    packed = {one.packed: one.extent for one in kernel.ragged if one.packed}
    found: list[slice | None] = []
    for extent in argument.passed:
        if extent in packed:
            begin, size = here[packed[extent]]
            found += [None, slice(begin, begin + size)]
        elif extent in here:
            found.append(slice(here[extent][1]))
        elif extent == kernel.ragged[0].of:
            found.append(slice(number, number + 1))
        else:
            found.append(slice(None))
    return tuple(found)


def inputs_of(
    kernel: Kernel, inputs: Mapping[str, Array | float], parts: Parts
) -> dict[str, Array | float]:
    """What a single number gets of the inputs."""
    found: dict[str, Array | float] = {}
    for argument in dense(kernel).arguments:
        if argument.name in inputs:
            value = inputs[argument.name]
            whole = not argument.shape
            found[argument.name] = value if whole else np.asarray(value)[parts[argument.name]]
    return found

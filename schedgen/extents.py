"""Extents of which a kernel covers only so much: no loop and no grid goes along them.

What lies beyond would be left out without a word, so whoever passes tensors is told: the reader of
``--extent``, the interpreter, generated host code and the functions for torch all ask `covered`.
"""

from __future__ import annotations

from collections.abc import Mapping

from schedgen.expressions import evaluate, references
from schedgen.expressions.monotone import Way, way
from schedgen.kernel import LOADS, Kernel, Kind, Operation
from schedgen.sums import part_of_sums


def single_extents(kernel: Kernel) -> set[str]:
    """Extents that fit into one tile: products add up along them, or the spec says so; no loop
    goes there. A product that is a part of sums in global memory adds up what its output tile has.
    """
    found = set(kernel.one_tile)
    for product in (operation for operation in kernel.operations if operation.kind is Kind.MMA):
        for operand, side in (
            ("a", "rows" if product.transpose_a else "columns"),
            ("b", "columns" if product.transpose_b else "rows"),
        ):
            pieces = set(dict(product.operands)[operand])
            parts = part_of_sums(kernel, product)
            found |= {
                place.extent
                for load in kernel.operations
                if load.kind in LOADS and pieces & set(load.writes)
                for place in load.places
                if place.side == side and not place.step and place.along not in parts
            }
    return found


def uneven(kernel: Kernel) -> bool:
    """Whether output tiles differ in their iterations, as far as it is no data that says so;
    parameters are folded (`bound`).
    """
    names = {name.name for formula in kernel.tile_range for name in references(formula)}
    return not names.isdisjoint({"tile_row", "tile_column"})


def falls(kernel: Kernel) -> bool:
    """Whether output tiles of later rows have fewer iterations, and never more, as far as formulas
    tell; parameters are folded (`bound`).
    """
    ends = Way.SAME if kernel.tile_trips is None else way(kernel.tile_trips, "tile_row")
    begins = Way.SAME if kernel.tile_first is None else way(kernel.tile_first, "tile_row")
    return {ends, begins.opposite} - {Way.SAME} == {Way.DOWN}


def trips_are_data(kernel: Kernel) -> bool:
    """Whether how many iterations an output tile has depends on sizes that are data."""
    if kernel.trip_count is None:
        return False
    ragged = {one.extent for one in kernel.ragged}
    return any(name.name in ragged for name in references(kernel.trip_count))


def covered(kernel: Kernel) -> dict[str, int]:
    """Extents along which a kernel covers a fixed number of elements, and how many.

    Those that every tile covers as a whole; those of which there is one output tile; and what the
    main loop walks, if its trip count is a number.
    """
    found: dict[str, int] = {}

    def at_most(extent: str, size: int) -> None:
        found[extent] = min(size, found.get(extent, size))

    for tensor in dict.fromkeys(o.tensor for o in _transfers(kernel)):
        whole: dict[str, int] = {}
        for operation in _transfers(kernel):
            for place in operation.places if operation.tensor == tensor else ():
                if not (place.along or place.step or place.grouped):
                    end = place.offset + place.size
                    whole[place.extent] = max(end, whole.get(place.extent, 0))
        for extent, size in whole.items():
            at_most(extent, size)
    single = single_extents(kernel)
    for axis in kernel.grid:
        if axis.extent in single:
            at_most(axis.extent, axis.block)
    count = kernel.trip_count
    if count is not None and not references(count):
        for place in (place for o in _transfers(kernel) for place in o.places if place.step):
            if not place.split_k:
                at_most(place.extent, int(evaluate(count, {})) * place.step)
    return dict(sorted(found.items()))


def fixed(kernel: Kernel) -> dict[str, str]:
    """Extents that have the value of a parameter: one of their name, which the main loop does not
    walk, such as what a page has.
    """
    count = kernel.trip_count
    walked = {name.name for name in references(count)} if count is not None else set[str]()
    tensors = kernel.arguments
    extents = {extent for a in tensors for extent in (*a.shape, *a.passed)}
    return {n: value for n, value in kernel.parameters if n in extents - walked}


def beyond(kernel: Kernel, extents: Mapping[str, int]) -> str:
    """What is wrong with extents that a kernel does not cover, or is not for, in words; '' if
    nothing is.
    """
    for extent, most in covered(kernel).items():
        if extents.get(extent, 0) > most:
            return (
                f"'{extent}' is {extents[extent]}, but {kernel.name} covers {most} of it as a "
                f"whole and would leave out the rest; fix: pass at most {most}, or solve the spec "
                f"for larger tiles along '{extent}'"
            )
    for extent, value in fixed(kernel).items():
        if extent in extents and value != str(extents[extent]):
            return (
                f"'{extent}' is {extents[extent]}, but the kernel is for {value}; fix: "
                f"--set {extent}={extents[extent]}"
            )
    return ""


def _transfers(kernel: Kernel) -> list[Operation]:
    return [o for o in kernel.operations if o.kind in (*LOADS, Kind.STORE)]

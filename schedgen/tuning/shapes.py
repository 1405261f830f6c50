"""Sizes of problems that candidates are measured with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod

from schedgen.driver.inputs import default_extents
from schedgen.errors import SchedgenError
from schedgen.expressions import Value, evaluate_int
from schedgen.kernel import Kernel
from schedgen.layouts import DTYPE_BITS

LARGE = 4096
"""Elements along what is cut into tiles or walked, where nobody says how many."""

Shape = dict[str, float]
"""Extents of tensors, and values of scalar arguments."""


def parsed(text: str, option: str = "--shape") -> Shape:
    """``m=4096,n=4096`` as numbers. Raises SchedgenError."""
    found: Shape = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or not name:
            raise SchedgenError(f"{option} {text}: '{part}' is no size; fix: write m=4096,n=4096")
        if name in found:
            raise SchedgenError(f"{option} {text}: '{name}' is given twice; fix: leave one away")
        try:
            found[name] = float(value)
        except ValueError:
            raise SchedgenError(
                f"{option} {text}: '{value}' is no number; fix: write {name}=4096"
            ) from None
    return found


def complete(kernel: Kernel, given: Mapping[str, float], option: str = "--shape") -> Shape:
    """All extents of ``kernel``, and values of all its scalars: those that are ``given``; else a
    parameter of that name or `LARGE` along what is walked or cut into tiles, and 1 for scalars.

    Raises SchedgenError: ``given`` names neither, is no size, or is more than the kernel covers.
    """
    scalars = [argument.name for argument in kernel.arguments if not argument.shape]
    sizes: dict[str, int] = {}
    for name, value in given.items():
        if name in scalars:
            continue
        if value != int(value) or value < 1:
            raise SchedgenError(
                f"{option} {name}={text_of(value)}: an extent is a whole number, at least 1; fix: "
                f"write {name}=4096"
            )
        sizes[name] = int(value)
    try:
        known, nominal = default_extents(kernel, {}), dict(kernel.parameters)
        large = {
            extent: int(nominal.get(extent, LARGE))
            for extent in (_walked(kernel) | _tiled(kernel)) & set(known)
        }
        found = default_extents(kernel, {**large, **sizes})
    except SchedgenError as error:
        raise SchedgenError(f"{option}: {error}") from None
    return {
        **{name: float(size) for name, size in found.items()},
        **{name: float(given.get(name, 1.0)) for name in scalars},
    }


def trips(kernel: Kernel, shape: Mapping[str, float]) -> int:
    """Iterations of the main loop of an output tile."""
    if kernel.trip_count is None:
        return kernel.trips
    sizes: dict[str, Value] = {name: Fraction(size) for name, size in shape.items()}
    return max(1, evaluate_int(kernel.trip_count, sizes))


def tiles(kernel: Kernel, shape: Mapping[str, float]) -> int:
    """Output tiles; of a triangle those that reach to the diagonal or below it."""
    counts = {axis.extent: -(-int(shape[axis.extent]) // axis.block) for axis in kernel.grid}
    if kernel.tiles == "lower_triangle":
        blocks = {axis.extent: axis.block for axis in kernel.grid}
        along, across = kernel.tile_extents
        rows, columns = counts.pop(along), counts.pop(across)
        each = (((row + 1) * blocks[along] - 1) // blocks[across] + 1 for row in range(rows))
        counts["triangle"] = sum(min(one, columns) for one in each)
    found = 1
    for count in counts.values():
        found *= count
    return found


def tensor_bytes(kernel: Kernel, sizes: Mapping[str, float]) -> float:
    """Bytes of tensors of which tiles are loaded or stored without a condition."""
    moved = {o.tensor for o in kernel.operations if o.when is None}
    return sum(
        prod(sizes.get(extent, 1) for extent in argument.passed) * (DTYPE_BITS[argument.dtype] / 8)
        for argument in kernel.arguments
        if argument.shape and argument.name in moved
    )


def name_of(shape: Mapping[str, float]) -> str:
    """``m=4096,n=4096``."""
    return ",".join(f"{name}={text_of(value)}" for name, value in shape.items())


def text_of(value: float) -> str:
    return f"{int(value)}" if value == int(value) else f"{value:g}"


def distinct(shapes: Sequence[Shape]) -> tuple[Shape, ...]:
    """``shapes``, none of which may be there twice. Raises SchedgenError."""
    for number, shape in enumerate(shapes):
        if shape in shapes[:number]:
            raise SchedgenError(f"--shape {name_of(shape)} is given twice; fix: leave one away")
    return tuple(shapes)


def _walked(kernel: Kernel) -> set[str]:
    return {place.extent for o in kernel.operations for place in o.places if place.step}


def _tiled(kernel: Kernel) -> set[str]:
    return {axis.extent for axis in kernel.grid if axis.block > 1}

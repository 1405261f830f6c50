"""What formulas name beside buffers: tensors of which they have the element that belongs to an
output tile, such as a factor of each head, scalars that say which iterations a tile has, and the
numbers of a tile.
"""

from __future__ import annotations

from schedgen.expressions import Expression, references
from schedgen.kernel import Kernel
from schedgen.tensors import Argument, tile_number


def elements(kernel: Kernel) -> tuple[Argument, ...]:
    """The arguments that formulas name and that no buffer has the name of. A name that is an extent
    or a parameter, too, means that one.
    """
    numbers = {extent for argument in kernel.arguments for extent in argument.shape}
    names = named(kernel) - numbers - {name for name, _ in kernel.parameters}
    return tuple(a for a in kernel.arguments if a.shape and a.name in names)


def named(kernel: Kernel) -> set[str]:
    """Names in formulas and conditions that are no operands."""
    found: set[str] = set()
    for operation in kernel.operations:
        operands = {name for name, _ in operation.operands}
        formulas = [formula for _, formula in operation.formulas]
        formulas += [] if operation.when is None else [operation.when]
        found |= {n.name for formula in formulas for n in references(formula)} - operands
    return found


def tile_formulas(kernel: Kernel) -> tuple[Expression, ...]:
    """What says which iterations an output tile has, and whether it is computed."""
    return kernel.tile_range + (() if kernel.tile_when is None else (kernel.tile_when,))


def whole_scalars(kernel: Kernel) -> frozenset[str]:
    """Scalar arguments that say which iterations an output tile has, or whether it is computed:
    whole numbers, as float32 holds them, so below 2^24.
    """
    names = {name.name for formula in tile_formulas(kernel) for name in references(formula)}
    return frozenset(a.name for a in kernel.arguments if not a.shape and a.name in names)


def tile_numbers(kernel: Kernel) -> dict[str, str]:
    """Names for the number of an output tile, with the extents along which they count: ``tile_row``
    and ``tile_column``, and ``tile_X`` for an extent X along which each tile is one element. What a
    spec declares itself means that.
    """
    rows, columns = kernel.tile_extents
    beside = (axis.extent for axis in kernel.grid if axis.extent not in kernel.tile_extents)
    found = {tile_number(extent): extent for extent in beside}
    declared = {name for name, _ in kernel.parameters} | {region.base for region in kernel.regions}
    declared |= {argument.name for argument in kernel.arguments}
    kept = {name: extent for name, extent in found.items() if name not in declared}
    return {"tile_row": rows, "tile_column": columns, **kept}

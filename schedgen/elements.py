"""What formulas name beside buffers: tensors of which they have the element that belongs to an
output tile, such as a factor of each head, and scalars that say which iterations a tile has.
"""

from __future__ import annotations

from schedgen.expressions import references
from schedgen.kernel import Kernel
from schedgen.tensors import Argument


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


def whole_scalars(kernel: Kernel) -> frozenset[str]:
    """Scalar arguments that say which iterations an output tile has: whole numbers, as float32
    holds them, so below 2^24.
    """
    names = {name.name for formula in kernel.tile_range for name in references(formula)}
    return frozenset(a.name for a in kernel.arguments if not a.shape and a.name in names)

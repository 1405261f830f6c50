"""Loads with a condition: where it is false nothing is copied, and the tile is zero.

Nobody writes the zeros: who reads the tile knows the condition, which depends on scalar arguments
only, and takes zeros instead of reading. Only maps can do that, in the iteration of the load.
"""

from __future__ import annotations

from schedgen.expressions import Expression
from schedgen.kernel import Kernel, Kind, Operation


def conditions(kernel: Kernel) -> dict[tuple[str, str], Expression]:
    """(operation, piece) -> the condition under which that piece was loaded before it is read.

    Who reads what another operation has written over the piece since is not in it.
    """
    writer: dict[str, Operation] = {}
    found: dict[tuple[str, str], Expression] = {}
    for operation in kernel.operations:  # in sequential order
        for read in operation.reads:
            last = writer.get(read.piece)
            if last is not None and last.kind is Kind.LOAD and last.when is not None:
                found[operation.name, read.piece] = last.when
        writer.update(dict.fromkeys(operation.writes, operation))
    return found


def condition_mistakes(kernel: Kernel) -> list[tuple[Operation, str]]:
    """Operations that cannot take zeros for what was not loaded, and why not.

    A value of an earlier iteration is read before the load of the next one stands there in
    sequential order, so distances show in reads themselves.
    """
    found: list[tuple[Operation, str]] = []
    conditional = {
        piece
        for operation in kernel.operations
        if operation.kind is Kind.LOAD and operation.when is not None
        for piece in operation.writes
    }
    known = conditions(kernel)
    for operation in kernel.operations:
        touched = [read for read in operation.reads if read.piece in conditional]
        given = [read for read in touched if (operation.name, read.piece) in known]
        regions = [kernel.region_of(read.piece) for read in given]
        if any(read.distance for read in touched):
            found.append((operation, "reads it an iteration later"))
        elif given and operation.kind is not Kind.MAP:
            found.append((operation, f"is a {operation.kind.value}"))
        elif any(len(region.shape) < 2 or region.shape[0] == 1 for region in regions):
            found.append((operation, "reads a value for each row or column"))
    return found

"""Sums over the columns of a tile that threads of a row need not add up in each iteration.

Where a row of a tile is spread over several threads, its sum takes shuffles. A sum that nobody but
the next iteration of itself reads in the main loop, and which takes over that of the iteration
before times something, is linear: each thread can go on with its own part, and the parts are added
up once, where the sum is read behind the loop.
"""

from __future__ import annotations

from schedgen.expressions import Binary, Expression, Name, references
from schedgen.kernel import Kernel, Kind, Operation, Phase


def in_parts(kernel: Kernel, operation: Operation) -> bool:
    """Whether each thread sums up what it has in ``operation``."""
    return operation.kind is Kind.REDUCE and _reader(kernel, operation) is not None


def completed(kernel: Kernel, operation: Operation) -> list[str]:
    """Operands of ``operation``, which is behind the loop, whose parts it adds up first."""
    found: list[str] = []
    for name, pieces in operation.operands:
        for piece in pieces:
            makers = [o for o in kernel.operations if piece in o.writes and o.phase is Phase.BODY]
            if any(in_parts(kernel, m) and _reader(kernel, m) == operation.name for m in makers):
                found.append(name)
    return found


def _reader(kernel: Kernel, operation: Operation) -> str | None:
    """The one operation behind the loop that reads what ``operation`` sums up, if nothing else
    does, and the sum is one that can be left in parts.
    """
    formulas = dict(operation.formulas)
    if operation.reduction != "sum" or list(formulas) != ["carry"]:
        return None
    (to,) = dict(operation.operands)["to"]
    initial = kernel.region[kernel.piece[to].region].initial
    if not _scaled(formulas["carry"]) or initial is None or float(initial):
        return None
    readers = [o for o in kernel.operations if to in {r.piece for r in o.reads} and o != operation]
    if len(readers) != 1 or readers[0].phase is not Phase.AFTER:
        return None
    return readers[0].name if readers[0].kind is Kind.MAP else None


def _scaled(carry: Expression) -> bool:
    """Whether ``carry`` is the sum before, or that times what does not depend on it."""
    if isinstance(carry, Name):
        return carry.distance == 1
    if not isinstance(carry, Binary) or carry.operator != "*":
        return False
    sides = [carry.left, carry.right]
    before = [any(name.distance for name in references(side)) for side in sides]
    return before.count(True) == 1 and _scaled(sides[before.index(True)])

"""Fixed issue orders of a spec."""

from __future__ import annotations

import re

from schedgen.errors import suggest
from schedgen.kernel import Operation, Order, Phase
from schedgen.spec.names import MAX_DISTANCE
from schedgen.spec.schema import SpecFile
from schedgen.spec.values import Path, Scope

_ENTRY = re.compile(r"([A-Za-z_]\w*(?:\[[0-9,]+\])?)(?:@([0-9]{1,9}))?")


def bind_orders(
    spec: SpecFile, scope: Scope, operations: tuple[Operation, ...]
) -> tuple[Order, ...]:
    """Return the orders over instances of the main loop.

    The name of an operation, or the first part of its index, stands for all its parts in turn.
    """
    stems: dict[str, list[str]] = {}
    for operation in operations:
        if operation.phase is Phase.BODY and not operation.boundary:
            for stem in _stems(operation):
                stems.setdefault(stem, []).append(operation.name)
    orders: list[Order] = []
    for name, order in spec.orders.items():
        if not scope.truth(order.only, ("orders", name, "only")):
            continue
        sequence: dict[str, int] = {}
        for number, text in enumerate(order.sequence):
            path = ("orders", name, "sequence", number)
            for part, distance in _parts(scope, stems, text, path):
                if part in sequence:
                    message = f"'{part}' occurs twice in one period"
                    scope.error("repeated-operation", message, path, fix="remove one")
                    break
                sequence[part] = -distance
        orders.append(Order(name, tuple(sequence.items())))
    return tuple(orders)


def _stems(operation: Operation) -> list[str]:
    """Return ``PV``, ``PV[0]`` and ``PV[0,1]`` for the last."""
    index = operation.index
    lengths = range(1, len(index) + 1)
    return [
        operation.base,
        *(f"{operation.base}[{','.join(map(str, index[:length]))}]" for length in lengths),
    ]


def _parts(
    scope: Scope, stems: dict[str, list[str]], text: str, path: Path
) -> list[tuple[str, int]]:
    """Return the instances that an entry stands for, with the iterations by which they are late."""
    match = _ENTRY.fullmatch(text)
    stem = match[1] if match else text
    if match is None or stem not in stems:
        fix = suggest(stem, stems) or "name an operation of the body, such as QK[0] or PV[1]@1"
        message = f"'{text}' is not an operation of the main loop"
        scope.error("unknown-operation", message, path, fix=fix)
        return []
    distance = int(match[2] or 0)
    if distance > MAX_DISTANCE:
        message = f"'{text}' is more than {MAX_DISTANCE} iterations late"
        scope.error("out-of-range", message, path, fix=f"use {MAX_DISTANCE} or less")
        return []
    return [(part, distance) for part in stems[stem]]

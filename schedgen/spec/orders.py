"""Fixed issue orders of a spec."""

from __future__ import annotations

import re
from itertools import chain

from schedgen.errors import suggest
from schedgen.kernel import Operation, Order, Phase
from schedgen.spec.dimensions import Dimensions, check_name, instance_name
from schedgen.spec.names import MAX_DISTANCE
from schedgen.spec.schema import Order as SpecOrder
from schedgen.spec.schema import SpecFile
from schedgen.spec.values import Path, Scope

_ENTRY = re.compile(r"([A-Za-z_]\w*(?:\[[0-9,]+\])?)(?:@([0-9]{1,9}))?")


def bind_orders(
    spec: SpecFile, scope: Scope, operations: tuple[Operation, ...], dimensions: Dimensions
) -> tuple[Order, ...]:
    """Return the orders over instances of the main loop.

    The name of an operation, or the first part of its index, stands for all its parts in turn. In
    an order of `each` instance of a dimension, or `through` all, it stands for those of one.
    """
    stems: dict[str, list[str]] = {}
    for operation in operations:
        if operation.phase is Phase.BODY and not operation.boundary:
            for stem in _stems(operation):
                stems.setdefault(stem, []).append(operation.name)
    orders: list[Order] = []
    for name, order in spec.orders.items():
        path = ("orders", name)
        if not scope.truth(order.only, (*path, "only")):
            continue
        if not _of_instances(spec, scope, dimensions, order, path):
            continue
        written = list(enumerate(order.sequence))
        along = order.each or order.through
        of_each = [
            [(number, _instance(text, at)) for number, text in written]
            for at in range(dimensions.count[along] if along else 0)
        ]
        if order.each:
            for at, entries in enumerate(of_each):
                sequence = _sequence(scope, stems, entries, path)
                orders.append(Order(instance_name(name, [at]), sequence))
        else:
            entries = [*chain(*of_each)] if along else written
            orders.append(Order(name, _sequence(scope, stems, entries, path)))
    return tuple(orders)


def _of_instances(
    spec: SpecFile, scope: Scope, dimensions: Dimensions, order: SpecOrder, path: Path
) -> bool:
    """Whether what an order says of instances of a dimension is right."""
    along = order.each or order.through
    if along is None:
        return True
    key = "each" if order.each else "through"
    if order.each and order.through:
        message = "an order is one for each instance of a dimension, or one through all of them"
        scope.error("each-or-through", message, (*path, "through"), key=True, fix="remove one")
        return False
    if not check_name(scope, dimensions, along, (*path, key)):
        return False
    over: dict[str, set[str]] = {}
    for entry in spec.operations.body:
        over.setdefault(entry.id, set()).update(entry.over[:1])
    for number, text in enumerate(order.sequence):
        base = text.partition("@")[0]
        stem, rule = base.partition("[")[0], "order-of-instances"
        if stem not in over:
            rule, message = "unknown-operation", f"'{text}' is not an operation of the main loop"
            fix = suggest(stem, over) or f"name an operation over {along}"
        elif stem != base:
            message, fix = f"'{text}' has an index, and '{key}' gives it one", f"write {stem}"
        elif along not in over[stem]:
            message = f"'{stem}' is not over '{along}'"
            fix = f"name operations over {along}, or leave out '{key}'"
        else:
            continue
        scope.error(rule, message, (*path, "sequence", number), fix=fix)
        return False
    return True


def _instance(text: str, at: int) -> str:
    """``PV@1`` as ``PV[0]@1``."""
    base, late, distance = text.partition("@")
    return f"{base}[{at}]{late}{distance}"


def _sequence(
    scope: Scope, stems: dict[str, list[str]], entries: list[tuple[int, str]], path: Path
) -> tuple[tuple[str, int], ...]:
    """The instances that entries stand for, of which ``sequence`` has these numbers."""
    found: dict[str, int] = {}
    for number, text in entries:
        at = (*path, "sequence", number)
        for part, distance in _parts(scope, stems, text, at):
            if part in found:
                message = f"'{part}' occurs twice in one period"
                scope.error("repeated-operation", message, at, fix="remove one")
                break
            found[part] = -distance
    return tuple(found.items())


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

"""The trip count: which extent it walks, and whether it reaches the end of it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from schedgen.expressions import (
    Boolean,
    Expression,
    ExpressionError,
    Number,
    evaluate,
    fold,
    references,
)
from schedgen.kernel import LOADS, Operation
from schedgen.spec.placing import Placing
from schedgen.spec.schema import SpecFile
from schedgen.spec.values import Scope

_PATH = ("loops", "trips")
_SHARED = (1, 2, 3)
"""Numbers of tiles that share the main loop, to try."""


def trip_count(spec: SpecFile, scope: Scope, placing: Placing) -> Expression | None:
    """The trip count over what is known when a kernel runs: the extent that the main loop walks,
    and the one along which tiles share it. Everything else is its value in the spec, also where an
    extent has the name of a parameter.
    """
    expression = scope.expression(spec.loops.trips, _PATH)
    if expression is None:
        return None
    running = {*placing.walked, spec.loops.split_k}
    values: dict[str, Expression] = {}
    for name in sorted(spec.parameters.keys() - running):
        value = scope.values[name]
        if isinstance(value, bool):
            values[name] = Boolean(value)
        elif isinstance(value, Fraction):
            values[name] = Number(value)
    return fold(expression, values)


def check_trips(
    spec: SpecFile, scope: Scope, placing: Placing, operations: Sequence[Operation]
) -> None:
    """Report a main loop that walks two extents at a time, or that ends before its extent does."""
    count = trip_count(spec, scope, placing)
    if count is None or scope.sink:
        return
    named = {name.name for name in references(count)}
    walked = sorted(placing.walked & named)
    if len(walked) > 1:
        both = " and ".join(f"'{name}'" for name in walked)
        message = f"the main loop would walk {both}, with which the trip count grows"
        fix = "let it walk one extent; rename a parameter that is none of them"
        scope.error("ambiguous-trips", message, _PATH, fix=fix)
        return
    for extent in walked:
        loads = [operation for operation in operations if operation.kind in LOADS]
        places = [p for o in loads for p in o.places if p.step and p.extent == extent]
        for step in sorted({place.step for place in places}):
            split = None if spec.loops.tile_first is not None else spec.loops.split_k
            wrong = _short(count, extent, step, split)
            if wrong:
                fix = f"count the last, shorter one as well: ceil({extent} / {step})"
                scope.error("bad-trips", wrong, _PATH, fix=fix)
                return


def _short(count: Expression, extent: str, step: int, split_k: str | None) -> str:
    """An extent whose end the main loop does not reach, '' if none of those that are tried."""
    sizes = sorted({1, step, step + 1, 2 * step + 1, 7 * step + 5, 1000 * step + 1})
    for size in sizes:
        for tiles in _SHARED if split_k else (1,):
            values = {extent: Fraction(size), split_k or "": Fraction(tiles)}
            try:
                trips = evaluate(count, values)
            except ExpressionError:
                continue
            if isinstance(trips, Fraction) and trips.denominator == 1:
                reached = int(trips) * step * tiles
                if reached < size:
                    return (
                        f"of {size} elements along '{extent}' the main loop walks {reached}: "
                        f"{trips} iterations of {step}"
                    )
    return ""

"""Shares of the main loop that formulas give to output tiles: one behind the other, without a gap
and without iterations that two have.

A few problems are laid out, as in `schedgen.spec.kept`: whatever is found there is a
counterexample. Formulas that depend on the rows or columns of a tile are asked by masks instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product

from schedgen.expressions import Expression, ExpressionError, evaluate, references
from schedgen.kernel import LOADS, Operation
from schedgen.spec.placing import Placing
from schedgen.spec.schema import SpecFile
from schedgen.spec.trips import trip_count
from schedgen.spec.values import Scope, Value
from schedgen.tensors import tile_number

_SCALARS = (1, 2, 5, 40)
"""Values of scalar arguments, all at the same one."""
_TILES = 24
"""Tiles that are looked at, of those that share the loop."""
_STEPS = (1, 3, 20, 97)
"""Iterations that what the loop walks is long, and the last of them is short."""


def check_shares(
    spec: SpecFile, scope: Scope, placing: Placing, operations: Sequence[Operation]
) -> None:
    """Report shares of two tiles that overlap, or that leave something between them."""
    loops, count = spec.loops, trip_count(spec, scope, placing)
    if None in (loops.split_k, loops.tile_first, loops.tile_trips, count) or scope.sink:
        return
    keys = ("tile_first", "tile_trips", "tile_when")
    texts = {key: getattr(loops, key) for key in keys if getattr(loops, key) is not None}
    formulas = {key: scope.expression(text, ("loops", key)) for key, text in texts.items()}
    found = {key: formula for key, formula in formulas.items() if formula is not None}
    named = {name.name for formula in found.values() for name in references(formula)}
    if len(found) < len(texts) or named & {"tile_row", "tile_column"}:
        return
    assert loops.split_k is not None
    assert count is not None
    wrong = next(_wrong(spec, scope, placing, operations, {"trips": count, **found}), None)
    if wrong is not None:
        fix = "let each begin where the one before it ends"
        scope.error("bad-trips", wrong, ("loops", "tile_first"), fix=fix)


def _wrong(
    spec: SpecFile,
    scope: Scope,
    placing: Placing,
    operations: Sequence[Operation],
    formulas: Mapping[str, Expression],
) -> Iterator[str]:
    """What is wrong in the problems that are tried."""
    loads = [operation for operation in operations if operation.kind in LOADS]
    steps = {place.step for load in loads for place in load.places if place.step}
    scalars = [name for name, argument in spec.arguments.items() if not argument.shape]
    extents = {extent for argument in spec.arguments.values() for extent in argument.shape}
    known: dict[str, Value] = dict.fromkeys(sorted(extents), Fraction(1))
    known |= {name: value for name, value in scope.values.items() if name not in placing.walked}
    known |= dict.fromkeys(spec.tile_numbers, Fraction(0))
    for step, length, scalar in product(sorted(steps), _STEPS, _SCALARS):
        sizes = dict.fromkeys(sorted(placing.walked), Fraction(length * step - step // 2))
        values = {**known, **sizes, **dict.fromkeys(scalars, Fraction(scalar))}
        try:
            found = _apart(spec.loops.split_k or "", values, formulas)
        except ExpressionError:  # what is none of these problems, or is reported elsewhere
            continue
        if found:
            where = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            where += f" and scalars of {scalar}" if scalars else ""
            yield f"{found}, where {where}"


def _apart(extent: str, values: Mapping[str, Value], formulas: Mapping[str, Expression]) -> str:
    """Two tiles along ``extent`` whose shares do not meet, in words."""
    every = _whole(evaluate(formulas["trips"], values))
    before: tuple[int, int] | None = None
    for number in range(_TILES):
        here = {**values, tile_number(extent): Fraction(number)}
        first = max(0, _whole(evaluate(formulas["tile_first"], here)))
        end = min(every, _whole(evaluate(formulas["tile_trips"], here)))
        computed = "tile_when" not in formulas or evaluate(formulas["tile_when"], here)
        if first >= end or not computed:  # an empty share: what is computed of it does not count
            continue
        if before is not None and first != before[1]:
            what = "both have" if first < before[1] else "none has"
            one = min(first, before[1])
            return (
                f"of the tiles that share iterations, number {before[0]} has those up to "
                f"{before[1] - 1} and number {number} those from {first} on: {what} {one}"
            )
        before = number, end
    return ""


def _whole(value: Value) -> int:
    if isinstance(value, Fraction) and value.denominator == 1:
        return int(value)
    raise ExpressionError(f"{value} is not an integer")

"""What the names in formulas stand for, and whether they can stand there."""

from __future__ import annotations

from fractions import Fraction

from schedgen.expressions import (
    Expression,
    ExpressionError,
    Name,
    check_condition,
    check_formula,
    counters,
    references,
    without_influence,
)
from schedgen.spec.layout import Layout
from schedgen.spec.schema import SpecFile
from schedgen.spec.values import Location, Path, Scope, Value
from schedgen.tensors import INTEGERS, PARTLY

# Coordinates that the formulas of masks and tile conditions may use besides buffers and parameters.
COORDINATES = ("row", "column", "tile_row", "tile_column", PARTLY)
MAX_DISTANCE = 64


class Names:
    """What the names in formulas can stand for."""

    def __init__(self, spec: SpecFile, scope: Scope, layout: Layout) -> None:
        self.spec = spec
        self.scope = scope
        self.layout = layout
        scalars = {name for name, argument in spec.arguments.items() if not argument.shape}
        sizes = {size for argument in spec.arguments.values() for size in argument.shape}
        numbers = {name for name in spec.parameters if not isinstance(scope.values[name], str)}
        self.known = {*layout.present, *layout.broken, *scalars, *sizes, *numbers, *COORDINATES}
        self.known.update(spec.tile_numbers)
        self.known |= {name for name in spec.arguments if self._is_element(name)}
        self.whole = {*sizes, *COORDINATES, *spec.tile_numbers} - {PARTLY}
        self.whole |= {name for name in numbers if _is_whole(scope.values[name])}
        self.whole |= {name for name in scalars if spec.arguments[name].dtype in INTEGERS}
        self.whole -= {*layout.present, *layout.broken}

    def _is_element(self, tensor: str) -> bool:
        """Whether an output tile has one element of a tensor: results are cut along all of its
        extents, into single elements. One that is stored may have been written by then, or not.
        """
        extents = self.spec.arguments[tensor].shape
        if any(store.to == tensor for store in self.spec.stores):
            return False
        beside: list[set[str]] = []
        for store in self.spec.stores:
            if store.source in self.layout.present:
                result, rank = self.spec.arguments[store.to], self.layout.rank(store.source)
                beside.append(set(result.shape) - set(result.tiled or result.shape[-rank:]))
        return bool(extents and beside) and all({*extents} <= found for found in beside)

    def check(self, expression: Expression, path: Path, *, condition: bool) -> bool:
        """Report whatever keeps ``expression`` from being a formula; return whether it is one."""
        before = self.scope.errors
        for name in references(expression):
            self._check_name(name, Location(path).of(name))
            if name.name == PARTLY:
                self._check_partly(path)
        if self.scope.errors > before:
            return False
        try:
            (check_condition if condition else check_formula)(expression, self.known)
        except ExpressionError as error:
            self.scope.expression_error("bad-formula", error, path)
        else:
            self._check_counters(expression, path)
            self._check_influence(expression, path)
        return self.scope.errors == before

    def _check_partly(self, path: Path) -> None:
        """Only iterations whose blocks are counted as whole ones, or not, are one or the other."""
        walk = self.spec.loops.walk
        if walk is None or walk.full is None:
            message = f"no iteration is known to be whole, so '{PARTLY}' means nothing"
            fix = "say how many blocks are whole: 'full' of 'walk'"
        elif "body" not in path:
            message = f"'{PARTLY}' is about an iteration, and this is beside the main loop"
            fix = "use it in 'body'"
        else:
            return
        self.scope.error("bad-walk", message, path, fix=fix)

    def _check_counters(self, expression: Expression, path: Path) -> None:
        """What random numbers depend on are whole numbers, and the same for all ways to compute."""
        for name in counters(expression):
            if name.name in self.whole:
                continue
            what = "is no whole number"
            if name.name in self.layout.present:
                what = "is a buffer, of which random numbers must not depend"
            elif name.name in self.spec.arguments:
                what = "is no integer"
            message = f"'{name.name}' {what}, but it is counted with here"
            fix = "count with coordinates, extents, whole parameters and arguments of i32"
            self.scope.error("bad-counter", message, Location(path).of(name), fix=fix)
            return

    def _check_influence(self, expression: Expression, path: Path) -> None:
        """A buffer that makes no difference would be loaded and computed for nothing."""
        for name in without_influence(expression):
            if name.name in self.layout.present:
                message = f"'{name.name}' has no influence here: the value is the same without it"
                fix = f"leave '{name.name}' out, or mend the formula"
                self.scope.error("no-influence", message, Location(path).of(name), fix=fix)
                return

    def _check_name(self, name: Name, location: Location) -> None:
        text, report = name.name, self.scope.error
        if text in self.spec.buffers and text not in self.known:
            fix = "leave this operation out with 'only' as well, or keep the buffer"
            message = f"buffer '{text}' does not exist for these parameters"
            report("unknown-buffer", message, location, fix=fix)
        elif text in self.known and name.distance and text not in self.spec.buffers:
            message = f"'{text}' is no buffer and has no value of an earlier iteration"
            report("bad-formula", message, location, fix=f"write '{text}'")
        elif name.distance > MAX_DISTANCE:
            message = f"'{text}@{name.distance}' is more than {MAX_DISTANCE} iterations old"
            report("out-of-range", message, location, fix=f"use {MAX_DISTANCE} or less")
        elif text in self.spec.arguments and text not in self.known:
            message = f"'{text}' is a tensor of which an output tile has not just one element"
            report("bad-formula", message, location, fix="load it into a buffer and use that")
        elif text in self.spec.parameters and text not in self.known:
            message = f"parameter '{text}' is the word '{self.scope.values[text]}', not a number"
            report("bad-formula", message, location, fix="use a parameter with a number")


def _is_whole(value: Value) -> bool:
    """Whether a parameter can be counted with."""
    return isinstance(value, Fraction) and value.denominator == 1

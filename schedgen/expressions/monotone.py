"""Which way a formula over whole numbers goes with one of its names."""

from __future__ import annotations

from enum import Enum

from schedgen.expressions.nodes import Binary, Call, Expression, Name, Number, Unary, references


class Way(Enum):
    """How the value of a formula changes where a name grows and all others stay."""

    SAME = 0
    UP = 1
    """It never falls."""
    DOWN = -1
    """It never rises."""
    UNKNOWN = 2

    @property
    def opposite(self) -> Way:
        return {Way.UP: Way.DOWN, Way.DOWN: Way.UP}.get(self, self)


def way(formula: Expression, name: str) -> Way:
    """How ``formula`` changes with ``name``. Other names may be of any sign: a product or a
    quotient is known only where its other factor, or its divisor, is a number.
    """
    if name not in {one.name for one in references(formula)}:
        return Way.SAME
    match formula:
        case Name():
            return Way.UP
        case Unary("+", operand):
            return way(operand, name)
        case Unary("-", operand):
            return way(operand, name).opposite
        case Binary("+", left, right):
            return _both(way(left, name), way(right, name))
        case Binary("-", left, right):
            return _both(way(left, name), way(right, name).opposite)
        case Binary("*", factor, Number(value)) | Binary("*", Number(value), factor):
            return way(factor, name) if value >= 0 else way(factor, name).opposite
        case Binary("/" | "//", left, Number(value)) if value > 0:
            return way(left, name)
        case Call("min" | "max" | "ceil" | "floor", arguments):
            return _both(*(way(one, name) for one in arguments))
        case _:
            return Way.UNKNOWN


def _both(*ways: Way) -> Way:
    """Of a formula that never falls where one of its operands rises."""
    found = {*ways} - {Way.SAME}
    if not found:
        return Way.SAME
    return found.pop() if len(found) == 1 else Way.UNKNOWN

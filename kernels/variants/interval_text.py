"""Interval arithmetic as the text of a kernel: straight code for one block of each thread.

Functions that it calls are in `schedgen.kernels.variants.block_kernel`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A number or a condition of a kernel: what it is called, and ``into`` which text whatever is
    computed of it goes.
    """

    name: str
    into: Text

    def __neg__(self) -> Value:
        return self.into.put("negative", self)

    def __add__(self, other: Value | float) -> Value:
        return self.into.put("sum_of", self, other)

    def __sub__(self, other: Value | float) -> Value:
        return self.into.put("difference", self, other)

    def __mul__(self, other: Value | float) -> Value:
        return self.into.put("product", self, other)

    def __truediv__(self, other: Value | float) -> Value:
        return self.into.put("quotient", self, other)

    def __rtruediv__(self, other: float) -> Value:
        return self.into.put("quotient", other, self)

    def __lt__(self, other: Value | float) -> Value:
        return self.into.put("{} < {}", self, other)

    def __le__(self, other: Value | float) -> Value:
        return self.into.put("{} <= {}", self, other)

    def __gt__(self, other: Value | float) -> Value:
        return self.into.put("{} > {}", self, other)

    def __ge__(self, other: Value | float) -> Value:
        return self.into.put("{} >= {}", self, other)

    def __and__(self, other: Value) -> Value:
        return self.into.put("{} & {}", self, other)

    def __invert__(self) -> Value:
        return self.into.put("~{}", self)


@dataclass(slots=True)
class Text:
    """Operations that are written down, each once; ``lines`` are what was written."""

    lines: list[str] = field(default_factory=list[str])
    _known: dict[str, Value] = field(default_factory=dict[str, Value])

    def put(self, pattern: str, *of: Value | float) -> Value:
        """The value of a function, or of an operator with places for what it is ``of``."""
        shown = [one.name if isinstance(one, Value) else literal(one) for one in of]
        text = pattern.format(*shown) if "{}" in pattern else f"{pattern}({', '.join(shown)})"
        if text not in self._known:
            self._known[text] = Value(f"x{len(self.lines)}", self)
            self.lines.append(f"{self._known[text].name} = {text}")
        return self._known[text]

    def constant(self, value: float) -> Value:
        return Value(literal(value), self)

    def truth(self, value: bool) -> Value:
        return Value(f"Boolean({value})", self)

    def least(self, one: Value, other: Value | float) -> Value:
        return self.put("least", one, other)

    def most(self, one: Value, other: Value | float) -> Value:
        return self.put("most", one, other)

    def absolute(self, one: Value) -> Value:
        return self.put("absolute", one)

    def floor(self, one: Value) -> Value:
        return self.put("floor", one)

    def chosen(self, when: Value, then: Value | float, other: Value | float) -> Value:
        return self.put("chosen", when, then, other)

    def either(self, one: Value, other: Value) -> Value:
        return self.put("{} | {}", one, other)

    def same(self, one: Value, other: Value) -> Value:
        return self.put("{} == {}", one, other)

    def finite(self, one: Value) -> Value:
        return self.put("finite", one)

    def defined(self, one: Value, otherwise: float) -> Value:
        return self.put("chosen", self.same(one, one), one, otherwise)


def literal(value: float) -> str:
    """A number of float64."""
    return f"Float64({value!r})" if math.isfinite(value) else f'Float64(float("{value}"))'

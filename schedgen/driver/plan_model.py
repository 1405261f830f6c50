"""What a plan is with numbers: calls of kernels, and what each takes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction

from schedgen.expressions import ExpressionError, Name, evaluate, references
from schedgen.expressions.nodes import Binary, Expression, Unary
from schedgen.spec.values import Scope
from schedgen.tensors import Argument


@dataclass(frozen=True, slots=True)
class Number:
    """A number that a call takes: ``factor`` times one of the plan's, or alone."""

    factor: Fraction
    name: str = ""

    def __str__(self) -> str:
        times = f" * {float(self.factor):g}" if self.factor != 1 else ""
        return f"{self.name}{times}" if self.name else f"{float(self.factor):g}"


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A call of a kernel.

    Attributes:
        spec: what `schedgen.spec.reader.read_spec` knows it by.
        settings: its parameters.
        tensors: each tensor that the kernel reads, and its name in the plan.
        numbers: each number of it, and what it takes.
        sizes: each extent that only its results have, and an extent of the plan, or a number.
        results: each tensor that it returns, and its name in the plan.
    """

    spec: str
    settings: tuple[tuple[str, str], ...]
    tensors: tuple[tuple[str, str], ...]
    numbers: tuple[tuple[str, Number], ...]
    sizes: tuple[tuple[str, str | int], ...]
    results: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class BoundPlan:
    """A plan for one machine; ``inputs`` and ``results`` are its arguments, in their order."""

    name: str
    machine: str
    inputs: tuple[Argument, ...]
    results: tuple[Argument, ...]
    calls: tuple[BoundCall, ...]


_LARGEST = Fraction(2) ** 127
"""No factor is larger: numbers of kernels are float32."""


def product(node: Expression, names: Collection[str], scope: Scope) -> Number | None:
    """One of ``names`` times a factor, or a factor; None if it is anything else."""
    if all(one.name not in names for one in references(node)):
        try:
            value = evaluate(node, scope.values)
        except ExpressionError:
            return None
        return Number(value) if isinstance(value, Fraction) else None
    found = _multiple(node, names, scope)
    return found if found is not None and abs(found.factor) < _LARGEST else None


def _multiple(node: Expression, names: Collection[str], scope: Scope) -> Number | None:
    match node:
        case Name(name, 0):
            return Number(Fraction(1), name)
        case Unary("+" | "-" as sign, operand):
            found = product(operand, names, scope)
            return found and Number(found.factor if sign == "+" else -found.factor, found.name)
        case Binary("*" | "/" as operator, left, right):
            one, other = (product(side, names, scope) for side in (left, right))
            if one is None or other is None or (other.name and (one.name or operator == "/")):
                return None
            if operator == "/":
                return Number(one.factor / other.factor, one.name) if other.factor else None
            return Number(one.factor * other.factor, one.name or other.name)
        case _:
            return None


class Same:
    """Extents of the plan (of call "") and of kernels that have to be the same, or a number."""

    def __init__(self) -> None:
        self._above: dict[tuple[str, str], tuple[str, str]] = {}
        self._sizes: dict[tuple[str, str], int] = {}

    def fixed(self, one: tuple[str, str], size: int) -> None:
        """Notes that an extent of which nothing is known yet is a number."""
        self._sizes[self._top(one)] = size

    def joined(self, one: tuple[str, str], other: tuple[str, str]) -> tuple[str, str] | None:
        """Notes that these are the same; names of the plan that become the same by it, if any."""
        first, second = self._top(one), self._top(other)
        if first == second:
            return None
        sizes = [self._sizes[top] for top in (first, second) if top in self._sizes]
        if len({*sizes}) > 1:
            return str(sizes[0]), str(sizes[1])
        if not first[0] and not second[0]:
            return first[1], second[1]
        upper, lower = (first, second) if second[0] else (second, first)
        self._above[lower] = upper
        if sizes:
            self._sizes[upper] = sizes[0]
        return None

    def number(self, one: tuple[str, str]) -> int | None:
        """The number that an extent has to be, if it is known."""
        return self._sizes.get(self._top(one))

    def _top(self, one: tuple[str, str]) -> tuple[str, str]:
        while one in self._above:
            one = self._above[one]
        return one

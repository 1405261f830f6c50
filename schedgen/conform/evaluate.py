"""What a term is worth, for all values of what it depends on at once.

A `Value` is an array over residues: of the iterations of earlier tiles, of the turn of the loop or
the trip count, of the number of the tile, and over the threads of a role. ``modulus`` says how much
is known: 0 if the entries are exact, else they are right up to multiples of it. What is exact holds
for all numbers with these residues; so equality of two exact values is a proof for all iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import gcd

import numpy as np
from numpy.typing import NDArray

from schedgen.conform.terms import Term, addends

AXES = ("earlier", "turn", "tile", "thread")
"""Axes of the arrays."""
Array = NDArray[np.int64]
SHARED_ALIGNMENT = 1024
SHARED_WINDOW = 2**18
"""Addresses of shared memory are below this: 227 KB and what the system takes are less."""


@dataclass(frozen=True, slots=True)
class Value:
    """``array`` plus ``shared`` times the start of shared memory, which is a multiple of 1024,
    divided by `SHARED_ALIGNMENT`, plus ``tensor`` times the start of tensor memory.
    """

    array: Array
    modulus: int = 0
    shared: int = 0
    tensor: int = 0

    @property
    def plain(self) -> bool:
        """Whether it is exact, and no address."""
        return not self.modulus and not self.shared and not self.tensor


def exact(value: int) -> Value:
    return Value(np.full((1, 1, 1, 1), value, np.int64))


def along(axis: str, values: Array, modulus: int = 0) -> Value:
    """A value that differs along one axis."""
    shape = [1, 1, 1, 1]
    shape[AXES.index(axis)] = -1
    return Value(values.reshape(shape), modulus)


@dataclass(frozen=True, slots=True)
class Linear:
    """A whole number as a linear form over numbers that are 0 or more."""

    constant: int = 0
    factors: tuple[tuple[str, int], ...] = ()

    def plus(self, other: Linear, times: int = 1) -> Linear:
        found = dict(self.factors)
        for name, factor in other.factors:
            found[name] = found.get(name, 0) + factor * times
        kept = tuple(sorted((name, factor) for name, factor in found.items() if factor))
        return Linear(self.constant + other.constant * times, kept)

    @property
    def at_least(self) -> int | None:
        return None if any(factor < 0 for _, factor in self.factors) else self.constant

    @property
    def at_most(self) -> int | None:
        return None if any(factor > 0 for _, factor in self.factors) else self.constant


Closed = Callable[["Environment", Term], "Value | None"]


@dataclass
class Environment:
    """What symbols stand for: residues, and linear forms that decide conditions.

    ``closed`` computes registers that loops hand on. ``shared_bytes``: of the kernel.
    """

    values: dict[Term, Value]
    forms: dict[Term, Linear]
    closed: Closed
    closed_form: Callable[[Environment, Term], Linear | None]
    shared_bytes: int = 0
    _values: dict[Term, Value | None] = field(default_factory=dict[Term, "Value | None"])
    _forms: dict[Term, Linear | None] = field(default_factory=dict[Term, "Linear | None"])

    # -- conditions ----------------------------------------------------------------------------

    def decide(self, condition: Term) -> bool | None:
        """Whether a condition holds for all values; None if that depends or is not known."""
        match condition.op:
            case "const":
                return bool(condition.number)
            case "not":
                inner = self.decide(condition.parts[0])
                return None if inner is None else not inner
            case "and?" | "or?":
                a, b = (self.decide(part) for part in condition.parts)
                decisive = condition.op == "or?"
                if decisive in (a, b):
                    return decisive
                return None if None in (a, b) else not decisive
            case "eq" | "lt" | "le":
                found = self._sign(condition)
                if found is not None:
                    return found
            case _:
                pass
        value = self.value(condition)
        if value is None or not value.plain:
            return None
        first = bool(value.array.flat[0])
        return first if bool((value.array.astype(bool) == first).all()) else None

    def _larger(self, a: Term, b: Term) -> bool | None:
        """Whether ``a`` is at least ``b``, or at most, for all values."""
        left, right = self.form(a), self.form(b)
        if left is None or right is None:
            return None
        apart = left.plus(right, -1)
        if apart.at_least is not None and apart.at_least >= 0:
            return True
        return False if apart.at_most is not None and apart.at_most <= 0 else None

    def _sign(self, condition: Term) -> bool | None:
        form = self.form(condition.parts[0])
        if form is None:
            return None
        low, high = form.at_least, form.at_most
        match condition.op:
            case "eq":
                if low is not None and low == high:
                    return low == 0
                apart = (low is not None and low > 0) or (high is not None and high < 0)
                return False if apart else None
            case "lt":
                return True if high is not None and high < 0 else (
                    False if low is not None and low >= 0 else None
                )
            case _:
                return True if high is not None and high <= 0 else (
                    False if low is not None and low > 0 else None
                )

    def form(self, term: Term) -> Linear | None:
        """A term as a linear form, if it is one."""
        if term not in self._forms:
            self._forms[term] = None  # nothing depends on itself
            self._forms[term] = self._form(term)
        return self._forms[term]

    def _form(self, term: Term) -> Linear | None:
        if term in self.forms:
            return self.forms[term]
        match term.op:
            case "const" | "sum":
                constant, pairs = addends(term)
                total = Linear(constant)
                for one, factor in pairs:
                    part = self.form(one)
                    if part is None:
                        return None
                    total = total.plus(part, factor)
                return total
            case "select":
                condition, yes, no = term.parts
                holds = self.decide(condition)
                return None if holds is None else self.form(yes if holds else no)
            case "min" | "max":
                a, b = term.parts
                larger = self._larger(a, b)
                if larger is None:
                    return None
                return self.form(a if larger == (term.op == "max") else b)
            case "sym":
                return self.closed_form(self, term)
            case _:
                return None

    # -- values --------------------------------------------------------------------------------

    def value(self, term: Term) -> Value | None:
        """What a term is worth; None if that is not known."""
        if term not in self._values:
            self._values[term] = None
            self._values[term] = self._value(term)
        return self._values[term]

    def _value(self, term: Term) -> Value | None:
        found = self.values.get(term)
        if found is not None:
            return found
        if term.op == "const":
            assert term.number is not None
            return exact(term.number) if abs(term.number) < 2**62 else None
        if term.op == "sym":
            return self.closed(self, term)
        if term.op == "select":
            return self._selected(term)
        if term.op in ("min", "max"):
            a, b = term.parts
            larger = self._larger(a, b)
            if larger is not None:
                return self.value(a if larger == (term.op == "max") else b)
        compute = _COMPUTE.get(term.op)
        if compute is None:
            return None
        numbers = [arg for arg in term.args if not isinstance(arg, Term)]
        if term.op == "sum":
            return self._sum(term)
        parts: list[Value] = []
        for part in term.parts:
            value = self.value(part)
            if value is None:
                return None
            parts.append(value)
        return compute(self, *parts, *numbers)

    def _sum(self, term: Term) -> Value | None:
        constant, pairs = addends(term)
        array, modulus, shared, tensor = exact(constant).array, 0, 0, 0
        for one, factor in pairs:
            value = self.value(one)
            if value is None:
                return None
            array = array + factor * value.array
            modulus = gcd(modulus, factor * value.modulus)
            shared += factor * value.shared
            tensor += factor * value.tensor
        return Value(array, modulus, shared, tensor)

    def _selected(self, term: Term) -> Value | None:
        condition, yes, no = term.parts
        holds = self.decide(condition)
        if holds is not None:
            return self.value(yes if holds else no)
        chosen = self.value(condition)
        a, b = self.value(yes), self.value(no)
        if chosen is None or a is None or b is None or not chosen.plain:
            return None
        if (a.shared, a.tensor) != (b.shared, b.tensor):
            return None
        array = np.where(chosen.array != 0, a.array, b.array)
        return Value(array, gcd(a.modulus, b.modulus), a.shared, a.tensor)

    # -- operators -----------------------------------------------------------------------------

    def _bits(self, how: str, a: Value, b: Value) -> Value | None:
        if b.shared or b.tensor:
            a, b = b, a
        if b.shared or b.tensor or a.tensor or b.modulus:
            return self._bits_of_residues(how, a, b)
        mask = b.array
        low, high = int(mask.min()), int(mask.max())
        if a.shared:
            return self._bits_of_address(how, a, mask, low, high)
        if not a.modulus:
            return Value(_BITS[how](a.array, mask))
        known = a.modulus & -a.modulus  # the largest power of two that divides it
        if how == "and" and 0 <= low and high < known:
            return Value(a.array & mask)
        if how == "and" and low == high and low < 0 and -low <= known:
            return Value(a.array & mask, a.modulus)
        return self._bits_of_residues(how, a, b)

    def _bits_of_residues(self, how: str, a: Value, b: Value) -> Value | None:
        modulus = gcd(a.modulus, b.modulus)
        if a.shared or b.shared or a.tensor or b.tensor or not modulus or modulus & (modulus - 1):
            return None
        return Value(_BITS[how](a.array, b.array) & (modulus - 1), modulus)

    def _bits_of_address(
        self, how: str, a: Value, mask: Array, low: int, high: int
    ) -> Value | None:
        """The start of shared memory has no bits below its factor."""
        free = a.shared & -a.shared
        if low < 0 or a.modulus:
            return None
        if how != "and":
            return Value(_BITS[how](a.array, mask), 0, a.shared) if high < free else None
        if high < free:
            return Value(a.array & mask)
        # An address, or a part of one: all bits that it may have are in the mask.
        window = SHARED_WINDOW * a.shared // SHARED_ALIGNMENT
        if low != high or int(a.array.min()) < 0 or window & (window - 1):
            return None
        if bool(((a.array & (free - 1)) & ~low).any()):
            return None
        return a if low & (window - free) == window - free else None

    def _shifted(self, a: Value, by: int, signed: int) -> Value | None:
        """Unsigned where a number of 32 bits may be negative, which only exact ones are."""
        if a.plain and not signed and bool((a.array < 0).any()):
            return Value((a.array % 2**32) >> by)
        return self._divided(a, 2**by)

    def _divided(self, a: Value, by: int) -> Value | None:
        if a.tensor or a.modulus % by or a.shared % by:
            return None
        return Value(a.array // by, a.modulus // by, a.shared // by)

    def _remainder(self, a: Value, by: int) -> Value | None:
        if a.tensor or a.modulus % by or a.shared % by:
            return None
        return Value(a.array % by)

    def _product(self, a: Value, b: Value) -> Value | None:
        if a.shared or b.shared or a.tensor or b.tensor:
            return None
        modulus = gcd(a.modulus, b.modulus) if a.modulus and b.modulus else 0
        if not modulus and (a.modulus or b.modulus):
            whole, part = (a, b) if not a.modulus else (b, a)
            common = int(np.gcd.reduce(whole.array, axis=None))
            modulus = abs(common) * part.modulus
        return Value(a.array * b.array, modulus)

    def _extreme(self, how: Callable[..., Array], a: Value, b: Value) -> Value | None:
        return Value(how(a.array, b.array)) if a.plain and b.plain else None

    def _compared(self, how: Callable[..., Array], a: Value, b: Value | None = None) -> Value | None:
        if not a.plain or (b is not None and not b.plain):
            return None
        other = np.zeros((1, 1, 1, 1), np.int64) if b is None else b.array
        return Value(how(a.array, other).astype(np.int64))

    def _unsigned(self, how: Callable[..., Array], a: Value, b: Value) -> Value | None:
        if not a.plain or not b.plain:
            return None
        return Value(how(a.array % 2**32, b.array % 2**32).astype(np.int64))

    def _shuffled(self, a: Value, lane: int) -> Value | None:
        """What lane ``lane`` of each warp has."""
        threads = a.array.shape[-1]
        if threads == 1:
            return a
        return Value(a.array[..., np.arange(threads) // 32 * 32 + lane], a.modulus, a.shared)

    def _shuffled_from(self, a: Value, lane: Value) -> Value | None:
        """What the lane has that each thread names."""
        threads = max(a.array.shape[-1], lane.array.shape[-1])
        if threads == 1:
            return a
        if not lane.plain or lane.array.size != lane.array.shape[-1]:
            return None
        lanes = np.broadcast_to(lane.array.reshape(-1), (threads,)) % 32
        whole = np.broadcast_to(a.array, (*a.array.shape[:-1], threads))
        at = np.arange(threads) // 32 * 32 + lanes
        return Value(whole[..., at], a.modulus, a.shared, a.tensor)


_BITS: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}

_COMPUTE: dict[str, Callable[..., Value | None]] = {
    "sum": lambda _: None,
    "and": lambda e, a, b: e._bits("and", a, b),
    "or": lambda e, a, b: e._bits("or", a, b),
    "xor": lambda e, a, b: e._bits("xor", a, b),
    "shr": lambda e, a, by: e._shifted(a, by, 0),
    "sar": lambda e, a, by: e._shifted(a, by, 1),
    "div": lambda e, a, by: e._divided(a, by),
    "mod": lambda e, a, by: e._remainder(a, by),
    "mul": lambda e, a, b: e._product(a, b),
    "min": lambda e, a, b: e._extreme(np.minimum, a, b),
    "max": lambda e, a, b: e._extreme(np.maximum, a, b),
    "eq": lambda e, a: e._compared(np.equal, a),
    "lt": lambda e, a: e._compared(np.less, a),
    "le": lambda e, a: e._compared(np.less_equal, a),
    "not": lambda e, a: e._compared(np.equal, a),
    "and?": lambda e, a, b: e._compared(np.logical_and, a, b),
    "or?": lambda e, a, b: e._compared(np.logical_or, a, b),
    "eq?": lambda e, a, b: e._compared(np.not_equal, a, b),
    "ult": lambda e, a, b: e._unsigned(np.less, a, b),
    "ule": lambda e, a, b: e._unsigned(np.less_equal, a, b),
    "shfl from": lambda e, a, lane: e._shuffled_from(a, lane),
    "shfl": lambda e, a, lane: e._shuffled(a, lane),
}

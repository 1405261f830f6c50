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

from schedgen.conform.terms import Term, addends
from schedgen.conform.values import OPERATORS, Value, exact


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


def _nothing(*_: object) -> None:
    """Nothing is known of registers that loops hand on."""


@dataclass
class Environment:
    """What symbols stand for: residues, and linear forms that decide conditions.

    ``closed`` and ``closed_form`` compute registers that loops hand on.
    """

    values: dict[Term, Value]
    forms: dict[Term, Linear]
    closed: Callable[[Environment, Term], Value | None] = _nothing
    closed_form: Callable[[Environment, Term], Linear | None] = _nothing
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
                return (
                    True
                    if high is not None and high < 0
                    else (False if low is not None and low >= 0 else None)
                )
            case _:
                return (
                    True
                    if high is not None and high <= 0
                    else (False if low is not None and low > 0 else None)
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

    def chosen(self, term: Term) -> Term:
        """What a choice is, as far as it is decided."""
        while term.op == "select":
            condition, yes, no = term.parts
            holds = self.decide(condition)
            if holds is None:
                break
            term = yes if holds else no
        return term

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
            return exact(term.number) if -(2**63) <= term.number < 2**63 else None
        if term.op == "sym":
            return self.closed(self, term)
        if term.op == "select":
            return self._selected(term)
        if term.op in ("min", "max"):
            a, b = term.parts
            larger = self._larger(a, b)
            if larger is not None:
                return self.value(a if larger == (term.op == "max") else b)
        if term.op == "sum":
            return self._sum(term)
        compute = OPERATORS.get(term.op)
        if compute is None:
            return None
        parts: list[Value] = []
        for part in term.parts:
            value = self.value(part)
            if value is None:
                return None
            parts.append(value)
        return compute(*parts, *(arg for arg in term.args if not isinstance(arg, Term)))

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

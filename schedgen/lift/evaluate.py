"""What terms are worth where trip counts are numbers: integers, for each lane where lanes differ.

Nothing is guessed: what depends on data, on the tile or on an operator that is not known is worth
None, and whoever needs it has to say what that means.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schedgen.conform.registers import SHARED
from schedgen.conform.terms import Term, addends, below
from schedgen.lift.walking import PEEK

Lanes = NDArray[np.int64]
SHARED_START = 1024
"""Where dynamic shared memory is taken to begin; `conform` has why any multiple of 1024 will do."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Whether the phase of ``parity`` of the mbarrier at byte ``word`` was complete; ``negated``:
    the opposite."""

    word: int
    parity: int
    negated: bool = False


Number = int | Lanes
Worth = Number | Seen | None


def _unsigned(value: Number) -> Number:
    return value % 2**32


def _shifted(value: Number, by: int) -> Number:
    """Of 32 bits without a sign."""
    if isinstance(value, int):
        return (value % 2**32 if value < 0 else value) >> by
    return np.where(value < 0, value % 2**32, value) >> by


def _truth(value: bool | NDArray[np.bool_]) -> Number:
    return int(value) if isinstance(value, bool | np.bool_) else value.astype(np.int64)


def _signed(value: Number) -> Number:
    return (value + 2**31) % 2**32 - 2**31


def _halved(value: Number, by: int) -> Number:
    """Of 32 bits with their sign."""
    return _signed(value) >> by


def _high_half(a: Number, b: Number) -> Number:
    """Of a signed product."""
    return (_signed(a) * _signed(b)) >> 32


def _of_byte(value: Number) -> Number:
    """The lower 8 bits with their sign."""
    return (value + 2**7) % 2**8 - 2**7


def _of_half(value: Number) -> Number:
    """The lower 16 bits with their sign."""
    return (value + 2**15) % 2**16 - 2**15


def _low_half(value: Number) -> Number:
    return value % 2**16


def _shifted_half(value: Number, by: int) -> Number:
    return (value % 2**16) >> by


def _signed_quotient(a: Number, b: Number) -> Number | None:
    if not isinstance(a, int) or not isinstance(b, int) or not b:
        return None
    return int(a / b) if abs(a) < 2**52 else None


def _least(a: Number, b: Number) -> Number:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else np.minimum(a, b)


def _most(a: Number, b: Number) -> Number:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else np.maximum(a, b)


def _unsigned_least(a: Number, b: Number) -> Number:
    return _least(_unsigned(a), _unsigned(b))


def _unsigned_most(a: Number, b: Number) -> Number:
    return _most(_unsigned(a), _unsigned(b))


def _is_zero(a: Number) -> Number:
    return _truth(a == 0)


def _is_negative(a: Number) -> Number:
    return _truth(a < 0)


def _is_not_positive(a: Number) -> Number:
    return _truth(a <= 0)


def _differ(a: Number, b: Number) -> Number:
    return _truth(a != b)


def _unsigned_less(a: Number, b: Number) -> Number:
    return _truth(_unsigned(a) < _unsigned(b))


def _of_lane(a: Number, lane: int) -> Number:
    return a if isinstance(a, int) else int(a[lane])


_OPERATORS: dict[str, Callable[..., Number | None]] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shr": _shifted,
    "shr.u32?": _shifted,
    "sar": _halved,
    "sar64": operator.rshift,
    "div": operator.floordiv,
    "mod": operator.mod,
    "mul": operator.mul,
    "min": _least,
    "max": _most,
    "min.u32?": _unsigned_least,
    "max.u32?": _unsigned_most,
    "div.s32?": _signed_quotient,
    "mul.hi.s32?": _high_half,
    "cvt.s16.s8?": _of_byte,
    "cvt.s32.s8?": _of_byte,
    "cvt.s32.s16?": _of_half,
    "cvt.u16.u32?": _low_half,
    "cvt.u32.u16?": _low_half,
    "shr.u16?": _shifted_half,
    "eq": _is_zero,
    "lt": _is_negative,
    "le": _is_not_positive,
    "eq?": _differ,
    "ult": _unsigned_less,
    "shfl": _of_lane,
}
"""What operators of terms compute, with their numbers behind their terms. ``eq?`` is that of two
predicates, as in `schedgen.conform.values`."""
KNOWN_OPERATORS = frozenset((*_OPERATORS, "not", "and?", "or?", "select", "sum", "const", "sym"))


class Worths:
    """Evaluates terms; symbols of loops, elected lanes and peeks are set from outside.

    Attributes:
        outside: terms that are set.
    """

    def __init__(
        self, threads: Term, first: int, shared: Term, outside: Collection[Term] = ()
    ) -> None:
        self.outside = outside
        self._fixed: dict[Term, Worth] = {
            threads: np.arange(first, first + 32, dtype=np.int64),
            shared: SHARED_START,
        }
        self.assumed: dict[Term, int] = {}
        """Conditions on data that all threads of the grid have: what they are taken to be."""
        self._given: dict[Term, Worth] = {}
        self._known: dict[Term, Worth] = {}
        self._kept: dict[Term, Worth] = {}
        self._changing: dict[Term, bool] = {}

    def set(self, values: dict[Term, Worth]) -> None:
        """From now on."""
        self._given.update(values)
        self._known = {}

    def of(self, term: Term) -> Worth:
        """What a term is worth; None if that is not known."""
        if term in self._given:
            return self._given[term]
        known = self._known if self._changes(term) else self._kept
        if term not in known:
            known[term] = self._of(term)
        return known[term]

    def _changes(self, term: Term) -> bool:
        """Whether it depends on what is set from outside."""
        found = self._changing.get(term)
        if found is None:
            found = term in self.outside or any(self._changes(part) for part in term.parts)
            self._changing[term] = found
        return found

    def _of(self, term: Term) -> Worth:
        if term in self._fixed:
            return self._fixed[term]
        match term.op:
            case "const":
                return term.number
            case "sum":
                return self._sum(term)
            case "not":
                return _negated(self.of(term.parts[0]))
            case "and?" | "or?":
                return self._both(term)
            case "select":
                return self._selected(term)
            case "elect":
                return _FIRST
            case "float?" if _of_parameters(term):
                return self.assumed.setdefault(term, 0)
            case _:
                return self._computed(term)

    def _sum(self, term: Term) -> Worth:
        constant, pairs = addends(term)
        total: Number = constant
        for one, factor in pairs:
            value = self.of(one)
            if value is None or isinstance(value, Seen):
                return None
            total = total + factor * value
        return total

    def _computed(self, term: Term) -> Worth:
        compute = _OPERATORS.get(term.op)
        if compute is None:
            return None
        values: list[Number] = []
        for part in term.args:
            value = self.of(part) if isinstance(part, Term) else part
            if value is None or isinstance(value, Seen | str):
                return None
            values.append(value)
        return compute(*values)

    def _both(self, term: Term) -> Worth:
        """One that decides is enough."""
        a, b = (self.of(part) for part in term.parts)
        decisive = int(term.op == "or?")
        if (isinstance(a, int) and a == decisive) or (isinstance(b, int) and b == decisive):
            return decisive
        if isinstance(a, int) and a == 1 - decisive:
            return b
        if isinstance(b, int) and b == 1 - decisive:
            return a
        if a is None or b is None or isinstance(a, Seen) or isinstance(b, Seen):
            return None
        return _truth((a != 0) | (b != 0) if decisive else (a != 0) & (b != 0))

    def _selected(self, term: Term) -> Worth:
        condition, yes, no = term.parts
        holds = self.of(condition)
        if isinstance(holds, int):
            return self.of(yes if holds else no)
        a, b = self.of(yes), self.of(no)
        if holds is None or isinstance(holds, Seen):
            return a if isinstance(a, int) and isinstance(b, int) and a == b else None
        if a is None or b is None or isinstance(a, Seen) or isinstance(b, Seen):
            return None
        return np.where(holds != 0, a, b)


_FIRST: Lanes = (np.arange(32) == 0).astype(np.int64)
"""An elected lane: any one."""


def _negated(value: Worth) -> Worth:
    if isinstance(value, Seen):
        return Seen(value.word, value.parity, not value.negated)
    if value is None:
        return None
    return _truth(value == 0)


def is_leaf_of_block(term: Term) -> bool:
    """Whether all threads of a block have the same, and it is no symbol of a loop."""
    if term.op == "sym":
        name = str(term.args[0])
        return name == SHARED or name.startswith(("parameter", "%ctaid", "%nctaid"))
    return False


def _of_parameters(term: Term) -> bool:
    """Whether it is the same for the whole grid, whatever it is."""
    leaves = (leaf for leaf in below(term) if not leaf.parts)
    return all(leaf.op in ("const", "literal?") or is_leaf_of_grid(leaf) for leaf in leaves)


def is_leaf_of_grid(term: Term) -> bool:
    """Whether it is a parameter."""
    return term.op == "sym" and str(term.args[0]).startswith("parameter")


def peeked(term: Term) -> bool:
    """Whether a term is what a peek found."""
    return term.op == PEEK

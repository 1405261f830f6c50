"""Integer and predicate instructions of PTX as operations on terms.

Everything else is a value that nobody knows, except that equal instructions of equal operands give
equal values, so that conditions can be compared.
"""

from __future__ import annotations

from collections.abc import Callable

from schedgen.conform.minima import not_negative
from schedgen.conform.terms import Term, Terms, addends
from schedgen.emulator.ptx.tree import Immediate, Instruction

_WRAP = 2**32
_SIGNED = frozenset(("s16", "s32", "s64"))
_UNSIGNED = frozenset(("u16", "u32", "u64"))
_UNORDERED = {"neu": "eq", "ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt"}
"""Comparisons that hold where the opposite ones do not, NaN included."""
_SMALL = frozenset(("div", "mod"))
"""Terms that are no larger than a number of 32 bits."""
_TYPES = frozenset(
    f"{kind}{bits}" for kind in "bsu" for bits in (16, 32, 64)
)  # of integers; those of predicates are handled by themselves


def signed(value: int, bits: int = 32) -> int:
    """A number as a register of that many bits has it, with its sign."""
    value &= 2**bits - 1
    return value - 2**bits if value >> (bits - 1) else value


class Integers:
    """Results of instructions, given the terms of their sources."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    def result(self, one: Instruction, sources: list[Term]) -> Term:
        """The value of the first destination."""
        kind = one.modifiers[-1] if one.modifiers else ""
        make = _MAKE.get(one.opcode)
        if make is not None and (kind in _TYPES or kind == "pred"):
            found = make(self, one, sources)
            if found is not None:
                return self.terms.wrapped(found) if kind.endswith("32") else found
        if one.opcode == "setp":
            return self._compared(one, sources)
        return self.terms.make(f"{one.name}?", *sources)

    def _compared(self, one: Instruction, sources: list[Term]) -> Term:
        how, kind = one.modifiers[0], one.modifiers[-1]
        if len(one.modifiers) != 2 or kind not in _TYPES:
            opposite = _UNORDERED.get(how)
            if opposite is None:
                return self.terms.make("float?", one.name, *sources)
            name = one.name.replace(f".{how}.", f".{opposite}.")
            return self.terms.negation(self.terms.make("float?", name, *sources))
        a, b = sources
        if kind in ("u32", "u64") and how not in ("eq", "ne"):
            if how in ("lt", "ge"):
                below = self._below("ult", a, b)
                return below if how == "lt" else self.terms.negation(below)
            below = self._below("ult", b, a)
            return below if how == "gt" else self.terms.negation(below)
        how = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(how, how)
        return self.terms.compare(how, a, b)

    def _below(self, op: str, a: Term, b: Term) -> Term:
        if a.number is not None and b.number is not None:
            return self.terms.const(int(a.number % _WRAP < b.number % _WRAP))
        return self.terms.make(op, a, b)

    # -- each instruction ----------------------------------------------------------------------

    def _add(self, one: Instruction, s: list[Term]) -> Term | None:
        return self.terms.sum(((s[0], 1), (s[1], 1)))

    def _sub(self, one: Instruction, s: list[Term]) -> Term | None:
        return self.terms.sum(((s[0], 1), (s[1], -1)))

    def _mul(self, one: Instruction, s: list[Term]) -> Term | None:
        if one.modifiers[0] in ("lo", "wide"):
            return self.terms.product(s[0], s[1])
        if one.name in ("mul.hi.u32", "mul.hi.u64"):
            return self.terms.high_product(s[0], s[1], 64 if one.name.endswith("64") else 32)
        return None

    def _mad(self, one: Instruction, s: list[Term]) -> Term | None:
        if one.modifiers[0] not in ("lo", "wide"):
            return None
        return self.terms.add(self.terms.product(s[0], s[1]), s[2])

    def _neg(self, one: Instruction, s: list[Term]) -> Term | None:
        return self.terms.times(s[0], -1)

    def _shl(self, one: Instruction, s: list[Term]) -> Term | None:
        by = s[1].number
        return None if by is None else self.terms.times(s[0], 2**by)

    def _shr(self, one: Instruction, s: list[Term]) -> Term | None:
        by = s[1].number
        if by is None:
            return None
        value = s[0].number
        if value is not None and value < 0 and one.modifiers[-1] == "u32":
            return self.terms.const(value % _WRAP >> by)
        if one.modifiers[-1] in _SIGNED:
            return self.terms.halved(s[0], by, 64 if one.modifiers[-1] == "s64" else 32)
        return self.terms.shifted_right(s[0], by)

    def _div(self, one: Instruction, s: list[Term]) -> Term | None:
        by = s[1].number
        return None if by is None or by <= 0 else self.terms.divided(s[0], by)

    def _rem(self, one: Instruction, s: list[Term]) -> Term | None:
        by = s[1].number
        return None if by is None or by <= 0 else self.terms.remainder(s[0], by)

    def _bitwise(self, one: Instruction, s: list[Term]) -> Term | None:
        a, b = s
        if one.modifiers[-1] == "pred":
            return self._logical(one.opcode, a, b)
        if a.number is not None and b.number is not None:
            compute: dict[str, Callable[[int, int], int]] = {
                "and": int.__and__,
                "or": int.__or__,
                "xor": int.__xor__,
            }
            return self.terms.const(compute[one.opcode](a.number, b.number))
        if a.number is not None:
            a, b = b, a
        mask = b.number
        if one.opcode != "and" and mask is not None and _apart(a, mask):
            return self.terms.sum(((a, 1),), mask)
        return self.terms.commuted(one.opcode, a, b)

    def _logical(self, how: str, a: Term, b: Term) -> Term | None:
        for x, y in ((a, b), (b, a)):
            if x.number is None:
                continue
            if how == "and":
                return y if x.number else x
            if how == "or":
                return self.terms.const(1) if x.number else y
            return self.terms.negation(y) if x.number else y
        if a is b and how != "xor":
            return a
        if how == "xor":
            return self.terms.commuted("eq?", a, b)
        return self.terms.commuted(f"{how}?", a, b)

    def _not(self, one: Instruction, s: list[Term]) -> Term | None:
        if one.modifiers[-1] == "pred":
            return self.terms.negation(s[0])
        return self.terms.sum(((s[0], -1),), -1)

    def _selp(self, one: Instruction, s: list[Term]) -> Term | None:
        return self.terms.select(s[2], s[0], s[1])

    def _extreme(self, one: Instruction, s: list[Term]) -> Term | None:
        kind = one.modifiers[-1]
        if kind not in _SIGNED and not (kind in _UNSIGNED and all(map(not_negative, s))):
            return None
        found = self.terms.extreme(one.opcode, s[0], s[1])
        if "relu" in one.modifiers:  # no less than 0
            found = self.terms.extreme("max", found, self.terms.const(0))
        return found

    def _move(self, one: Instruction, s: list[Term]) -> Term | None:
        if len(s) != 1:
            return None
        if one.modifiers[-1] == "pred" and s[0].number is not None:
            return self.terms.const(int(bool(s[0].number)))
        return s[0]

    def _convert(self, one: Instruction, s: list[Term]) -> Term | None:
        to, of = one.modifiers[-2:]
        wide = int(to[1:]) >= int(of[1:]) if of in _TYPES and to in _TYPES else False
        if len(one.modifiers) == 2 and (wide or s[0].op in _SMALL):
            return s[0]
        most = _most(s[0])
        fits = most is not None and most < 2**31 and not wide and int(to[1:]) >= 32
        return s[0] if len(one.modifiers) == 2 and fits else None


def _most(term: Term) -> int | None:
    """The largest value of a term that is known not to be negative; None if that is not known."""
    if term.number is not None:
        return term.number if term.number >= 0 else None
    if term.op == "and":
        mask = term.parts[-1].number
        return mask if mask is not None and mask >= 0 else None
    if term.op != "sum":
        return None
    most, pairs = addends(term)
    for part, factor in pairs:
        each = _most(part)
        if each is None or factor < 0:
            return None
        most += factor * each
    return most if addends(term)[0] >= 0 else None


def _apart(term: Term, mask: int) -> bool:
    """Whether a term has none of the bits of a mask, so that ``or`` is a sum.

    Masks may be negative: descriptors of rows of 64 bytes and less have their highest bit set.
    """
    if term.op == "and":
        kept = term.parts[-1].number
        return kept is not None and kept >= 0 and not kept & mask
    if mask < 0:
        return False
    constant, pairs = addends(term)
    low = constant
    for _, factor in pairs:
        low |= factor
    return mask < (low & -low)


_MAKE: dict[str, Callable[[Integers, Instruction, list[Term]], Term | None]] = {
    "add": Integers._add,  # pyright: ignore[reportPrivateUsage]
    "sub": Integers._sub,  # pyright: ignore[reportPrivateUsage]
    "mul": Integers._mul,  # pyright: ignore[reportPrivateUsage]
    "mad": Integers._mad,  # pyright: ignore[reportPrivateUsage]
    "neg": Integers._neg,  # pyright: ignore[reportPrivateUsage]
    "shl": Integers._shl,  # pyright: ignore[reportPrivateUsage]
    "shr": Integers._shr,  # pyright: ignore[reportPrivateUsage]
    "div": Integers._div,  # pyright: ignore[reportPrivateUsage]
    "rem": Integers._rem,  # pyright: ignore[reportPrivateUsage]
    "and": Integers._bitwise,  # pyright: ignore[reportPrivateUsage]
    "or": Integers._bitwise,  # pyright: ignore[reportPrivateUsage]
    "xor": Integers._bitwise,  # pyright: ignore[reportPrivateUsage]
    "not": Integers._not,  # pyright: ignore[reportPrivateUsage]
    "selp": Integers._selp,  # pyright: ignore[reportPrivateUsage]
    "min": Integers._extreme,  # pyright: ignore[reportPrivateUsage]
    "max": Integers._extreme,  # pyright: ignore[reportPrivateUsage]
    "mov": Integers._move,  # pyright: ignore[reportPrivateUsage]
    "cvt": Integers._convert,  # pyright: ignore[reportPrivateUsage]
}


def immediate(terms: Terms, operand: Immediate) -> Term:
    """A literal: whole numbers of 32 bits with their sign, others as they are."""
    value = operand.value
    if isinstance(value, float):
        return terms.make("literal?", repr(value))
    return terms.const(signed(value) if 2**31 <= value < 2**32 else value)

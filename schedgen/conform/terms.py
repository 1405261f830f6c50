"""Values of integer registers as terms: what a register holds, in terms of what nobody computes.

Terms are shared: equal ones are the same object, so that ``is`` compares them. Sums are linear
combinations over whole numbers: a running number, an address or an extent is assumed not to leave
the range of its register. Quotients by multiplication, as compilers write them, are recognized and
checked for all numbers of 32 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce

Argument = "Term | int | str"


class Term:
    """``op`` applied to ``args``, which are terms, numbers and names.

    const N · sym NAME · sum CONSTANT TERM FACTOR TERM FACTOR ... · anything else: an operator.
    """

    __slots__ = ("args", "op", "serial")

    def __init__(self, op: str, args: tuple[Term | int | str, ...], serial: int) -> None:
        self.op, self.args, self.serial = op, args, serial

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.args))})"

    @property
    def number(self) -> int | None:
        """The value of a constant."""
        return self.args[0] if self.op == "const" else None  # type: ignore[return-value]

    @property
    def parts(self) -> tuple[Term, ...]:
        """Arguments that are terms."""
        return tuple(arg for arg in self.args if isinstance(arg, Term))


class Terms:
    """Makes terms, each once."""

    def __init__(self) -> None:
        self._made: dict[tuple[object, ...], Term] = {}
        self._unknown = 0

    def make(self, op: str, *args: Term | int | str) -> Term:
        """An operator as it is."""
        key = (op, *args)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = Term(op, args, len(self._made))
        return found

    def const(self, value: int) -> Term:
        return self.make("const", value)

    def symbol(self, name: str) -> Term:
        return self.make("sym", name)

    def unknown(self) -> Term:
        """A value that is equal to no other."""
        self._unknown += 1
        return self.make("unknown", self._unknown)

    def commuted(self, op: str, a: Term, b: Term) -> Term:
        """An operator whose arguments may be exchanged: in one of both orders, constants last."""
        return self.make(op, *sorted((a, b), key=lambda term: (term.op == "const", term.serial)))

    def extreme(self, op: str, a: Term, b: Term) -> Term:
        """The ``op`` "min" or "max" of two numbers with their signs, which may be minima or maxima
        themselves: one form for each set of numbers.
        """
        leaves = dict.fromkeys(leaf for term in (a, b) for leaf in operands(op, term))
        first, *rest = sorted(leaves, key=lambda term: (term.op == "const", term.serial))
        return reduce(lambda found, leaf: self.make(op, found, leaf), rest, first)

    def again(self, term: Term, parts: Iterable[Term]) -> Term:
        """The operator of ``term`` with other ``parts``, in the form that it would have been made
        in: which of two terms comes first depends on the terms.
        """
        new = iter(parts)
        if term.op == "sum":
            constant, pairs = addends(term)
            return self.sum(((next(new), factor) for _, factor in pairs), constant)
        if term.op in ("min", "max"):
            return self.extreme(term.op, next(new), next(new))
        if term.op in COMMUTATIVE:
            a, b = new
            return self.product(a, b) if term.op == "mul" else self.commuted(term.op, a, b)
        if term.op == "mulhi" and len(term.parts) == 2:
            bits = term.args[2]
            assert isinstance(bits, int)
            return self.high_product(next(new), next(new), bits)
        if term.op in ("eq", "lt", "le"):
            return self.compare(term.op, next(new), self.const(0))
        if term.op == "not":
            return self.negation(next(new))
        if term.op == "select":
            return self.select(*new)
        return self.make(
            term.op, *(next(new) if isinstance(arg, Term) else arg for arg in term.args)
        )

    # -- sums ----------------------------------------------------------------------------------

    def sum(self, pairs: Iterable[tuple[Term, int]], constant: int = 0) -> Term:
        """``constant`` and each term times its factor."""
        factors: dict[Term, int] = {}
        for term, factor in pairs:
            constant += _collect(factors, term, factor)
        factors = {term: factor for term, factor in factors.items() if factor}
        for quotient in [term for term in factors if term.op == "div"]:
            constant += self._remainder(factors, quotient)
        if not factors:
            return self.const(constant)
        if len(factors) == 1 and not constant:
            ((term, factor),) = factors.items()
            if factor == 1:
                return term
        flat: list[Term | int | str] = [constant]
        for term in sorted(factors, key=lambda term: term.serial):
            flat += (term, factors[term])
        return self.make("sum", *flat)

    def _remainder(self, factors: dict[Term, int], quotient: Term) -> int:
        """Writes ``q x - q d (x div d)`` as ``q (x mod d)``; returns what the constant grows by."""
        of, by = quotient.args
        assert isinstance(of, Term)
        assert isinstance(by, int)
        factor = factors[quotient]
        times, rest = divmod(-factor, by)
        if rest:
            return 0
        inner: dict[Term, int] = {}
        constant = _collect(inner, of, 1)
        if any(factors.get(term) != times * count for term, count in inner.items()):
            return 0
        for term in (*inner, quotient):
            del factors[term]
        modulo = self.make("mod", of, by)
        factors[modulo] = factors.get(modulo, 0) + times
        return -times * constant

    def add(self, a: Term, b: Term) -> Term:
        return self.sum(((a, 1), (b, 1)))

    def times(self, term: Term, factor: int) -> Term:
        return self.sum(((term, factor),))

    def product(self, a: Term, b: Term) -> Term:
        """Sums are multiplied out, so that a product is one of terms that are no sums."""
        for one, other in ((a, b), (b, a)):
            if one.number is not None:
                return self.times(other, one.number)
        if a.op != "sum" and b.op != "sum":
            return self.commuted("mul", a, b)
        constant, pairs = addends(a)
        more, others = addends(b)
        found = [(self.product(x, y), n * m) for x, n in pairs for y, m in others]
        found += [(x, n * more) for x, n in pairs] + [(y, m * constant) for y, m in others]
        return self.sum(found, constant * more)

    def wrapped(self, term: Term) -> Term:
        """The same in a register of 32 bits, with the constant closest to 0."""
        constant, pairs = addends(term)
        if -(2**31) <= constant < 2**31:
            return term
        return self.sum(pairs, (constant + 2**31) % 2**32 - 2**31)

    # -- bits and quotients --------------------------------------------------------------------

    def shifted_right(self, term: Term, by: int) -> Term:
        """Of a number that is not negative."""
        if term.number is not None:
            return self.const(term.number >> by)
        if not by:
            return term
        return self._quotient(term, by) or self.make("shr", term, by)

    def halved(self, term: Term, by: int, bits: int = 32) -> Term:
        """Shifted to the right with its sign, which is the highest one of its ``bits``."""
        if term.number is not None:
            return self.const(signed(term.number, bits) >> by)
        return self.make("sar" if bits == 32 else "sar64", term, by) if by else term

    def high_product(self, a: Term, b: Term, bits: int = 32) -> Term:
        """The upper half of an unsigned product of two numbers of that many bits."""
        for one, other in ((a, b), (b, a)):
            if one.number is not None and other.number is None:
                found = self.make("mulhi", other, one.number % 2**bits, bits)
                return self._quotient(found, 0) or found
        return self.make("mulhi", *sorted((a, b), key=lambda term: term.serial), bits)

    def _quotient(self, term: Term, by: int) -> Term | None:
        """``x div d``, where a shifted product with a constant is that for all x below 2^32."""
        if term.op == "mulhi":
            of, magic, bits = term.args
            assert isinstance(bits, int)
            return self._divided(of, magic, bits + by)
        # With 33 bits: ((x - h) / 2 + h) / 2^by where h is the upper half of x times c.
        constant, pairs = addends(term)
        if constant or len(pairs) != 2 or any(factor != 1 for _, factor in pairs):
            return None
        for (high, _), (half, _) in (pairs, pairs[::-1]):
            if high.op == "mulhi" and half.op == "shr" and half.args[1] == 1:
                of, magic, bits = high.args
                if isinstance(magic, int) and isinstance(of, Term) and bits == 32:
                    rest = self.sum(((of, 1), (high, -1)))
                    if half.args[0] is rest:
                        return self._divided(of, magic + 2**32, 33 + by)
        return None

    def _divided(self, of: Term | int | str, magic: Term | int | str, power: int) -> Term | None:
        """``x m div 2^power`` is ``x div d`` for all x below 2^32 if m d exceeds 2^power by no more
        than 2^(power - 32) (Granlund and Montgomery, Division by Invariant Integers using
        Multiplication, 4.2).
        """
        if not isinstance(of, Term) or not isinstance(magic, int) or magic <= 0:
            return None
        divisor = -(-(2**power) // magic)
        excess = magic * divisor - 2**power
        if divisor < 2 or not 0 < excess <= 2 ** (power - 32):
            return None
        return self.divided(of, divisor)

    def divided(self, term: Term, by: int) -> Term:
        """The quotient of a number that is not negative, rounded down."""
        if term.number is not None and by:
            return self.const(term.number // by)
        return self.make("div", term, by)

    def remainder(self, term: Term, by: int) -> Term:
        if term.number is not None and by:
            return self.const(term.number % by)
        return self.make("mod", term, by)

    def select(self, condition: Term, yes: Term, no: Term) -> Term:
        if yes is no:
            return yes
        if condition.number is not None:
            return yes if condition.number else no
        if yes.number == 1 and no.number == 0 and is_condition(condition):
            return condition
        return self.make("select", condition, yes, no)

    def negation(self, condition: Term) -> Term:
        if condition.number is not None:
            return self.const(int(not condition.number))
        if condition.op == "not":
            (inner,) = condition.parts
            return inner
        return self.make("not", condition)

    def compare(self, how: str, a: Term, b: Term) -> Term:
        """``a how b`` as ``a - b how 0``, for eq, lt and le; the others are turned into these."""
        if how == "ne":
            return self.negation(self.compare("eq", a, b))
        if how in ("gt", "ge"):
            return self.negation(self.compare("le" if how == "gt" else "lt", a, b))
        difference = self.sum(((a, 1), (b, -1)))
        value = difference.number
        if value is not None:
            return self.const(int({"eq": value == 0, "lt": value < 0, "le": value <= 0}[how]))
        if how == "eq":  # one of two signs, so that x = y and y = x are the same
            _, pairs = addends(difference)
            if pairs[0][1] < 0:
                difference = self.times(difference, -1)
        return self.make(how, difference)


COMMUTATIVE = frozenset(("mul", "and", "or", "xor", "and?", "or?", "eq?"))
"""Operators of two terms that may be exchanged."""
CONDITIONS = {"eq", "lt", "le", "not", "and?", "or?", "float?", "elect", "vote?"}


def signed(number: int, bits: int) -> int:
    """What a register of so many bits has of ``number``, read with a sign."""
    return (number + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def is_condition(term: Term) -> bool:
    """Whether it is 0 or 1."""
    return term.op in CONDITIONS or term.number in (0, 1)


def addends(term: Term) -> tuple[int, list[tuple[Term, int]]]:
    """The constant of a sum, and its terms with their factors."""
    if term.op == "const":
        return term.args[0], []  # type: ignore[return-value]
    if term.op != "sum":
        return 0, [(term, 1)]
    constant, *flat = term.args
    return constant, list(zip(flat[::2], flat[1::2], strict=True))  # type: ignore[return-value]


def operands(op: str, term: Term) -> list[Term]:
    """The numbers that a term is the minimum or maximum of."""
    if term.op != op:
        return [term]
    return [leaf for part in term.parts for leaf in operands(op, part)]


def _collect(factors: dict[Term, int], term: Term, factor: int) -> int:
    """Adds a term to ``factors``; returns what belongs to the constant."""
    constant, pairs = addends(term)
    for one, times in pairs:
        factors[one] = factors.get(one, 0) + times * factor
    return constant * factor


def below(term: Term) -> Iterator[Term]:
    """A term and all that it is made of, each once."""
    seen: set[Term] = set()
    stack = [term]
    while stack:
        one = stack.pop()
        if one not in seen:
            seen.add(one)
            yield one
            stack += one.parts

"""How many trip counts stand for all of them.

Between its first and last turns a loop does the same in each, but for slots and phases, which come
again after some turns. That is so if what a role does depends on the trip count n and on its loops'
counters only in two ways: modulo something (`and` with low bits, remainders, slots, phases), and by
comparing sums of them with constants. Let all moduli divide M and no constant be larger than K. For
n > 2 K + M the turns that are nearer than K to neither end are decided by their residues modulo M,
so that n + M iterations are n iterations with M turns more in the middle; and steps agree with all
n if they agree with those up to 2 K + 2 M. `limits` looks at every condition, address and parity,
and refuses whatever depends on them in another way.

Where data has several loops divide the iterations among them (`breaks`), turns are near to the
place of division, too, and some part of a large n is long. M turns less of that part change nothing
else: they are taken from n, and from the place if it is behind them. A place far outside of the
tile is moved by M as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from math import gcd, lcm

from schedgen.conform.refusal import Refusal
from schedgen.conform.skeleton import Action, Branch, Exit, Items, Loop
from schedgen.conform.terms import Term, addends, below
from schedgen.emulator.ptx.tree import Instruction
from schedgen.lift.evaluate import KNOWN_OPERATORS
from schedgen.lift.items import GLOBAL
from schedgen.lift.walking import PEEK

_LARGE = 2**20
MOST = 160
"""Trip counts that are worth executing."""
_COMPARING = ("eq", "lt", "le", "ult", "min", "max", "min.u32?", "max.u32?")
_LINEAR = ("sum", "const", "sym", "select", "mul")
_PERIODIC = ("and", "mod", "div", "shr", "shr.u32?", "sar", "sar64", "or", "xor")
_LOGICAL = ("not", "and?", "or?", "eq?", "select")


@dataclass(frozen=True, slots=True)
class Limits:
    """``modulus`` M and ``constant`` K; loops divide a trip count in ``parts``."""

    modulus: int
    constant: int
    parts: int = 1

    @property
    def trips(self) -> int:
        """Trip counts up to this one stand for all: of more iterations, one part has more than
        2 K + M.
        """
        return 2 * self.constant * self.parts + self.modulus * (self.parts + 1)

    @property
    def beyond(self) -> int:
        """How far outside of its tile it is looked where loops may divide it."""
        return self.constant + self.modulus


class Looker:
    """``trip``: terms that are the trip count together; ``breaks``: where loops divide it."""

    def __init__(
        self, trip: Collection[Term], slots: Iterable[int], breaks: Collection[Term] = ()
    ) -> None:
        self.trip, self.parts = {*trip, *breaks}, 1 + len(breaks)
        self.moduli = {1, 2, *(2 * n for n in slots)}
        self.constants = {1}
        self._depends: dict[Term, bool] = {}
        self.counters: set[Term] = set()
        self._machines: set[Term] = set()
        """What loops hand on and is no counter, but a slot or phase."""

    def limits(self, skeletons: Iterable[Items]) -> Limits:
        """Of all roles.

        Raises:
            Refusal: something depends on the trip count in another way.
        """
        for items in skeletons:
            self._items(items)
        return Limits(lcm(*self.moduli), max(self.constants), self.parts)

    def _items(self, items: Items, carried: Collection[Term] = ()) -> None:
        for item in items:
            match item:
                case Action(_, one):
                    for term in _operands(item):
                        self._look(term, one)
                case Branch():
                    self._decides(item.condition, item.instruction)
                    self._items(item.yes)
                    self._items(item.no)
                case Exit():
                    self._decides(item.condition, item.instruction)
                case Loop():
                    self._loop(item)

    def _loop(self, loop: Loop) -> None:
        used = {t for term in _terms(loop.body) for t in below(term)}
        wanted = [symbol for symbol in loop.carried if symbol in used]
        for symbol in wanted:  # grows
            update = loop.carried[symbol].update
            wanted += [t for t in below(update) if t in loop.carried and t not in wanted]
        for symbol in wanted:
            one = loop.carried[symbol]
            constant, pairs = addends(one.update)
            if pairs == [(symbol, 1)]:
                self.counters.add(symbol)
                self.moduli.add(abs(constant) or 1)
            elif all(t.op == "const" or t in loop.carried for t in _leaves(one.update)):
                self._machines.add(symbol)
        for symbol in wanted:
            self._look(loop.carried[symbol].update, loop.instruction)
            self._look(loop.carried[symbol].entry, loop.instruction)
        self._items(loop.body)

    def _decides(self, condition: Term, one: Instruction) -> None:
        """What happens in a turn must not depend on slots and phases."""
        if not self._machines.isdisjoint(below(condition)):
            raise Refusal("a slot or phase decides what happens", one)
        self._look(condition, one)

    def _depended(self, term: Term) -> bool:
        """Whether a term depends on the trip count or a counter."""
        found = self._depends.get(term)
        if found is None:
            found = term in self.trip or term in self.counters
            found = found or any(self._depended(part) for part in term.parts)
            found = found and not _is_sign(term)
            self._depends[term] = found
        return found

    def _look(self, whole: Term, one: Instruction | None) -> None:
        for term in below(whole):
            if term in self.trip or not any(self._depended(part) for part in term.parts):
                continue
            if any(part in self.trip for part in term.parts) and term.op not in _KNOWN:
                raise Refusal(f"'{term.op}' of the trip count", one)
            if term.op in _COMPARING or _is_sign(term):
                self.constants |= set(_constants(term, one))
                self._even(term, one)
            elif term.op in _PERIODIC:
                self._period(term, one)
            elif term.op == "mul":
                continue
            elif term.op not in (*_LINEAR, *_LOGICAL) and term.op in KNOWN_OPERATORS:
                raise Refusal(f"'{term.op}' of the trip count or of a turn", one)

    def _even(self, term: Term, one: Instruction | None) -> None:
        """Parts of a tile may be taken out one by one only where nothing counts one twice."""
        pairs = (pair for part in term.parts for pair in addends(part)[1])
        if self.parts > 1 and any(abs(f) != 1 for t, f in pairs if self._depended(t)):
            raise Refusal("a multiple of a turn is compared where data divides the loop", one)

    def _period(self, term: Term, one: Instruction | None) -> None:
        numbers = [part.number for part in term.parts if part.number is not None]
        numbers += [arg for arg in term.args if isinstance(arg, int)]
        if len(numbers) != 1:
            if term.op in ("or", "xor"):
                return
            raise Refusal(f"'{term.op}' of the trip count with what is no constant", one)
        (number,) = numbers
        assert number is not None
        if term.op in ("shr", "shr.u32?", "sar", "sar64"):
            modulus = 2**number
        elif term.op in ("div", "mod"):
            modulus = number
        else:
            low = (number & -number).bit_length() - 1
            floor = number < 0 or ((number >> low) & ((number >> low) + 1) == 0 and number >= 2**24)
            modulus = 2**low if floor else 2 ** number.bit_length()
        self.moduli.add(modulus // gcd(modulus, _content(term.parts[0], self._depended)))


def _content(term: Term, depends: Callable[[Term], bool]) -> int:
    """What all that changes in a sum is a multiple of."""
    if term.op in ("shr", "sar", "sar64") and isinstance(term.args[1], int):
        return max(1, _content(term.parts[0], depends) >> term.args[1])
    return gcd(*(factor for part, factor in addends(term)[1] if depends(part))) or 1


def _is_sign(term: Term) -> bool:
    """Whether it only says whether a number of 32 bits is negative."""
    return term.op in ("sar", "shr") and term.args[1] == 31


_KNOWN = {*_COMPARING, *_LINEAR, *_PERIODIC, *_LOGICAL}


def _leaves(term: Term) -> list[Term]:
    return [part for part in below(term) if not part.parts]


def _constants(term: Term, one: Instruction | None) -> Iterator[int]:
    """What a comparison is with. One at the end of 32 bits decides nothing, as numbers stay below
    2^31; any other large one would be another behavior from there on.
    """
    for part in term.parts:
        constant, _ = addends(part)
        if abs(constant) < _LARGE:
            yield abs(constant)
        elif min(abs(abs(constant) - end) for end in (2**31, 2**32)) >= _LARGE:
            raise Refusal(f"the trip count or a turn is compared with {abs(constant)}", one)


def _operands(action: Action) -> list[Term]:
    """What an instruction is executed with; not what it finds, nor what global memory is for."""
    if action.kind.startswith(GLOBAL):
        return []
    terms = (action.address, *action.values)
    return [term for term in terms if term is not None and term.op != PEEK]


def _terms(items: Items) -> Iterator[Term]:
    for item in items:
        match item:
            case Action():
                yield from _operands(item)
            case Branch():
                yield item.condition
                yield from _terms(item.yes)
                yield from _terms(item.no)
            case Exit():
                yield item.condition
            case Loop():
                yield from (c.entry for c in item.carried.values())
                yield from _terms(item.body)

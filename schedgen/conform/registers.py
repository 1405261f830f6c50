"""What registers hold on one way through the code, and how instructions change that."""

from __future__ import annotations

from schedgen.conform.integers import Integers, immediate
from schedgen.conform.terms import Term, Terms, addends, below
from schedgen.emulator.ptx.tree import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
    registers_of,
)

SHARED = "shared"
"""The symbol for the start of dynamic shared memory."""
_HALF = 2**32


class State:
    """Registers with their terms; what an arm of a branch writes stays in it until both meet."""

    def __init__(self, parent: State | None = None) -> None:
        self.parent, self.written = parent, dict[str, Term]()

    def get(self, name: str) -> Term | None:
        state: State | None = self
        while state is not None:
            found = state.written.get(name)
            if found is not None:
                return found
            state = state.parent
        return None


class Registers:
    """Reads and writes registers of a kernel."""

    def __init__(self, kernel: Kernel, terms: Terms) -> None:
        self.kernel, self.terms = kernel, terms
        self.integers = Integers(terms)
        self._parameters = {p.name: number for number, p in enumerate(kernel.parameters)}

    # -- reading -------------------------------------------------------------------------------

    def read(self, state: State, operand: Operand) -> Term:
        """The term of a source operand."""
        match operand:
            case Register(name):
                return self._register(state, name)
            case Immediate():
                return immediate(self.terms, operand)
            case Symbol(name, offset):
                return self.terms.sum(((self._symbol(name), 1),), offset)
            case Negated(register):
                return self.terms.negation(self.read(state, register))
            case Address():
                return self.address(state, operand)
            case Vector(items):
                return self.terms.make("vector?", *(self.read(state, item) for item in items))
            case Pair():
                return self.terms.unknown()

    def address(self, state: State, operand: Address) -> Term:
        """Where an address operand points."""
        base = operand.base
        if base is None:
            return self.terms.const(operand.offset)
        return self.terms.sum(((self.read(state, base), 1),), operand.offset)

    def _register(self, state: State, name: str) -> Term:
        found = state.get(name)
        if found is not None:
            return found
        if name in self.kernel.registers:  # nobody has written it
            return self.terms.unknown()
        return self.terms.symbol(name)

    def _symbol(self, name: str) -> Term:
        if name in self._parameters:
            return self.terms.symbol(f"parameter {self._parameters[name]}")
        return self.terms.symbol(SHARED)

    def condition(self, state: State, one: Instruction) -> Term:
        """What the guard of an instruction says."""
        assert one.guard is not None
        found = self._register(state, one.guard.register)
        return self.terms.negation(found) if one.guard.negated else found

    # -- writing -------------------------------------------------------------------------------

    def execute(self, state: State, one: Instruction, number: int) -> None:
        """An instruction that touches nothing but registers, or loads a parameter."""
        if not one.operands:
            return
        destination, *sources = one.operands
        written = list(registers_of(destination))
        values = self._results(state, one, number, written, sources)
        if one.guard is not None:
            condition = self.condition(state, one)
            values = [
                self.terms.select(condition, value, self._register(state, name))
                for name, value in zip(written, values, strict=True)
            ]
        state.written.update(zip(written, values, strict=True))

    def _results(
        self,
        state: State,
        one: Instruction,
        number: int,
        written: list[str],
        sources: list[Operand],
    ) -> list[Term]:
        if one.opcode == "elect":
            return [self.terms.unknown(), self.terms.make("elect", number)][-len(written) :]
        given = [self.read(state, source) for source in sources]
        if one.opcode == "ld":
            return [self.terms.make("loaded?", *given, number) for number in range(len(written))]
        if one.opcode == "mov" and (len(written) > 1 or given[0].op == "vector?"):
            return self._halves(one, written, given[0])
        if one.opcode == "shfl" and "idx" in one.modifiers:
            return self._shuffled(one, given, len(written))
        if one.opcode == "vote":
            return [self.terms.make("vote?", ".".join(one.modifiers), given[0])]
        if one.opcode == "cvta":
            return given
        first = self.integers.result(one, given)
        return [first, *(self.terms.unknown() for _ in written[1:])]

    def _halves(self, one: Instruction, written: list[str], given: Term) -> list[Term]:
        """Packs two registers of 32 bits into one of 64, or the opposite."""
        if one.modifiers[-1] != "b64":
            return [self.terms.unknown() for _ in written]
        if given.op == "vector?":
            low, high = given.parts
            return [self.terms.sum(((low, 1), (high, _HALF)))]
        return [low_half(self.terms, given), high_half(self.terms, given)][: len(written)]

    def _shuffled(self, one: Instruction, given: list[Term], written: int) -> list[Term]:
        """The same for all lanes where the value is."""
        value, lane = given[:2]
        if all(_uniform(leaf) for leaf in below(value)):
            found = value
        elif lane.number is not None:
            found = self.terms.make("shfl", value, lane.number)
        else:
            found = self.terms.make("shfl from", value, lane)
        return [found, *(self.terms.unknown() for _ in range(written - 1))]


def low_half(terms: Terms, term: Term) -> Term:
    """The lower 32 bits of a register that was put together from two."""
    constant, pairs = addends(term)
    return terms.sum(((t, f) for t, f in pairs if f % _HALF), constant % _HALF)


def high_half(terms: Terms, term: Term) -> Term:
    constant, pairs = addends(term)
    return terms.sum(((t, f // _HALF) for t, f in pairs if not f % _HALF), constant // _HALF)


def _uniform(leaf: Term) -> bool:
    """Whether all threads of a block have the same."""
    if leaf.op == "sym":
        name = leaf.args[0]
        return name == SHARED or str(name).startswith(("parameter", "%ctaid", "%nctaid"))
    return leaf.op in ("const", "sum", "shr", "and", "or", "xor", "mul", "div", "mod")

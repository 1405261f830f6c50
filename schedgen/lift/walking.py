"""The skeleton of a warp of any kernel: what `schedgen.conform.walk` follows, with instructions
that generated kernels do not have.

A test of a phase that nobody repeats (a peek) leaves what it found as a term: a wait that is
skipped where the peek has seen the phase is one wait. An mbarrier instruction that says
``.acquire`` or ``.release`` is what it is without these words; ``.relaxed`` is not known.
"""

from __future__ import annotations

from dataclasses import replace

from schedgen.conform.actions import IGNORED, PURE, bulk_kind, kind
from schedgen.conform.flow import Block, Flow
from schedgen.conform.registers import State
from schedgen.conform.skeleton import Branch, Item
from schedgen.conform.terms import Term, Terms
from schedgen.conform.walk import Walk
from schedgen.emulator.ptx.tree import Instruction, Register

PEEK = "peek"
"""The kind of a test of a phase that is not repeated, and the operator of what it found."""
_DEFAULT_ORDERS = frozenset(("acquire", "release", "cta"))


def kind_of(one: Instruction) -> str:
    """What an instruction is to a lifted program; its own name if nothing is known of it."""
    if one.opcode == "mbarrier":
        kept = tuple(m for m in one.modifiers if m not in _DEFAULT_ORDERS)
        one = replace(one, modifiers=kept)
    return bulk_kind(one) or kind(one)


class Following(Walk):
    """Follows the 32 threads of one warp."""

    def __init__(self, flow: Flow, terms: Terms, warp: int) -> None:
        super().__init__(flow, terms, 32 * warp, 32)
        self.warp = warp

    def _product(self, one: Instruction, state: State) -> tuple[Term, ...]:
        """Whole descriptors: they say which bytes are read."""
        _, left, right, scale, *_ = one.operands
        found = [self.registers.read(state, operand) for operand in (right, scale)]
        in_memory = isinstance(left, Register)
        first = self.registers.read(state, left) if in_memory else self.terms.make("registers?")
        return (first, *found)

    def _tests(self, one: Instruction) -> bool:
        return kind_of(one) == "wait"

    def _straight(self, block: Block, state: State, found: list[Item]) -> None:
        for number in range(block.begin, block.end):
            one = self.kernel.body[number]
            if one.opcode in PURE or self._constant(one):
                self.registers.execute(state, one, number)
            elif one.opcode not in IGNORED:
                self._noted(one, number, state, found)

    def _noted(self, one: Instruction, number: int, state: State, found: list[Item]) -> None:
        """An action; one that waits in a loop of its own was recognized before."""
        what = kind_of(one)
        action = self._action(one, state, what)
        if what == "wait":
            seen = self.terms.make(PEEK, number)
            action = replace(action, kind=PEEK, values=(*action.values, seen))
        if one.guard is None:
            found.append(action)
        else:
            condition = self.registers.condition(state, one)
            found.append(Branch(condition, (action,), (), one))
        self._forget(one, action, state, number)
        destination = one.operands[0] if one.operands else None
        if what == "wait" and isinstance(destination, Register):
            state.written[destination.name] = action.values[-1]

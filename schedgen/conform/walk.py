"""The code of one role as a skeleton: its instructions that synchronize or access memory, in loops
and conditions, with operands as terms.

Control flow is followed from the entry; a branch that all threads of the role take alike, because
it asks for the number of their warp, is taken. Both arms of any other are followed to the block in
which they meet; where they leave different values in a register it holds a choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schedgen.conform.actions import ACCESSES, IGNORED, PURE, TURNED, bulk_kind, kind
from schedgen.conform.claimed import DRAWN, READ, WORD
from schedgen.conform.evaluate import Environment
from schedgen.conform.flow import END, Block, Flow
from schedgen.conform.folded import folds
from schedgen.conform.induction import Written
from schedgen.conform.refusal import Refusal
from schedgen.conform.registers import Registers, State, low_half
from schedgen.conform.skeleton import Action, Branch, Carried, Exit, Item, Items, Loop
from schedgen.conform.terms import Term, Terms
from schedgen.conform.turns import awaited
from schedgen.conform.values import along
from schedgen.emulator.ptx.tree import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Register,
    registers_of,
)

_INSTRUCTION = 3
"""Which of the operands of tcgen05.mma is that descriptor."""
UNREPEATED = "test of a phase"
"""The kind of one that nobody repeats until the phase is complete: no step of a program."""
_SYSTEM_BYTES = 1024
"""Shared memory before the buffers: barriers, and the address of tensor memory."""


@dataclass(frozen=True, slots=True)
class _Way:
    """Where a way through the code ends: before ``stop``, within the blocks of a loop."""

    stop: int
    loop: frozenset[int] | None = None
    header: int = END


class Walk:
    """Follows the threads ``first`` to ``first + threads - 1``.

    ``elements``: threads read tensors in global memory. Nothing that the kernel does writes these,
    so reading them is computing, once the kernel before has been waited for, and so are copies.
    ``claims``: output tiles are numbers that are told in shared memory.
    """

    def __init__(
        self,
        flow: Flow,
        terms: Terms,
        first: int,
        threads: int,
        *,
        elements: bool = False,
        claims: bool = False,
    ) -> None:
        self._elements, self._awaited, self._claims = elements, False, claims
        self.flow, self.terms = flow, terms
        self.kernel: Kernel = flow.kernel
        self.registers = Registers(self.kernel, terms)
        self._left: tuple[int, State] | None = None
        thread = along("thread", np.arange(first, first + threads))
        self.threads = Environment({terms.symbol("%tid.x"): thread}, {})

    def skeleton(self) -> Items:
        """All that these threads do."""
        return self._follow(0, State(), _Way(END))

    # -- ways ----------------------------------------------------------------------------------

    def _follow(self, block: int, state: State, way: _Way, *, inside: bool = False) -> Items:
        """From a block to the end of the way; ``state`` becomes that at the end.

        ``inside``: the first block is the header of the loop that the way is in.
        """
        found: list[Item] = []
        while block != way.stop or inside:
            if block == END or (way.loop is not None and block not in way.loop):
                raise Refusal("a loop is left under a condition, or by a role", self._last(block))
            if block in self.flow.loops and not inside and not self._passes(block, state):
                block = self._loop(block, state, found)
                continue
            inside = False
            one = self.flow.blocks[block]
            self._straight(one, state, found)
            block = self._onward(block, one, state, way, found)
        return tuple(found)

    def _last(self, block: int) -> Instruction | None:
        return self.kernel.body[block] if 0 <= block < len(self.kernel.body) else None

    def _onward(self, at: int, block: Block, state: State, way: _Way, found: list[Item]) -> int:
        """Where control goes from the end of a block, once its branches have been followed."""
        if block.guard is None:
            return block.next
        last = self.kernel.body[block.end]
        condition = self.registers.condition(state, last)
        holds = self.threads.decide(condition)
        if holds is not None:
            return block.taken if holds else block.next
        if way.loop is not None:
            outside = [to for to in block.successors if to not in way.loop]
            if outside:
                return self._leave(block, condition, state, way, found)
        meet = self.flow.meets[at]
        yes, no = State(state), State(state)
        mine = _Way(meet, way.loop, way.header)
        items = self._follow(block.taken, yes, mine), self._follow(block.next, no, mine)
        if any(items):
            found.append(Branch(condition, *items, last))
        self._join(condition, state, yes, no)
        return meet

    def _join(self, condition: Term, state: State, yes: State, no: State) -> None:
        for name in yes.written.keys() | no.written.keys():
            a, b = yes.get(name), no.get(name)
            if a is None or b is None:  # written in one arm only: nobody may read it
                state.written[name] = self.terms.unknown()
            else:
                state.written[name] = a if a is b else self.terms.select(condition, a, b)

    def _leave(
        self, block: Block, condition: Term, state: State, way: _Way, found: list[Item]
    ) -> int:
        """A branch out of the loop."""
        last = self.kernel.body[block.end]
        assert way.loop is not None
        leaves = block.taken not in way.loop
        to, stay = (block.taken, block.next) if leaves else (block.next, block.taken)
        if stay not in way.loop or self._left is not None:
            raise Refusal("a loop is left in several places", last)
        copy = State()
        copy.written = dict(state.written)
        self._left = to, copy
        found.append(Exit(condition if leaves else self.terms.negation(condition), last))
        return stay

    # -- loops ---------------------------------------------------------------------------------

    def _loop(self, header: int, state: State, found: list[Item]) -> int:
        """Adds a loop; ``state`` becomes that after it. Returns where control goes then."""
        blocks = self.flow.loops[header]
        waiting = self._waiting(header, blocks, state)
        if waiting is not None:
            found.append(waiting[0])
            return waiting[1]
        number = self.terms.symbol(f"turns at {header}")
        carried: dict[Term, tuple[str, Term]] = {}
        inner = State(state)
        for name in self._written(blocks):
            entry = state.get(name)
            if entry is not None:
                symbol = self.terms.symbol(f"{name} at {header}")
                carried[symbol] = name, entry
                inner.written[name] = symbol
        outer, self._left = self._left, None
        body = self._follow(header, inner, _Way(header, blocks, header), inside=True)
        left, self._left = self._left, outer
        first = self.kernel.body[header]
        if left is None:
            raise Refusal("a loop has no end", first)
        kept = {
            symbol: Carried(name, entry, inner.get(name) or self.terms.unknown())
            for symbol, (name, entry) in carried.items()
        }
        if any(not isinstance(item, Exit) for item in body):
            found.append(Loop(number, kept, body, first))
        else:
            (leave,) = (item.condition for item in body if isinstance(item, Exit))
            after = left[1].written
            names = folds(self.terms, kept, leave, after.values())
            left[1].written = Written(self.terms, names).all(after)
        state.written.update(left[1].written)
        return left[0]

    def _passes(self, header: int, state: State) -> bool:
        """Whether a loop is left at the end of its first block, always: it is none then."""
        block = self.flow.blocks[header]
        if block.guard is None:
            return False
        scratch = State(state)
        self._straight(block, scratch, [])
        condition = self.registers.condition(scratch, self.kernel.body[block.end])
        holds = self.threads.decide(condition)
        if holds is None:
            return False
        return (block.taken if holds else block.next) not in self.flow.loops[header]

    def _written(self, blocks: frozenset[int]) -> list[str]:
        """Registers that instructions of blocks write, each once."""
        found: dict[str, None] = {}
        for start in sorted(blocks):
            block = self.flow.blocks[start]
            for one in self.kernel.body[block.begin : block.end]:
                for name in _destinations(one):
                    found[name] = None
        return list(found)

    def _waiting(
        self, header: int, blocks: frozenset[int], state: State
    ) -> tuple[Action, int] | None:
        """A loop that does nothing but test a phase until it is complete, or a word."""
        block, scratch = self.flow.blocks[header], State(state)
        inside = [
            (number, self.kernel.body[number])
            for start in sorted(blocks)
            for number in range(self.flow.blocks[start].begin, self.flow.blocks[start].end)
        ]
        if block.guard is None:
            return None
        done, negated = block.guard.register, block.guard.negated
        while inside and inside[-1][1].name == "not.pred" and inside[-1][1].guard is None:
            turned, source = inside.pop()[1].operands
            if turned != Register(done) or not isinstance(source, Register):
                return None
            done, negated = source.name, not negated
        to = block.next if negated else block.taken
        if to in blocks:
            return None
        turn = awaited(inside, done, self.registers, state)
        if turn is not None:
            return turn, to
        if not inside or not self._tests(inside[-1][1]):
            return None
        later = set(self._written(blocks))
        for number, one in inside[:-1]:
            sources = {name for operand in one.operands[1:] for name in registers_of(operand)}
            if one.opcode not in PURE or one.opcode == "elect" or one.guard or sources & later:
                return None
            self.registers.execute(scratch, one, number)
            later -= set(_destinations(one))
        test = inside[-1][1]
        if test.guard is not None or test.operands[0] != Register(done):
            return None
        return self._action(test, scratch, "wait"), to

    def _tests(self, one: Instruction) -> bool:
        """Whether an instruction tests a phase."""
        return kind(one) == "wait"

    # -- instructions --------------------------------------------------------------------------

    def _straight(self, block: Block, state: State, found: list[Item]) -> None:
        for number in range(block.begin, block.end):
            one = self.kernel.body[number]
            if one.opcode in PURE or self._constant(one):
                self.registers.execute(state, one, number)
            elif one.opcode not in IGNORED:
                what = bulk_kind(one) or kind(one)
                if what == "copied write" and not (self._elements and self._awaited):
                    what = one.name
                # Loops that wait were recognized before: this one may go on without its phase.
                action = self._action(one, state, UNREPEATED if what == "wait" else what)
                self._awaited |= action.kind == "griddepcontrol.wait"
                if one.guard is None:
                    found.append(action)
                else:
                    condition = self.registers.condition(state, one)
                    found.append(Branch(condition, (action,), (), one))
                self._forget(one, action, state, number)

    def _constant(self, one: Instruction) -> bool:
        """Whether it reads what never changes."""
        if one.opcode != "ld":
            return False
        if one.modifiers[0] in ("param", "const"):
            return True
        return one.modifiers[0] == "global" and self._elements and self._awaited

    def _forget(self, one: Instruction, action: Action, state: State, at: int) -> None:
        """What an action writes to registers is not known, but for words that never change, and
        what claims of tiles are about.
        """
        for number, name in enumerate(_destinations(one)):
            value = self.terms.unknown()
            if action.kind == "read" and action.address is not None and not number:
                byte = self.terms.sum(((action.address, 1), (self.terms.symbol("shared"), -1)))
                if byte.number is not None and 0 <= byte.number < _SYSTEM_BYTES:
                    value = self.terms.make("word", byte.number)
                elif self._claims and one.name == WORD:
                    value = self.terms.make(READ, at)
            elif action.kind == "draw":
                value = self.terms.make(DRAWN, at)
            state.written[name] = value

    def _action(self, one: Instruction, state: State, what: str) -> Action:
        """An instruction with the operands that are compared."""
        operands = one.operands

        def read(number: int) -> Term:
            return self.registers.read(state, operands[number])

        addresses = [
            self.registers.address(state, operand)
            for operand in operands
            if isinstance(operand, Address)
        ]
        match what:
            case "init" | "arrive" | "expect" | "wait":
                last = 2 if what == "wait" else len(operands) - 1
                given = not isinstance(operands[last], Address)
                return Action(
                    what, one, addresses[0], (read(last) if given else self.terms.const(1),)
                )
            case "load":
                return Action(what, one, addresses[0], (addresses[2],))
            case "store" | "add":
                return Action(what, one, addresses[1])
            case "wgmma":
                return Action(what, one, None, self._product(one, state))
            case "mma":
                left = operands[1]
                sides = [
                    addresses[1] if isinstance(left, Address) else low_half(self.terms, read(1)),
                    low_half(self.terms, read(2)),
                    read(len(operands) - 1),
                    read(_INSTRUCTION),
                ]
                if "block_scale" in one.modifiers:
                    sides += addresses[-2:]
                return Action(what, one, addresses[0], tuple(sides))
            case "factors":
                return Action(what, one, addresses[0], (low_half(self.terms, read(1)),))
            case "commit":
                return Action(what, one, addresses[0])
            case _ if what in ACCESSES or what == "alloc":
                told = self._claims and what == "write" and one.name == "st.shared.b32"
                values = (read(1),) if what == "alloc" or told else ()
                return Action(what, one, addresses[0], values)
            case _:
                plain = [operand for operand in operands if not isinstance(operand, Address)]
                values = tuple(self.registers.read(state, operand) for operand in plain)
                return Action(what, one, addresses[0] if addresses else None, values)

    def _product(self, one: Instruction, state: State) -> tuple[Term, ...]:
        """The left operand in shared memory, if it is there, the right one, whether it adds, and
        how both lie, in the bits that tcgen05's products have for that.
        """
        _, left, right, scale, *_ = one.operands
        terms = [self.registers.read(state, operand) for operand in (left, right, scale)]
        if not isinstance(left, Register):
            terms[0] = self.terms.make("registers?")
        turned = self.terms.const(_turned(one))
        return (low_half(self.terms, terms[0]), low_half(self.terms, terms[1]), terms[2], turned)


def _turned(one: Instruction) -> int:
    """Whether the rows of wgmma's operands lie along m and n, as bits `TURNED`: the literals behind
    two signs, of 16 bits only, and of a left operand in registers there is none.
    """
    literals = [operand.value for operand in one.operands[4:] if isinstance(operand, Immediate)]
    given = literals[2:]
    sides = zip("ba", reversed(given), strict=False)
    return sum(1 << TURNED[side] for side, value in sides if value)


def _destinations(one: Instruction) -> list[str]:
    """Registers that an instruction writes."""
    if not one.operands or one.opcode in ("st", "stmatrix", "red", "prefetch"):
        return []
    first = one.operands[0]
    found = list(registers_of(first))
    if one.opcode == "tcgen05" and not one.name.startswith("tcgen05.ld"):
        return []
    if one.opcode in ("bar", "barrier", "cp", "setmaxnreg", "griddepcontrol", "fence", "bra"):
        return []
    if one.opcode == "wgmma" and one.modifiers[0] != "mma_async":
        return []
    return found

"""Turns in which blocks add to a tensor (`schedgen.program.taking_turns`), beside the instructions
that take them, and tiles of two kernels that follow each other (`schedgen.program.following`).

That copies come between is compared step by step. That a thread waits for the number of the tile
before and then passes the next one on, at one word, is said here.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedgen.conform.refusal import Refusal
from schedgen.conform.registers import Registers, State
from schedgen.conform.skeleton import Action
from schedgen.conform.terms import Term, Terms
from schedgen.conform.trace import Event
from schedgen.emulator.ptx.tree import Address, Instruction, Register

AWAIT, FENCE, PASS = "await turn", "fence.proxy.async.global", "pass turn"
"""Kinds of what is done: a loop that reads a word, a fence, and what writes that word."""
TILES, COUNTED = "await tiles", "count tile"
"""A loop that reads a word until it is at least a number, and what adds to a word."""
_READ, _COMPARE = "ld.acquire.gpu.global.b32", {"setp.eq.b32": AWAIT, "setp.ge.s32": TILES}


def awaited(
    inside: Sequence[tuple[int, Instruction]], done: str, registers: Registers, state: State
) -> Action | None:
    """A loop of instructions that does nothing but read a word until it is a number, or no less;
    ``done`` says that it is.
    """
    if len(inside) != 2 or any(one.guard for _, one in inside):
        return None
    (_, read), (_, compare) = inside
    if read.name != _READ or compare.name not in _COMPARE:
        return None
    word = read.operands[1]
    if compare.operands[:2] != (Register(done), read.operands[0]) or not isinstance(word, Address):
        return None
    number = registers.read(state, compare.operands[2])
    kind = _COMPARE[compare.name]
    return Action(kind, read, registers.address(state, word), (number,))


def check_turn(begin: Event, end: Event, terms: Terms) -> None:
    """A turn is passed on where it was awaited, as the one behind it. Raises Refusal."""
    if begin.action.address is not end.action.address:
        raise Refusal("it is another word than that of its turn", end.action.instruction)
    numbers = _numbers(begin.action.values[0])
    behind = [terms.sum(((end.action.values[-1], 1), (number, -1))).number for number in numbers]
    if 1 not in behind or any(
        n != 1 and number.number != 0 for n, number in zip(behind, numbers, strict=True)
    ):
        raise Refusal("it is not the turn behind the one that was awaited", end.action.instruction)


def _numbers(term: Term) -> Sequence[Term]:
    """What a choice may be."""
    if term.op != "select":
        return [term]
    return [one for part in term.parts[1:] for one in _numbers(part)]

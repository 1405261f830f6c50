"""Waits that nobody repeats: tests of a phase whose result does not lead to another test.

An mbarrier.try_wait may return False although its phase will complete, and a test_wait does so at
once. Whoever goes on then goes on too early. Compilers also put a try_wait far in front of the loop
that waits, which is left out if the phase was complete: the result of that one decides about a
branch, and on one side of it there is the loop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from schedgen.emulator.ptx.flow import Flow
from schedgen.emulator.ptx.tree import Instruction, Kernel, registers_of, touched

_CARRY = frozenset({"mov", "selp", "setp", "set", "slct", "and", "or", "xor", "not", "cvt"})
"""Opcodes whose result may say what a predicate was."""


def unrepeated(kernel: Kernel) -> tuple[int, ...]:
    """Places of tests of phases after which a warp may go on although the result was False: it
    decides about no branch, or about none with a test between it and where its ways meet."""
    tests = {at for at, one in enumerate(kernel.body) if _tests(one)}
    if not tests:
        return ()
    flow, uses = Flow(kernel), _Uses(kernel)
    return tuple(at for at in sorted(tests) if not _leads_to_one(flow, uses, tests, at))


def _tests(one: Instruction) -> bool:
    return one.opcode == "mbarrier" and one.modifiers[0] in ("try_wait", "test_wait")


def _leads_to_one(flow: Flow, uses: _Uses, tests: set[int], at: int) -> bool:
    """Whether the result of a test, or what is made of it, decides about a branch of this kind."""
    open_ = [(at, name) for name in registers_of(flow.body[at].operands[0])]
    known = set(open_)
    while open_:
        for place in uses.of(flow, *open_.pop()):
            one = flow.body[place]
            if one.opcode == "bra":
                if not tests.isdisjoint(flow.decided(place)):
                    return True
                continue
            new = {(place, name) for name in registers_of(one.operands[0])} - known
            known |= new
            open_ += new
    return False


class _Uses:
    """By register the places that set it, and those of branches that it decides about and of
    instructions that make another register of it."""

    def __init__(self, kernel: Kernel) -> None:
        self._sets: dict[str, list[int]] = defaultdict(list)
        self._uses: dict[str, list[int]] = defaultdict(list)
        for at, one in enumerate(kernel.body):
            if one.operands:
                for name in registers_of(one.operands[0]):
                    self._sets[name].append(at)
            if one.opcode != "bra" and one.opcode not in _CARRY:
                continue
            names = {one.guard.register} if one.guard is not None else set[str]()
            if one.opcode != "bra":
                names.update(name for operand in one.operands[1:] for name in touched(operand))
            for name in names:
                self._uses[name].append(at)

    def of(self, flow: Flow, at: int, name: str) -> Iterator[int]:
        """Where that is used what the instruction at a place has put into a register."""
        uses = self._uses.get(name, ())
        others = {place for place in self._sets[name] if flow.body[place].guard is None} - {at}
        if not uses or not others:
            yield from uses
            return
        # Those that set it may use it, too: they are reached as well.
        behind = flow.until(others, flow.following[at])
        yield from (
            place
            for place in uses
            if place in behind
            or not behind.isdisjoint(flow.preceding[place])
            or place in flow.following[at]
        )

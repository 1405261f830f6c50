"""Whether registers of Hopper's products are left alone between ``wgmma.fence`` and the product.

A product may not use registers that its threads have accessed since the last ``wgmma.fence`` of
their warpgroup, but for accumulators of products before it (PTX ISA, wgmma.fence). The compiler
knows of no such order: it may compute a value, or move it to other registers at the end of a loop's
turn, behind the fence that the program has in front of the product. What can be executed before is
followed along all branches, back edges of loops included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Instruction, Kernel, Operand, Pair, Register, Symbol, Vector

_ENDS = ("ret", "exit", "trap")
Touched = dict[str, int]
"""Register -> the line of an instruction that accesses it, since the last fence."""


@dataclass(frozen=True, slots=True)
class Unfenced:
    """A product in PTX whose register an instruction accesses with no fence between the two.

    ``line`` and ``product`` are lines of the PTX, from 1.
    """

    register: str
    line: int
    product: int

    def __str__(self) -> str:
        return (
            f"line {self.line} of the PTX accesses {self.register}, which the product in line "
            f"{self.product} uses,"
        )


def unfenced(ptx: str) -> tuple[Unfenced, ...]:
    """The first such register of each product in the text of a PTX module, in order.

    Raises:
        PtxError: it cannot be read.
    """
    found = (one for kernel in parse(ptx).kernels.values() for one in _Flow(kernel).found())
    return tuple(sorted(found, key=lambda one: one.product))


class _Flow:
    """Follows the registers of products through a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.body, self.labels = kernel.body, kernel.labels
        self.used = {name for one in self.body if _multiplies(one) for name in _operands(one)}
        marks = {0, *self.labels.values()}
        marks |= {n + 1 for n, one in enumerate(self.body) if one.opcode in ("bra", *_ENDS)}
        self.starts = sorted(mark for mark in marks if mark < len(self.body))

    def found(self) -> Iterator[Unfenced]:
        for start, before in self._reaching().items():
            yield from self._block(start, dict(before))

    def _reaching(self) -> dict[int, Touched]:
        """Block -> what has been accessed since the last fence on some way to it."""
        reaching: dict[int, Touched] = {start: {} for start in self.starts}
        waiting = list(reversed(self.starts)) if self.used else []
        while waiting:
            start = waiting.pop()
            after = dict(reaching[start])
            for _ in self._block(start, after):
                pass
            for following in self._following(start):
                known = reaching[following]
                new = {name: line for name, line in after.items() if name not in known}
                if new:
                    reaching[following] |= new
                    waiting.append(following)
        return reaching

    def _end(self, start: int) -> int:
        return next((other for other in self.starts if other > start), len(self.body))

    def _following(self, start: int) -> Iterator[int]:
        end = self._end(start)
        last = self.body[end - 1]
        if last.opcode == "bra":
            yield from (self.labels[o.name] for o in last.operands if isinstance(o, Symbol))
        always = last.guard is None and last.opcode in ("bra", *_ENDS)
        if not always and end < len(self.body):
            yield end

    def _block(self, start: int, touched: Touched) -> Iterator[Unfenced]:
        """Products of a block with registers in ``touched``, which is brought to its end."""
        for one in self.body[start : self._end(start)]:
            if one.opcode == "wgmma" and one.modifiers[0] == "fence":
                touched.clear()
            elif _multiplies(one):
                names = [name for name in _operands(one) if name in touched]
                if names:
                    yield Unfenced(names[0], touched[names[0]], one.line)
            else:
                for operand in one.operands:
                    touched |= {name: one.line for name in _names(operand) if name in self.used}


def _multiplies(one: Instruction) -> bool:
    return one.opcode == "wgmma" and one.modifiers[0] == "mma_async"


def _operands(one: Instruction) -> Iterator[str]:
    """Registers of the result and, if it is in registers, of the left operand."""
    for operand in one.operands[:2]:
        if isinstance(operand, Vector):
            yield from _names(operand)


def _names(operand: Operand) -> Iterator[str]:
    match operand:
        case Register(name):
            yield name
        case Vector(items):
            for item in items:
                yield from _names(item)
        case Pair(first, second):
            yield from _names(first)
            yield from _names(second)
        case _:
            pass

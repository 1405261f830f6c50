"""Whether registers of Hopper's products are left alone from ``wgmma.fence`` until the product is
complete.

A product may not use registers that its threads have accessed since the last ``wgmma.fence`` of
their warpgroup, but for accumulators of products before it (PTX ISA, wgmma.fence). The compiler
knows of no such order: it may compute a value, or move it to other registers at the end of a loop's
turn, behind the fence that the program has in front of the product. Nor may they be accessed before
a ``wgmma.wait_group`` that leaves no group of the product, which the compiler does where ways with
and without a product come together. What can be executed is followed along all branches, back edges
of loops included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import (
    Immediate,
    Instruction,
    Kernel,
    Module,
    Symbol,
    Vector,
    registers_of,
)

_ENDS = ("ret", "exit", "trap")
Touched = dict[str, int]
"""Register -> the line of an instruction that accesses it, since the last fence."""
Pending = dict[str, tuple[int, int]]
_MOST = 64
"""Groups that are counted at most; no wait leaves so many."""


@dataclass(frozen=True, slots=True)
class Unfenced:
    """A product in PTX whose register an instruction accesses with nothing between the two that
    would have to be there.

    ``line`` and ``product`` are lines of the PTX, from 1; ``missing`` is what is not between them.
    """

    register: str
    line: int
    product: int
    missing: str = "wgmma.fence"

    @property
    def fix(self) -> str:
        """What a spec can do about it."""
        if self.missing == "wgmma.fence":
            return "compute what is multiplied in a role of its own"
        return (
            "hold less in the registers of its role, so that the compiler leaves results in place"
        )

    def __str__(self) -> str:
        return (
            f"line {self.line} of the PTX accesses {self.register}, which the product in line "
            f"{self.product} uses,"
        )


def unfenced(ptx: str | Module) -> tuple[Unfenced, ...]:
    """The first such register of each product, before it and behind it, in a PTX module or its
    text, in order.

    Raises:
        PtxError: it cannot be read.
    """
    kernels = (parse(ptx) if isinstance(ptx, str) else ptx).kernels.values()
    before = [one for kernel in kernels for one in _Flow(kernel).found()]
    behind = [one for kernel in kernels for one in _Unfinished(kernel).found()]
    return tuple(sorted((*before, *behind), key=lambda one: one.product))


class _Blocks:
    """Instructions that run one after the other, and what may come behind them."""

    def __init__(self, kernel: Kernel) -> None:
        self.body, self.labels = kernel.body, kernel.labels
        marks = {0, *self.labels.values()}
        marks |= {n + 1 for n, one in enumerate(self.body) if one.opcode in ("bra", *_ENDS)}
        self.starts = sorted(mark for mark in marks if mark < len(self.body))

    def of(self, start: int) -> tuple[Instruction, ...]:
        return self.body[start : self.end(start)]

    def end(self, start: int) -> int:
        return next((other for other in self.starts if other > start), len(self.body))

    def following(self, start: int) -> Iterator[int]:
        end = self.end(start)
        last = self.body[end - 1]
        if last.opcode == "bra":
            yield from (self.labels[o.name] for o in last.operands if isinstance(o, Symbol))
        always = last.guard is None and last.opcode in ("bra", *_ENDS)
        if not always and end < len(self.body):
            yield end


class _Flow:
    """Follows registers that are accessed to the products that use them."""

    def __init__(self, kernel: Kernel) -> None:
        self.blocks = _Blocks(kernel)
        self.used = {name for one in kernel.body if _multiplies(one) for name in _operands(one)}

    def found(self) -> Iterator[Unfenced]:
        for start, before in self._reaching().items():
            yield from self._block(start, dict(before))

    def _reaching(self) -> dict[int, Touched]:
        """Block -> what has been accessed since the last fence on some way to it."""
        reaching: dict[int, Touched] = {start: {} for start in self.blocks.starts}
        waiting = list(reversed(self.blocks.starts)) if self.used else []
        while waiting:
            start = waiting.pop()
            after = dict(reaching[start])
            for _ in self._block(start, after):
                pass
            for following in self.blocks.following(start):
                known = reaching[following]
                new = {name: line for name, line in after.items() if name not in known}
                if new:
                    reaching[following] |= new
                    waiting.append(following)
        return reaching

    def _block(self, start: int, touched: Touched) -> Iterator[Unfenced]:
        """Products of a block with registers in ``touched``, which is brought to its end."""
        for one in self.blocks.of(start):
            if one.opcode == "wgmma" and one.modifiers[0] == "fence":
                touched.clear()
            elif _multiplies(one):
                names = [name for name in _operands(one) if name in touched]
                if names:
                    yield Unfenced(names[0], touched[names[0]], one.line)
            else:
                for operand in one.operands:
                    named = self.used.intersection(registers_of(operand))
                    touched |= dict.fromkeys(named, one.line)


class _Unfinished:
    """Follows the registers of products to where these are complete.

    Of each register is known the line of its product and how many groups have been committed behind
    the one of that product, -1 if it has not been committed itself: the least of all ways.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.blocks = _Blocks(kernel)

    def found(self) -> Iterator[Unfenced]:
        known = set[int]()
        for start, before in self._reaching().items():
            for one in self._block(start, dict(before)):
                if one.product not in known:
                    known.add(one.product)
                    yield one

    def _reaching(self) -> dict[int, Pending]:
        reaching: dict[int, Pending] = {start: {} for start in self.blocks.starts}
        waiting = list(reversed(self.blocks.starts))
        while waiting:
            start = waiting.pop()
            after = dict(reaching[start])
            for _ in self._block(start, after):
                pass
            for following in self.blocks.following(start):
                known = reaching[following]
                new = {n: one for n, one in after.items() if n not in known or one < known[n]}
                if new:
                    known |= new
                    waiting.append(following)
        return reaching

    def _block(self, start: int, pending: Pending) -> Iterator[Unfenced]:
        for one in self.blocks.of(start):
            kind = one.modifiers[0] if one.opcode == "wgmma" else ""
            if kind == "mma_async":
                pending |= dict.fromkeys(_operands(one), (-1, one.line))
            elif kind == "commit_group":
                pending |= {
                    n: (min(groups + 1, _MOST), line) for n, (groups, line) in pending.items()
                }
            elif kind == "wait_group":
                left = _left(one)
                for name in [n for n, (groups, _) in pending.items() if groups >= left]:
                    del pending[name]
            elif pending:
                for name in (n for operand in one.operands for n in registers_of(operand)):
                    if name in pending:
                        yield Unfenced(name, one.line, pending.pop(name)[1], "wgmma.wait_group")


def _left(one: Instruction) -> int:
    """How many groups a wait leaves."""
    (operand,) = one.operands
    assert isinstance(operand, Immediate)
    return int(operand.value)


def _multiplies(one: Instruction) -> bool:
    return one.opcode == "wgmma" and one.modifiers[0] == "mma_async"


def _operands(one: Instruction) -> Iterator[str]:
    """Registers of the result and, if it is in registers, of the left operand."""
    for operand in one.operands[:2]:
        if isinstance(operand, Vector):
            yield from registers_of(operand)

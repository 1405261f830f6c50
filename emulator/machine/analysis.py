"""What can be said of a kernel without executing it, found when first asked for."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.machine.precedence import ranks
from schedgen.emulator.ptx.repeated import unrepeated
from schedgen.emulator.ptx.synchronization import OPCODES, synchronizes
from schedgen.emulator.ptx.tree import Immediate, Instruction, Kernel, Register, Symbol, touched

_WITHOUT = frozenset({Immediate, Symbol})
"""Operands without registers."""


class Analysis:
    """Of one kernel; launches of it share it."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    @cached_property
    def ranks(self) -> list[int]:
        """The order in which divergent lanes run; needed only when lanes diverge."""
        return ranks(self.kernel)

    @cached_property
    def synchronization(self) -> frozenset[int]:
        """The lines of instructions that order threads or wait for something."""
        every = [one for one in self.kernel.body if one.opcode in OPCODES]
        return frozenset(one.line for one in every if synchronizes(one))

    @cached_property
    def unrepeated(self) -> frozenset[int]:
        """Places of the waits that nobody repeats."""
        return frozenset(unrepeated(self.kernel))

    @cached_property
    def lines(self) -> NDArray[np.int64]:
        """The line of each instruction."""
        return np.array([one.line for one in self.kernel.body], np.int64)

    @cached_property
    def ordering(self) -> list[tuple[int, Instruction]]:
        """All instructions of the lines of `synchronization`, and where in the body they are."""
        lines = self.synchronization
        return [(at, one) for at, one in enumerate(self.kernel.body) if one.line in lines]

    @cached_property
    def uses(self) -> Counter[str]:
        """How often the instructions have each register."""
        names: list[str] = []
        for one in self.kernel.body:
            if one.guard is not None:
                names.append(one.guard.register)
            for operand in one.operands:
                if type(operand) is Register:  # nearly all are
                    names.append(operand.name)
                elif type(operand) not in _WITHOUT:
                    names += touched(operand)
        return Counter(names)

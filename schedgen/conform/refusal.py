"""What ends a comparison: something that cannot be decided, or that nothing here understands."""

from __future__ import annotations

from schedgen.emulator.ptx.tree import Instruction


class Refusal(Exception):
    """Why a kernel cannot be compared with its program, and the instruction that it is about."""

    def __init__(self, message: str, instruction: Instruction | None = None) -> None:
        super().__init__(message)
        self.message, self.instruction = message, instruction

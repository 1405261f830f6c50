"""Which instructions order threads or wait for something, and which of them may have to wait."""

from __future__ import annotations

from schedgen.emulator.ptx.tree import Instruction

_ALWAYS = frozenset({"bar", "barrier", "fence", "membar", "griddepcontrol"})
_WORDS = {
    "mbarrier": frozenset({
        "try_wait", "test_wait", "arrive", "arrive_drop", "expect_tx", "complete_tx", "init",
        "inval",
    }),
    "wgmma": frozenset({"fence", "commit_group", "wait_group"}),
    "tcgen05": frozenset({"fence", "commit", "wait"}),
    "cp": frozenset({"commit_group", "wait_group", "wait_all", "mbarrier"}),
}  # fmt: skip
"""Words by opcode; an instruction of it that has one orders something."""
_MEMORY = frozenset({"ld", "st", "red", "atom", "multimem"})
OPCODES = _ALWAYS | _MEMORY | _WORDS.keys()
"""All opcodes of instructions that may synchronize."""
_ORDERS = frozenset({"acquire", "release", "acq_rel"})
_WAITS = frozenset({"try_wait", "wait_group", "wait_all", "wait"})


def synchronizes(instruction: Instruction) -> bool:
    """Whether an instruction waits, arrives, is a fence or a barrier, or ends or begins a group of
    asynchronous operations. Copies and products that arrive on an mbarrier do not count."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode in _ALWAYS:
        return True
    if opcode in _MEMORY:
        return not _ORDERS.isdisjoint(modifiers)
    words = _WORDS.get(opcode)
    return words is not None and not words.isdisjoint(modifiers)


def waits(instruction: Instruction) -> bool:
    """Whether an instruction that synchronizes keeps its warp until something has happened."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode in _MEMORY or opcode in ("fence", "membar", "griddepcontrol"):
        return False
    if opcode in ("bar", "barrier"):
        return "arrive" not in modifiers and "warp" not in modifiers
    return not _WAITS.isdisjoint(modifiers)

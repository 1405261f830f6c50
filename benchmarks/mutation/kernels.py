"""Compiled kernels with one synchronization instruction removed, weakened or changed.

For measuring how much of what can be wrong an emulation finds: see `benchmarks/emulate_mutants.py`.
The operators follow the bugs that were found in real kernels; their numbers are those of the
project's bug corpus. A mutant may be equivalent: another instruction may do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from schedgen.emulator.ptx.tree import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Module,
    Operand,
    Register,
)

UNREPEATED = "M15 wait without its loop"
_FRESH = "%mutant"
"""A register that no compiler declares."""
_ARRIVALS = ("arrive", "sync")
_COMPLETES = "mbarrier::complete_tx::bytes"
_LOOP = 3
"""Instructions behind a try_wait among which the branch back to it stands."""


@dataclass(frozen=True)
class Mutant:
    """One change of one instruction.

    Attributes:
        operator: what was done, with its number in the bug corpus where it has one.
        instruction: the one that was changed, as it was.
        kernel: with the change.
        original: without it.
    """

    operator: str
    instruction: Instruction
    kernel: Kernel
    original: Kernel

    def module(self, original: Module) -> Module:
        """``original`` with this kernel in place of the one of the same name."""
        return replace(original, kernels={**original.kernels, self.kernel.name: self.kernel})

    def place(self) -> int | None:
        """Where the changed instruction is in the body, or the wait whose loop is gone; None if
        there is none any more."""
        own = self.instruction
        if self.operator == UNREPEATED:
            return self.kernel.body.index(own)
        places = [
            at
            for at, one in enumerate(self.kernel.body)
            if (one.line, one.opcode) == (own.line, own.opcode) and one != own
        ]
        return places[-1] if places else None


def mutants(kernel: Kernel) -> Iterator[Mutant]:
    """All mutants of a kernel, one per operator and instruction, in the order of its body."""
    allocates = False
    for at, instruction in enumerate(kernel.body):
        if instruction.opcode == "tcgen05" and instruction.modifiers[0] == "alloc":
            allocates = True
        for operator, changed in _changes(kernel, at, instruction, allocates):
            yield Mutant(operator, instruction, changed, kernel)
        if instruction.opcode in ("bar", "barrier") and allocates:
            allocates = False


def _changes(
    kernel: Kernel, at: int, instruction: Instruction, allocates: bool
) -> Iterator[tuple[str, Kernel]]:
    """Name and result of what can be done to one instruction.

    ``allocates`` says that no barrier stands between it and an allocation of tensor memory.
    """
    of = instruction.opcode, (*instruction.modifiers, "")[0]
    match of:
        case "fence", "proxy":
            yield "M2/M4 proxy fence removed", _without(kernel, at)
            behind = _next_arrival(kernel, at)
            if behind is not None:
                yield "M6 proxy fence behind the barrier", _moved(kernel, at, behind)
        case "fence", "mbarrier_init":
            yield "M5 fence.mbarrier_init removed", _without(kernel, at)
        case "tcgen05", "wait::st":
            yield "M1 wait::st removed", _without(kernel, at)
        case "tcgen05", "wait::ld":
            yield "M3 wait::ld removed", _without(kernel, at)
        case "tcgen05", ("fence::before_thread_sync" | "fence::after_thread_sync") as fence:
            yield f"{fence.partition('_')[0]} removed", _without(kernel, at)
        case "fence" | "membar", _:
            yield "fence removed", _without(kernel, at)
        case "tcgen05", "commit":
            yield "commit removed", _without(kernel, at)
            yield "M12 commit to the next barrier", _next_barrier(kernel, at)
        case "tcgen05", "dealloc":
            yield "dealloc removed", _without(kernel, at)
        case (("bar" | "barrier"), _):
            yield from _barrier(kernel, at, instruction, allocates)
        case "cp" | "clusterlaunchcontrol", _ if _COMPLETES in instruction.modifiers:
            yield "M12 copy tells the next barrier", _next_barrier(kernel, at)
        case "cp", "async" if "commit_group" in instruction.modifiers:
            yield "bulk commit_group removed", _without(kernel, at)
        case "cp", "async" if "wait_group" in instruction.modifiers:
            yield "M8 bulk wait_group removed", _without(kernel, at)
            yield "M8 bulk wait_group of one less", _with_value(kernel, at, "add.s32", 1)
        case "wgmma", "fence":
            yield "wgmma.fence removed", _without(kernel, at)
        case "wgmma", "commit_group":
            yield "wgmma.commit_group removed", _without(kernel, at)
        case "wgmma", "wait_group":
            yield "wgmma.wait_group removed", _without(kernel, at)
            yield "wgmma.wait_group of one less", _with_value(kernel, at, "add.s32", 1)
        case "mbarrier", _:
            yield from _mbarrier(kernel, at, instruction)
        case "griddepcontrol", kind:
            yield f"L1 griddepcontrol.{kind} removed", _without(kernel, at)
        case "setmaxnreg", _:
            yield "M13 setmaxnreg removed", _without(kernel, at)
        case _:
            pass


def _barrier(
    kernel: Kernel, at: int, instruction: Instruction, allocates: bool
) -> Iterator[tuple[str, Kernel]]:
    """Of CTA and cluster barriers."""
    if "cluster" in instruction.modifiers:
        kind = "arrive" if "arrive" in instruction.modifiers else "wait"
        yield f"M7/M19 barrier.cluster.{kind} removed", _without(kernel, at)
        return
    if "arrive" in instruction.modifiers:
        yield "M7 barrier arrive removed", _without(kernel, at)
    if "sync" in instruction.modifiers:
        yield ("M19" if allocates else "M7") + " barrier removed", _without(kernel, at)
        if len(instruction.operands) == 2:
            weaker = tuple("arrive" if m == "sync" else m for m in instruction.modifiers)
            yield (
                "M15 sync made arrive",
                _instead(kernel, at, replace(instruction, modifiers=weaker)),
            )
    if len(instruction.operands) == 2:
        yield "M11 barrier count + 32", _with_value(kernel, at, "add.s32", 32)
        yield "M12 other barrier", _with_value(kernel, at, "xor.b32", 1, operand=0)


def _mbarrier(kernel: Kernel, at: int, instruction: Instruction) -> Iterator[tuple[str, Kernel]]:
    modifiers = instruction.modifiers
    if modifiers[0] == "init":
        yield "M11 init count + 1", _with_value(kernel, at, "add.s32", 1)
        yield "M11 init count - 1", _with_value(kernel, at, "add.s32", -1)
    elif "expect_tx" in modifiers:
        yield (
            f"{'.'.join(modifiers[: modifiers.index('expect_tx') + 1])} removed",
            (_without(kernel, at)),
        )
        yield "M14 twice the bytes", _with_value(kernel, at, "mul.lo.s32", 2)
        yield "M14 half the bytes", _with_value(kernel, at, "shr.u32", 1)
    elif modifiers[0] == "arrive":
        yield "arrive removed", _without(kernel, at)
        yield "M12 arrive on the next barrier", _next_barrier(kernel, at)
    elif modifiers[0] in ("try_wait", "test_wait"):
        done = Instruction(
            "setp", ("eq", "s32"), (instruction.operands[0], Immediate(0), Immediate(0)),
            instruction.line, instruction.guard, instruction.location,
        )  # fmt: skip
        yield "M15 wait removed", _instead(kernel, at, done)
        yield "M12 wait for the next barrier", _next_barrier(kernel, at)
        again = _repeats(kernel, at)
        if again is not None:
            yield UNREPEATED, _without(kernel, again)
        if "parity" in modifiers:
            yield "M10 parity flipped", _with_value(kernel, at, "xor.b32", 1, operand=2)


def _instead(kernel: Kernel, at: int, *instructions: Instruction) -> Kernel:
    """With other instructions at a place; labels there are before all of them."""
    more = len(instructions) - 1
    return replace(
        kernel,
        body=(*kernel.body[:at], *instructions, *kernel.body[at + 1 :]),
        labels={name: to + more * (to > at) for name, to in kernel.labels.items()},
    )


def _without(kernel: Kernel, at: int) -> Kernel:
    return _instead(kernel, at)


def _moved(kernel: Kernel, at: int, behind: int) -> Kernel:
    """With an instruction behind another one further down."""
    inserted = _instead(kernel, behind, kernel.body[behind], kernel.body[at])
    return _without(inserted, at)


def _next_arrival(kernel: Kernel, at: int) -> int | None:
    """The next instruction in the text that tells other threads how far this one is."""
    for place in range(at + 1, len(kernel.body)):
        one = kernel.body[place]
        told = set(_ARRIVALS) & set(one.modifiers) and "warp" not in one.modifiers
        if one.opcode in ("bar", "barrier", "mbarrier") and told:
            return place
    return None


def _repeats(kernel: Kernel, at: int) -> int | None:
    """The branch back to a wait that was not successful, right behind it."""
    for place in range(at + 1, min(at + 1 + _LOOP, len(kernel.body))):
        one = kernel.body[place]
        if one.opcode == "bra" and kernel.labels.get(getattr(one.operands[0], "name", "")) == at:
            return place
    return None


def _next_barrier(kernel: Kernel, at: int) -> Kernel:
    """With the mbarrier, which is the last address, 8 bytes further."""
    instruction = kernel.body[at]
    index = max(n for n, o in enumerate(instruction.operands) if isinstance(o, Address))
    old = instruction.operands[index]
    assert isinstance(old, Address)
    return _instead(kernel, at, _operand(instruction, index, replace(old, offset=old.offset + 8)))


_COMPUTE: dict[str, Callable[[int, int], int]] = {
    "add.s32": lambda a, b: a + b,
    "mul.lo.s32": lambda a, b: a * b,
    "shr.u32": lambda a, b: a >> b,
    "xor.b32": lambda a, b: a ^ b,
}


def _with_value(kernel: Kernel, at: int, how: str, by: int, operand: int = -1) -> Kernel:
    """With an operand, a 32-bit integer, replaced by ``how`` of it and ``by``."""
    instruction = kernel.body[at]
    index = operand % len(instruction.operands)
    old = instruction.operands[index]
    if isinstance(old, Immediate):
        new: Operand = Immediate(_COMPUTE[how](int(old.value), by))
        return _instead(kernel, at, _operand(instruction, index, new))
    opcode, *modifiers = how.split(".")
    computes = Instruction(
        opcode, tuple(modifiers), (Register(_FRESH), old, Immediate(by)),
        instruction.line, None, instruction.location,
    )  # fmt: skip
    declared = replace(kernel, registers={**kernel.registers, _FRESH: "b32"})
    return _instead(declared, at, computes, _operand(instruction, index, Register(_FRESH)))


def _operand(instruction: Instruction, index: int, new: Operand) -> Instruction:
    before, after = instruction.operands[:index], instruction.operands[index + 1 :]
    return replace(instruction, operands=(*before, new, *after))

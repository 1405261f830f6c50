"""Control flow (PTX ISA 9.7.12), and what only changes when a warp goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.instructions.operands import executing
from schedgen.emulator.instructions.table import Environment, Execute, builds, unsupported
from schedgen.emulator.machine.conditions import EXITED, YIELD, Condition
from schedgen.emulator.machine.lanes import Decoder, error
from schedgen.emulator.machine.steps import Control
from schedgen.emulator.machine.warp import NONE, ONES
from schedgen.emulator.native.registers import value_of
from schedgen.emulator.ptx.tree import Immediate, Instruction, Operand, Symbol

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp


def _flags(
    instruction: Instruction, decoder: Decoder
) -> Callable[[Warp], NDArray[np.bool_]] | None:
    """The guard of an instruction as lanes, None when it has none."""
    guard = instruction.guard
    if guard is None:
        return None
    if guard.register not in decoder.slot:
        raise error(instruction, f"register {guard.register} is not declared")
    slot = decoder.slot[guard.register]
    if guard.negated:
        return lambda warp: ~warp.registers[slot]
    return lambda warp: warp.registers[slot]


@builds("bra")
def _bra(instruction: Instruction, decoder: Decoder, environment: Environment) -> Control:
    if extra := set(instruction.modifiers) - {"uni"}:
        raise unsupported(instruction, extra)
    target = environment.label(_name(instruction.operands[0], instruction), instruction)
    flags = _flags(instruction, decoder)
    if flags is None:
        return Control(_jump(target), guarded=True)
    alike = value_of()

    # .uni says that lanes that execute together agree. Which do, is not for a program to know: two
    # parts of a warp may come to a branch one after the other, and meet there here.

    def branch(warp: Warp) -> Condition | None:
        taken = flags(warp)
        bits = taken.tobytes()
        if bits == NONE:
            return
        if warp.full:
            if bits == ONES:
                warp.pc = target
                return
        else:
            taken = taken & warp.active
            bits = taken.tobytes()
            if bits == NONE:
                return
            if bits == warp.active.tobytes():
                warp.pc = target
                return
        warp.diverge(taken, target)

    assert instruction.guard is not None
    slot, negated = decoder.slot[instruction.guard.register], instruction.guard.negated

    def several(warps: Sequence[Warp]) -> bool:
        """All lanes of all warps take it, or none does."""
        value = alike(*[warp.registers[slot] for warp in warps])
        if value is None or value is NotImplemented:
            return False
        if bool(value) is not negated:
            for warp in warps:
                warp.pc = target
        return True

    return Control(branch, guarded=True, several=several)


def _jump(target: int) -> Callable[[Warp], Condition | None]:
    def jump(warp: Warp) -> Condition | None:
        warp.pc = target

    return jump


@builds("brx.idx")
def _brx(instruction: Instruction, decoder: Decoder, environment: Environment) -> Control:
    index = decoder.read(instruction.operands[0], "u32", instruction)
    name = _name(instruction.operands[1], instruction)
    if name not in environment.kernel.tables:
        raise error(instruction, f"there is no .branchtargets list {name}")
    targets = [environment.label(label, instruction) for label in environment.kernel.tables[name]]

    def branch(warp: Warp) -> Condition | None:
        lanes = index(warp)
        wanted: list[int] = sorted(set(executing(warp, lanes).tolist()))
        if wanted[-1] >= len(targets):
            raise error(instruction, f"index {wanted[-1]} of {len(targets)} branch targets")
        for value in wanted[1:]:
            warp.diverge(warp.active & (lanes == value), targets[value])
        warp.pc = targets[wanted[0]]

    return Control(branch)


@builds("ret", "exit")
def _exit(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Control:
    if extra := set(instruction.modifiers) - {"uni"}:
        raise unsupported(instruction, extra)
    flags = _flags(instruction, decoder)

    def leave(warp: Warp) -> Condition | None:
        lanes = warp.active if flags is None else warp.active & flags(warp)
        if lanes.tobytes() == NONE or warp.leave(lanes):
            return None
        return EXITED

    return Control(leave, guarded=True)


@builds("trap")
def _trap(instruction: Instruction, _decoder: Decoder, _environment: Environment) -> Execute:
    def trap(_warp: Warp) -> None:
        raise error(instruction, "the kernel ends itself with a trap")

    return trap


@builds("nanosleep")
def _nanosleep(_instruction: Instruction, _decoder: Decoder, _environment: Environment) -> Control:
    def sleep(_warp: Warp) -> Condition | None:
        return YIELD

    return Control(sleep)


@builds("griddepcontrol")
def _griddepcontrol(
    instruction: Instruction, _decoder: Decoder, _environment: Environment
) -> Execute:
    """Launches run one after the other, so the grids that this one depends on are complete; the
    race checker minds who waited for them.
    """
    if instruction.modifiers not in (("wait",), ("launch_dependents",)):
        raise unsupported(instruction, instruction.modifiers)

    def wait(warp: Warp) -> None:
        if warp.machine.tracking:
            warp.machine.tracker.predecessor_wait(warp.number)

    return wait if instruction.modifiers == ("wait",) else _nothing


@builds("pmevent", "prefetch", "prefetchu", "applypriority", "discard")
def _hint(_instruction: Instruction, _decoder: Decoder, _environment: Environment) -> Execute:
    """What concerns caches and counters only."""
    return _nothing


def _nothing(_warp: Warp) -> None:
    pass


@builds("setmaxnreg")
def _setmaxnreg(instruction: Instruction, _decoder: Decoder, _environment: Environment) -> Control:
    action = instruction.modifiers[0]
    count = instruction.operands[0]
    if action not in ("inc", "dec") or not isinstance(count, Immediate):
        raise unsupported(instruction, instruction.modifiers)
    wanted: Any = count.value

    def run(warp: Warp) -> Condition | None:
        registers = warp.block.registers
        if warp.resumed is None:
            registers.begin(warp, action, wanted, instruction)
        if action == "dec" or registers.take(warp, wanted):
            return None
        return registers.until(warp, wanted)

    return Control(run)


def _name(operand: Operand, where: Instruction) -> str:
    if not isinstance(operand, Symbol):
        raise error(where, f"{operand} is no label")
    return operand.name

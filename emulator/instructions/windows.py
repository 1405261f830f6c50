"""cvta, mapa, getctarank, isspacep and createpolicy (PTX ISA 9.7.9.18 to 9.7.9.24)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from schedgen.emulator.instructions.operands import executing
from schedgen.emulator.instructions.table import Environment, Execute, builds, unsupported
from schedgen.emulator.machine.addresses import (
    CONSTANT_WINDOW,
    LOCAL_WINDOW,
    PARAMETER_WINDOW,
    SHARED_WINDOW,
)
from schedgen.emulator.machine.block import RANK_SHIFT
from schedgen.emulator.machine.lanes import LANES, Decoder, Lanes, error
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

WINDOWS = {
    "shared": SHARED_WINDOW,
    "shared::cta": SHARED_WINDOW,
    "shared::cluster": SHARED_WINDOW,
    "local": LOCAL_WINDOW,
    "global": 0,
    "const": CONSTANT_WINDOW,
    "param": PARAMETER_WINDOW,
    "param::entry": PARAMETER_WINDOW,
}
"""By state space, what its addresses have above their low 32 bits where they are generic."""
_LOW = np.uint64(0xFFFFFFFF)
_HIGH = ~_LOW
_OFFSET = (1 << RANK_SHIFT) - 1


def _in_window(lanes: Lanes, window: int) -> Lanes:
    if window:
        return (lanes & _HIGH) == np.uint64(window)
    return lanes < np.uint64(SHARED_WINDOW)


@builds("cvta")
def _cvta(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    *kind, type_ = instruction.modifiers
    back = kind[:1] == ["to"]
    space = kind[-1]
    if space not in WINDOWS or type_ != "u64" or len(kind) != 1 + back:
        raise unsupported(instruction, instruction.modifiers)
    window = np.uint64(WINDOWS[space])
    read = decoder.read(instruction.operands[1], "u64", instruction)
    write = decoder.write(instruction.operands[0], instruction)
    if not window:
        return lambda warp: write(warp, read(warp))
    if not back:
        return lambda warp: write(warp, (read(warp) & _LOW) | window)

    def run(warp: Warp) -> None:
        lanes = read(warp)
        if not _in_window(executing(warp, lanes), int(window)).all():
            raise error(instruction, f"a generic address is not in .{space}")
        write(warp, lanes & _LOW)

    return run


@builds("isspacep")
def _isspacep(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    space = instruction.modifiers[0]
    if space not in WINDOWS:
        raise unsupported(instruction, (space,))
    read = decoder.read(instruction.operands[1], "u64", instruction)
    write = decoder.write(instruction.operands[0], instruction)
    own = space in ("shared", "shared::cta")

    def run(warp: Warp) -> None:
        lanes = read(warp)
        inside = _in_window(lanes, WINDOWS[space])
        if own:
            inside = inside & ((lanes & _LOW) >> np.uint64(RANK_SHIFT) == warp.block.rank)
        write(warp, inside)

    return run


@builds("mapa")
def _mapa(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    type_ = instruction.modifiers[-1]
    generic = len(instruction.modifiers) == 1
    if instruction.modifiers[:-1] not in ((), ("shared::cluster",)) or type_ not in ("u32", "u64"):
        raise unsupported(instruction, instruction.modifiers)
    read = decoder.read(instruction.operands[1], type_, instruction)
    ranks = decoder.read(instruction.operands[2], "u32", instruction)
    write = decoder.write(instruction.operands[0], instruction)
    kind = np.uint32 if type_ == "u32" else np.uint64
    window = kind(SHARED_WINDOW if generic and type_ == "u64" else 0)

    def run(warp: Warp) -> None:
        # Lanes may hold ranks that the cluster has not, as long as they do not use the address.
        shifted = ranks(warp).astype(kind) << kind(RANK_SHIFT)
        write(warp, (read(warp) & kind(_OFFSET)) | shifted | window)

    return run


@builds("getctarank")
def _getctarank(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    type_ = instruction.modifiers[-1]
    read = decoder.read(instruction.operands[1], type_, instruction)
    write = decoder.write(instruction.operands[0], instruction)

    def run(warp: Warp) -> None:
        lanes = read(warp).astype(np.uint64) & _LOW
        write(warp, (lanes >> np.uint64(RANK_SHIFT)).astype(np.uint32))

    return run


@builds("createpolicy")
def _createpolicy(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    """Cache policies change no result."""
    write = decoder.write(instruction.operands[0], instruction)
    zero = np.zeros(LANES, np.uint64)
    return lambda warp: write(warp, zero)

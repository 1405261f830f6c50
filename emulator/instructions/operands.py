"""What builders of several families read from an instruction: addresses, uniform values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from schedgen.emulator.machine.lanes import (
    LANES,
    Decoder,
    EmulationError,
    Lanes,
    Read,
    error,
    slot_of,
    stored,
)
from schedgen.emulator.native.registers import value_of
from schedgen.emulator.ptx.tree import Address, Instruction, Operand, Register, Symbol, Vector

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

HINTS = frozenset({
    "ca", "cg", "cs", "lu", "cv", "nc", "unified",
    "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last",
    "L1::no_allocate", "L2::evict_normal", "L2::evict_first", "L2::evict_last",
    "L2::cache_hint", "L2::64B", "L2::128B", "L2::256B",
})  # fmt: skip
"""Modifiers about caches, which change no result."""

SCOPES = frozenset({"cta", "cluster", "gpu", "sys"})


def address(operand: Operand, decoder: Decoder, where: Instruction) -> Read:
    """Lanes of the address ``[base+offset]``: uint32 or uint64, as the base is."""
    if not isinstance(operand, Address):
        raise error(where, f"{operand} is no address; write it in brackets")
    match operand.base:
        case None:
            return decoder.read(Symbol("", operand.offset), "b64", where)
        case Symbol(name, offset):
            return decoder.read(Symbol(name, offset + operand.offset), "b64", where)
        case Register(name):
            if name not in decoder.slot:
                raise error(where, f"register {name} is not declared")
            kind = stored(decoder.types[decoder.slot[name]])
            read = decoder.read(operand.base, "b64" if kind is np.uint64 else "b32", where)
            if not operand.offset:
                return read
            mask = np.iinfo(np.uint64 if kind is np.uint64 else np.uint32).max
            offset = (np.uint64 if kind is np.uint64 else np.uint32)(operand.offset & int(mask))
            return lambda warp: read(warp) + offset


def items(operand: Operand) -> tuple[Operand, ...]:
    """The elements of a vector operand, or the operand itself."""
    return operand.items if isinstance(operand, Vector) else (operand,)


def executing(warp: Warp, lanes: Lanes) -> Lanes:
    """The lanes that execute, without the others."""
    return lanes if warp.full else lanes[warp.active]


def spread(warp: Warp, values: Lanes) -> Lanes:
    """(…, executing lanes) as (…, 32), zero in the lanes that do not execute."""
    if warp.full:
        return values
    wide = np.zeros((*values.shape[:-1], LANES), values.dtype)
    wide[..., warp.active] = values
    return wide


def uniform(warp: Warp, lanes: Lanes, what: str, where: Instruction, rule: str = "") -> int:
    """The value that all executing lanes have.

    With the ``rule`` that asks for it, one that is broken may be a finding (`Machine.broken`), and
    the value is that of the first lane: hardware takes it from a uniform register.

    Raises:
        EmulationError: they differ.
    """
    value = _alike(lanes) if warp.full else None
    if value is not None and value is not NotImplemented:
        return int(value)
    lanes = executing(warp, lanes)
    first = lanes.item(0)
    bits = lanes.tobytes()
    if bits != bits[: lanes.itemsize] * lanes.size:
        values = lanes.tolist()
        problem = f"{what} differs between the lanes: {values}"
        if not rule:
            raise error(where, problem)
        warp.machine.broken(where, rule, problem)
    return int(first)


def common(warps: Sequence[Warp], read: Read) -> int | None:
    """The value that all lanes of some warps have; None where they differ, or are not known yet."""
    slot = slot_of(read)
    try:
        if slot >= 0:
            every = [warp.registers[slot] for warp in warps]
        else:
            every = [read(warp) for warp in warps]
    except EmulationError:
        return None  # it will be met again, in the warp whose fault it is
    value = _alike(*every)
    if value is not NotImplemented:
        return None if value is None else int(value)
    if any(type(lanes) is not np.ndarray for lanes in every):
        return None
    first = every[0]
    bits = b"".join([lanes.tobytes() for lanes in every])
    return int(first.item(0)) if bits == bits[: first.itemsize] * (LANES * len(every)) else None


_alike = value_of()


def each_of(warp: Warp, lanes: Lanes) -> list[int]:
    """The values of the executing lanes; of all of them, if these have the same, that once."""
    if warp.full:
        value = _alike(lanes)
        if value is not None and value is not NotImplemented:
            return [int(value)]
    return executing(warp, lanes).tolist()

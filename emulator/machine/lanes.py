"""Registers of a warp, and operands turned into functions that read and write them.

A register holds one numpy array over the 32 lanes, of the unsigned type of its width. Arrays in
registers are never changed in place: a write binds a new array, so that a read needs no copy.
Floating-point and signed operands are views. Types that numpy has not (bf16, tf32, packed pairs)
are read as the bits of their register.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.ptx.tree import Immediate, Instruction, Negated, Operand, Register
from schedgen.errors import SchedgenError

LANES = 32
Lanes = NDArray[Any]
"""(32,) values of one type; (32, 2) uint64 for b128."""

NUMPY: Mapping[str, type[np.generic]] = {
    "pred": np.bool_,
    "b8": np.uint8, "u8": np.uint8, "s8": np.int8,
    "b16": np.uint16, "u16": np.uint16, "s16": np.int16, "f16": np.float16, "bf16": np.uint16,
    "b32": np.uint32, "u32": np.uint32, "s32": np.int32, "f32": np.float32, "tf32": np.uint32,
    "f16x2": np.uint32, "bf16x2": np.uint32, "u16x2": np.uint32, "s16x2": np.uint32,
    "b64": np.uint64, "u64": np.uint64, "s64": np.int64, "f64": np.float64, "f32x2": np.uint64,
}  # fmt: skip
"""PTX type -> type of the lanes that an instruction sees."""

UNSIGNED: Mapping[int, type[np.generic]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
"""Bytes -> type in which a register is kept."""


class EmulationError(SchedgenError):
    """The kernel cannot be executed, or did what the ISA leaves undefined.

    ``aborted`` is what is known of its launch, a `reports.Aborted`.
    """

    aborted: object = None


class DeadlockError(EmulationError):
    """No warp of the kernel can go on, and nothing is under way."""


class EndlessError(EmulationError):
    """The kernel took more than it may, and may loop forever."""


class WarpState(Protocol):
    """What register instructions need of a warp."""

    registers: list[Lanes]
    active: NDArray[np.bool_]
    """(32,) lanes that execute the current instruction."""
    full: bool
    """Whether all 32 do."""
    shared_base: np.uint32
    """Where the shared memory of the CTA begins in the window of the cluster."""

    def special(self, name: str) -> Lanes:
        """Lanes of a special register as ``%tid.x``, uint32 or uint64."""
        ...


_SLOT = "slot"
"""What a function is told that reads a register as it is."""
Read = Callable[[WarpState], Lanes]
Write = Callable[[WarpState, Lanes], None]
Step = Callable[[WarpState], None]


class Decoder:
    """Operands of one kernel. ``names``: register -> type, as `Kernel.registers`.

    ``symbol`` gives the value of a symbol as a source (address of a variable). For variables in
    ``shared`` that is an offset in the shared memory of the CTA that executes.
    """

    def __init__(
        self,
        names: Mapping[str, str],
        symbol: Callable[[str], int],
        shared: Collection[str] = (),
    ) -> None:
        self.slot = {name: number for number, name in enumerate(names)}
        self.types = tuple(names.values())
        self.symbol = symbol
        self.shared = frozenset(shared)
        zeros = {kind: _zeros(kind) for kind in set(self.types)}
        self._zeros = [zeros[kind] for kind in self.types]

    def kept(self, slot: int) -> type[np.generic]:
        """The numpy type in which a register is kept."""
        return stored(self.types[slot])

    def constant(self, operand: Immediate, type_: str, where: Instruction) -> Lanes:
        """Lanes of a literal."""
        return _filled(_bits(operand.value, type_, where))

    def empty(self) -> list[Lanes]:
        """Registers of a new warp: zero."""
        return self._zeros.copy()

    def read(self, operand: Operand, type_: str, where: Instruction) -> Read:
        """Lanes of a source, seen as ``type_``. Narrower than its register: the low bits."""
        seen = NUMPY.get(type_)
        match operand:
            case Immediate(value):
                return _constant(_bits(value, type_, where))
            case Negated(register):
                inner = self.read(register, "pred", where)
                return lambda warp: ~inner(warp)
            case Register(name) if name in self.slot:
                return self._register(name, type_)
            case Register(name):
                return lambda warp: _seen_as(warp.special(name), seen)
            case _ if (name := getattr(operand, "name", None)) is not None:
                value = self.symbol(name) + getattr(operand, "offset", 0)
                constant = _constant(_bits(value, type_, where))
                if name not in self.shared:
                    return constant
                return lambda warp: constant(warp) + warp.shared_base
            case _:
                raise error(where, f"{operand} is no source of type {type_}")

    def _register(self, name: str, type_: str) -> Read:
        slot, held = self.slot[name], self.types[self.slot[name]]
        seen = NUMPY.get(type_)
        if seen is None or stored(held) is seen:

            def plain(warp: WarpState) -> Lanes:
                return warp.registers[slot]

            setattr(plain, _SLOT, slot)
            return plain
        if np.dtype(seen).itemsize == np.dtype(stored(held)).itemsize:
            return lambda warp: warp.registers[slot].view(seen)
        return lambda warp: _seen_as(warp.registers[slot], seen)

    def write(self, operand: Operand, where: Instruction) -> Write:
        """Puts lanes of any type into a register, in the active lanes only.

        Lanes narrower than the register are extended: with their sign if they have one. Wider ones
        lose the high bits.
        """
        if not isinstance(operand, Register):
            raise error(where, f"{operand} is no destination")
        if operand.name == "_":
            return lambda _warp, _values: None
        if operand.name not in self.slot:
            raise error(where, f"register {operand.name} is not declared")
        slot = self.slot[operand.name]
        kept = stored(self.types[slot])
        size = np.dtype(kept).itemsize

        def write(warp: WarpState, values: Lanes) -> None:
            if values.dtype != kept:
                values = values.view(kept) if values.itemsize == size else values.astype(kept)
            if not warp.full:
                mask = warp.active if values.ndim == 1 else warp.active[:, None]
                values = np.where(mask, values, warp.registers[slot])
            warp.registers[slot] = values

        return write


def slot_of(read: Read) -> int:
    """The register that a source is, as it is; -1: it is something else."""
    return getattr(read, _SLOT, -1)


def taking(reads: Sequence[Read]) -> Callable[[WarpState], Sequence[Lanes]]:
    """What gives the lanes of several sources: of registers at once."""
    slots = [slot_of(read) for read in reads]
    if len(slots) > 1 and min(slots) >= 0:
        take = itemgetter(*slots)
        return lambda warp: take(warp.registers)
    return lambda warp: [read(warp) for read in reads]


@cache
def stored(type_: str) -> type[np.generic]:
    """The numpy type in which a register of a PTX type is kept."""
    if type_ == "pred":
        return np.bool_
    if type_ == "b128":
        return np.uint64
    return UNSIGNED[np.dtype(NUMPY[type_]).itemsize]


def _zeros(type_: str) -> Lanes:
    zeros = np.zeros((LANES, 2) if type_ == "b128" else LANES, stored(type_))
    zeros.flags.writeable = False  # many registers share it
    return zeros


def error(where: Instruction, problem: str) -> EmulationError:
    """An error that names the line and the instruction."""
    return EmulationError(f"PTX line {where.line}: {where.name}: {problem}")


def gathered(lanes: Sequence[Lanes]) -> Lanes:
    """Arrays of one type, one behind the other. Bytes are joined several times faster than arrays,
    but only where those of each are in a row."""
    if len(lanes) == 1:
        return lanes[0]
    try:
        return np.frombuffer(bytearray().join(cast("Sequence[bytes]", lanes)), lanes[0].dtype)
    except TypeError:  # strided
        return np.concatenate(lanes)


def _seen_as(lanes: Lanes, seen: type[np.generic] | None) -> Lanes:
    if seen is None or lanes.dtype == seen:
        return lanes
    if lanes.itemsize == np.dtype(seen).itemsize:
        return lanes.view(seen)
    return lanes.astype(UNSIGNED[np.dtype(seen).itemsize]).view(seen)


def _constant(value: np.generic) -> Read:
    lanes = _filled(value)
    return lambda _warp: lanes


def _filled(value: np.generic) -> Lanes:
    """New lanes that all have a value; several times faster than np.full."""
    lanes = np.empty(LANES, value.dtype)
    lanes.fill(value)
    lanes.flags.writeable = False
    return lanes


def _bits(value: int | float, type_: str, where: Instruction) -> Any:
    """A literal in the type in which lanes are seen; integers wrap around."""
    seen: Any = NUMPY.get(type_)
    if seen is None:
        raise error(where, f"a literal of type {type_} is not supported")
    if seen is np.bool_:
        return np.bool_(bool(value))
    if np.dtype(seen).kind == "f":
        return seen(value)
    if isinstance(value, float):
        real: Any = np.float32(value) if np.dtype(seen).itemsize == 4 else np.float64(value)
        return real.view(seen)
    size = np.dtype(seen).itemsize
    return UNSIGNED[size](value & ((1 << (8 * size)) - 1)).view(seen)

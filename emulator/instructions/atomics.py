"""atom and red (PTX ISA 9.7.13.5 and 9.7.13.6).

Lanes of a warp that name one address are served in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from schedgen.emulator.instructions.access import Access, executing_rows
from schedgen.emulator.instructions.memory import access_of, rows_of
from schedgen.emulator.instructions.operands import address, executing, items, spread
from schedgen.emulator.instructions.table import Environment, Execute, builds, unsupported
from schedgen.emulator.layouts.formats import from_float32, to_float32
from schedgen.emulator.machine.addresses import resolver
from schedgen.emulator.machine.lanes import NUMPY, Decoder, Lanes, Read, error
from schedgen.emulator.machine.memory import Flat, Offsets
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

Update = Callable[[Lanes, Lanes, Lanes], Lanes]
"""New value of old value, operand b and operand c (zero where there is none)."""

_BITWISE: dict[str, Update] = {
    "and": lambda a, b, _c: a & b,
    "or": lambda a, b, _c: a | b,
    "xor": lambda a, b, _c: a ^ b,
    "exch": lambda _a, b, _c: b,
    "cas": lambda a, b, c: np.where(a == b, c, a),
}
_NUMERIC: dict[str, Update] = {
    "add": lambda a, b, _c: a + b,
    "min": lambda a, b, _c: np.minimum(a, b),
    "max": lambda a, b, _c: np.maximum(a, b),
    "inc": lambda a, b, _c: np.where(a >= b, 0, a + np.uint32(1)).astype(a.dtype),
    "dec": lambda a, b, _c: np.where((a == 0) | (a > b), b, a - np.uint32(1)).astype(a.dtype),
}
_HALVES = {"f16x2": "f16", "bf16x2": "bf16"}


def _float_min(a: Lanes, b: Lanes, _c: Lanes) -> Lanes:
    return np.fmin(a, b)


def _float_max(a: Lanes, b: Lanes, _c: Lanes) -> Lanes:
    return np.fmax(a, b)


def _flushed(values: Lanes) -> Lanes:
    """float32 with subnormals replaced by zero of the same sign."""
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(0, values), values)


def _half(format_: str, operation: str) -> Update | None:
    """Arithmetic of a 16-bit format, rounded once; on the bits."""
    both: Any = {"add": np.add, "min": np.fmin, "max": np.fmax}.get(operation)
    if both is None:
        return None

    def update(a: Lanes, b: Lanes, _c: Lanes) -> Lanes:
        return from_float32(both(to_float32(a, format_), to_float32(b, format_)), format_)

    return update


def _update(operation: str, type_: str, *, flush: bool) -> tuple[Update, Any] | None:
    """What an operation does, and the numpy type on which it works."""
    if type_ in ("f16", "bf16"):
        half = _half(type_, operation)
        return None if half is None else (half, np.uint16)
    if type_ not in NUMPY:
        return None
    kind = np.dtype(NUMPY[type_])
    if operation in _BITWISE and kind.itemsize in (2, 4, 8):
        return _BITWISE[operation], f"u{kind.itemsize}"
    if operation not in _NUMERIC or type_.startswith("b"):
        return None
    if type_ == "f32" and operation == "add" and flush:
        return (lambda a, b, _c: _flushed(_flushed(a) + _flushed(b))), kind
    if kind.kind == "f" and operation in ("min", "max"):
        return (_float_min if operation == "min" else _float_max), kind
    if operation in ("inc", "dec") and type_ != "u32":
        return None
    return _NUMERIC[operation], kind


@dataclass(frozen=True)
class _Atomic:
    access: Access
    update: Update
    kind: Any
    """numpy type of one element in memory."""
    addresses: Read
    operand: list[Read]
    second: list[Read]

    def run(self, warp: Warp) -> Lanes:
        """Does it. Returns the old values, (count, 32) unsigned."""
        access = self.access
        lanes = executing(warp, self.addresses(warp))
        b = self._rows(warp, self.operand)
        c = self._rows(warp, self.second) if self.second else np.zeros_like(b)
        old = np.empty_like(b)
        for flat, offsets, part in resolver(access.space)(warp, lanes, access.where):
            mine = slice(None) if part is None else part
            old[:, mine] = self._apply(flat, offsets, b[:, mine], c[:, mine])
            access.report(warp, flat, offsets, write=True)
        return spread(warp, old)

    def _rows(self, warp: Warp, reads: list[Read]) -> Lanes:
        """(count, executing lanes) elements; a packed register holds two."""
        rows = executing_rows(warp, rows_of([read(warp) for read in reads]))
        if len(rows) == self.access.count:
            return rows
        low, high = rows.astype(np.uint16), (rows >> np.uint32(16)).astype(np.uint16)
        return np.stack([low, high], axis=1).reshape(self.access.count, -1)

    def _apply(self, flat: Flat, offsets: Offsets, b: Lanes, c: Lanes) -> Lanes:
        if len(set(offsets.tolist())) == len(offsets):
            return self._some(flat, offsets, b, c)
        each = [
            self._some(flat, offsets[at : at + 1], b[:, at : at + 1], c[:, at : at + 1])
            for at in range(len(offsets))
        ]
        return np.concatenate(each, axis=1)

    def _some(self, flat: Flat, offsets: Offsets, b: Lanes, c: Lanes) -> Lanes:
        access = self.access
        old = flat.load(offsets, access.width, access.count, access.where)
        with np.errstate(all="ignore"):
            new = self.update(old.view(self.kind), b.view(self.kind), c.view(self.kind))
        flat.store(offsets, new.view(old.dtype), access.width, access.count, access.where)
        return old


def _build(instruction: Instruction, decoder: Decoder, operands: int) -> _Atomic:
    """``operands``: index of operand b."""
    names = [m for m in instruction.modifiers if m in _BITWISE or m in _NUMERIC]
    if len(names) != 1:
        raise unsupported(instruction, instruction.modifiers)
    access, type_, elements = access_of(instruction, (names[0], "noftz"))
    # Subnormals are flushed in global memory only (PTX ISA 9.7.13.5).
    chosen = _update(names[0], _HALVES.get(type_, type_), flush=access.space in ("", "global"))
    if chosen is None:
        raise unsupported(instruction, instruction.modifiers)
    update, kind = chosen
    packed = type_ in _HALVES
    values = [items(operand) for operand in instruction.operands[operands:]]
    if len(values) <= (names[0] == "cas") or len(values[0]) != elements:
        raise error(instruction, f"{elements} elements need as many sources")
    read_type = "b32" if packed else type_
    reads = [[decoder.read(item, read_type, instruction) for item in vector] for vector in values]
    access = Access(
        instruction,
        access.space,
        width=2 if packed else access.width,
        count=elements * (2 if packed else 1),
        strong=True,
        acquire=bool({"acquire", "acq_rel"} & set(instruction.modifiers)),
        release=bool({"release", "acq_rel"} & set(instruction.modifiers)),
        adds=names[0] == "add",
    )
    addresses = address(instruction.operands[operands - 1], decoder, instruction)
    second = reads[1] if names[0] == "cas" else []
    return _Atomic(access, update, kind, addresses, reads[0], second)


@builds("atom")
def _atom(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    atomic = _build(instruction, decoder, 2)
    writes = [decoder.write(item, instruction) for item in items(instruction.operands[0])]
    packed = atomic.access.count == 2 * len(writes)

    def run(warp: Warp) -> None:
        old = atomic.run(warp)
        if packed:
            old = old[0::2].astype(np.uint32) | old[1::2].astype(np.uint32) << np.uint32(16)
        for write, row in zip(writes, old, strict=True):
            write(warp, row)

    return run


@builds("red")
def _red(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    if instruction.modifiers[:1] == ("async",):
        raise unsupported(instruction, ("async",))
    atomic = _build(instruction, decoder, 1)

    def run(warp: Warp) -> None:
        atomic.run(warp)

    return run

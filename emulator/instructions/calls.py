"""call (PTX ISA 9.7.12.5): only vprintf, the system call behind printf of CUDA and CuTe DSL.

CUDA C++ Programming Guide, formatted output: arguments lie in a buffer, each at a multiple of its
size; what is printed is what the conversions of C's printf make of them. Output goes to standard
output at once, lane by lane.
"""

from __future__ import annotations

import re
import struct
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from schedgen.emulator.instructions.access import Access
from schedgen.emulator.instructions.operands import items
from schedgen.emulator.instructions.table import Environment, Execute, builds
from schedgen.emulator.machine.lanes import LANES, Decoder, error
from schedgen.emulator.ptx.tree import Instruction, Operand, Symbol

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_MOST = 4096
"""Bytes of a format or a string; longer ones are taken to have no end."""
_CONVERSION = re.compile(rb"%([-+ #0]*\d*(?:\.\d+)?)(hh|h|ll|l|z|j|t)?([diouxXcsfFeEgGaAp%])")
_LONG = frozenset((b"l", b"ll", b"z", b"j", b"t"))


@builds("call")
def _call(instruction: Instruction, _decoder: Decoder, environment: Environment) -> Execute:
    names = [one.name for one in instruction.operands if isinstance(one, Symbol)]
    called = ", ".join(names) or "an address"
    if "vprintf" not in names:
        raise error(
            instruction,
            f"call of {called}: calls are not supported; let the compiler inline the function. "
            "Supporting them needs a stack of registers and return addresses for each group of "
            "lanes",
        )
    match instruction.operands:
        case (result, _, arguments):
            where = [_offset(one, instruction, environment) for one in items(arguments)]
            back = [_offset(one, instruction, environment) for one in items(result)]
        case _:
            where, back = [], []
    if len(where) != 2 or len(back) > 1:
        raise error(instruction, "vprintf takes a format and a buffer, and returns one number")

    def run(warp: Warp) -> None:
        text, buffer = (_values(warp, instruction, offset) for offset in where)
        counts = np.zeros(LANES, np.uint32)
        for lane in np.flatnonzero(warp.active).tolist():
            printed, counts[lane] = _formatted(
                _Reader(warp, instruction, lane), int(text[lane]), int(buffer[lane])
            )
            sys.stdout.write(printed)
        if back:
            addresses = np.full(LANES, back[0], np.uint64)
            Access(instruction, "local", 4, 1).store(warp, addresses, counts[None])

    return run


def _offset(operand: Operand, where: Instruction, environment: Environment) -> int:
    """Where a .param variable of the caller lies in local memory."""
    if not isinstance(operand, Symbol) or operand.name not in environment.scratch:
        raise error(where, f"{operand} is no .param variable of the caller")
    return environment.symbols[operand.name]


def _values(warp: Warp, where: Instruction, offset: int) -> Any:
    """(32,) 64-bit values of a .param variable."""
    return Access(where, "local", 8, 1).load(warp, np.full(LANES, offset, np.uint64))[0]


class _Reader:
    """What one lane reads at generic addresses."""

    def __init__(self, warp: Warp, where: Instruction, lane: int) -> None:
        self._warp = warp
        self._where = where
        self._active = np.arange(LANES) == lane

    def load(self, address: int, size: int) -> bytes:
        """The ``size`` bytes at an address that is a multiple of it."""
        warp = self._warp
        full, active = warp.full, warp.active
        warp.full, warp.active = False, self._active
        try:
            found = Access(self._where, "", size, 1).fetch(warp, np.array([address], np.uint64))
        finally:
            warp.full, warp.active = full, active
        return found.tobytes()

    def text(self, address: int) -> bytes:
        """A string of C."""
        found = bytearray()
        while len(found) < _MOST:
            if (byte := self.load(address + len(found), 1)) == b"\0":
                return bytes(found)
            found += byte
        raise error(self._where, f"a string of printf has no end within {_MOST} bytes")


def _formatted(reader: _Reader, format_: int, buffer: int) -> tuple[str, int]:
    """What one lane prints, and how many arguments that took."""
    text = reader.text(format_)
    parts: list[str] = []
    at, offset, count = 0, 0, 0
    for match in _CONVERSION.finditer(text):
        parts.append(text[at : match.start()].decode("utf-8", "replace"))
        at = match.end()
        flags, length, kind = match.groups()
        if kind == b"%":
            parts.append("%")
            continue
        size = 8 if length in _LONG or kind in b"sfFeEgGaAp" else 4
        offset = -(-offset // size) * size
        raw = reader.load(buffer + offset, size)
        offset, count = offset + size, count + 1
        parts.append(_converted(reader, flags.decode(), kind.decode(), raw))
    parts.append(text[at:].decode("utf-8", "replace"))
    return "".join(parts), count


def _converted(reader: _Reader, flags: str, kind: str, raw: bytes) -> str:
    """One argument in the words of C's printf."""
    unsigned = int.from_bytes(raw, "little")
    match kind:
        case "d" | "i":
            return f"%{flags}d" % int.from_bytes(raw, "little", signed=True)
        case "u":
            return f"%{flags}d" % unsigned
        case "c":
            return f"%{flags}c" % chr(unsigned & 0xFF)
        case "s":
            return f"%{flags}s" % reader.text(unsigned).decode("utf-8", "replace")
        case "p":
            return f"%{flags}s" % hex(unsigned)
        case "a" | "A":
            (value,) = struct.unpack("<d", raw)
            return f"%{flags}s" % float.hex(value)
        case "f" | "F" | "e" | "E" | "g" | "G":
            (value,) = struct.unpack("<d", raw)
            return f"%{flags}{kind}" % value
        case _:
            return f"%{flags}{kind}" % unsigned

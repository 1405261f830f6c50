"""What the assembler says about a kernel in its cubin: registers, local memory, and how it waits
for Hopper's products.

A cubin is an ELF file (ELF-64 specification). Its section ``.nv.info`` lists attributes as a format
byte, a kind, a 16-bit size and that many bytes, with four of value in the header if the format is
not the one for sized values; of those used here, the value is the symbol's number and a 32-bit
number. Kinds and formats were found by comparing cubins with what ``ptxas -v`` prints, those of
instructions, which have 16 bytes, by comparing with what nvdisasm prints (CUDA 13.0).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from schedgen.codegen.errors import EmitError

_SIZED = 4
_REGISTERS, _FRAME = 0x2F, 0x11
_OPCODE, _WARPGROUP, _WAIT_GROUP = 0xFFF, 0x9C5, 1 << 47
"""Bits that tell instructions apart; WARPGROUP.ARRIVE or, with the bit, WARPGROUP.DEPBAR."""
_PRODUCTS = (0x9F0, 0xDF0, 0x9F3, 0xDF3)
"""HGMMA with A in shared memory, and with A in registers; QGMMA, of 8 bits, as well."""
_LOCAL = (0x387, 0x983)
"""STL and LDL, to and from local memory."""
_BUDGET, _REGISTERS_AT = 0x9C8, 32
"""USETMAXREG, and the bit where its eight bits of a number of registers begin."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Of a kernel, for each thread.

    Attributes:
        registers: what a thread begins with; warpgroups may exchange them later.
        local_bytes: the largest stack frame: where registers are spilled to, and arrays that are
            indexed at run time.
    """

    registers: int
    local_bytes: int


def read_resources(path: Path) -> Resources:
    """Resources of the only kernel in a cubin. Raises EmitError if there is no such kernel."""
    data = path.read_bytes()
    try:
        found = list(_attributes(_section(data, b".nv.info")))
    except (struct.error, StopIteration, ValueError):
        raise EmitError(f"{path}: this is no cubin") from None
    registers = [number for kind, number in found if kind == _REGISTERS]
    frames = [number for kind, number in found if kind == _FRAME]
    if len(registers) != 1:
        raise EmitError(f"{path}: there are {len(registers)} kernels in this cubin, not one")
    return Resources(registers[0], max(frames, default=0))


def products_and_wait_groups(path: Path) -> tuple[int, int]:
    """Instructions of the kernel in a cubin for Hopper that multiply, and that wait for products.

    A multiplies from shared memory or from registers. The assembler closes a group without products
    by one of nothing, which is counted, too.

    Raises EmitError if there is no kernel in it.
    """
    words = _instructions(path)
    products = sum(word & _OPCODE in _PRODUCTS for word in words)
    return products, sum(
        word & _OPCODE == _WARPGROUP and bool(word & _WAIT_GROUP) for word in words
    )


def budgets_that_spill(path: Path) -> frozenset[int]:
    """Of the kernel in a cubin, the registers that warpgroups took (``setmaxnreg``) behind which it
    accesses local memory; 0 where none were taken. The assembler writes the code of a warpgroup in
    one piece, behind that instruction.

    Raises EmitError if there is no kernel in it.
    """
    found: set[int] = set()
    budget = 0
    for word in _instructions(path):
        opcode = word & _OPCODE
        if opcode == _BUDGET:
            budget = word >> _REGISTERS_AT & 0xFF
        elif opcode in _LOCAL:
            found.add(budget)
    return frozenset(found)


def _instructions(path: Path) -> list[int]:
    """The lower halves of a kernel's instructions. Raises EmitError if there is no kernel."""
    try:
        code = _section(path.read_bytes(), b".text.", beginning=True)
    except (struct.error, StopIteration, ValueError):
        raise EmitError(f"{path}: this is no cubin") from None
    return [word for word, _ in struct.iter_unpack("<QQ", code)]


def _section(data: bytes, name: bytes, *, beginning: bool = False) -> bytes:
    if data[:4] != b"\x7fELF":
        raise ValueError
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, table + n * size) for n in range(count)]
    names = headers[names_at][4]

    def named(header: tuple[int, ...]) -> bool:
        start = names + header[0]
        found = data[start : data.index(b"\0", start)]
        return found.startswith(name) if beginning else found == name

    header = next(header for header in headers if named(header))
    return data[header[4] : header[4] + header[5]]


def _attributes(section: bytes) -> Iterator[tuple[int, int]]:
    """Kind and number of each attribute that says a number about a symbol."""
    at = 0
    while at < len(section):
        form, kind, size = struct.unpack_from("<BBH", section, at)
        at += 4
        if form == _SIZED:
            if size == 8:
                yield kind, struct.unpack_from("<II", section, at)[1]
            at += size

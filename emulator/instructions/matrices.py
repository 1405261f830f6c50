"""ldmatrix and stmatrix (PTX ISA 9.7.14.5.15 and 9.7.14.5.16).

Lanes hold the addresses of rows of 16 bytes. Which bytes of which rows make up the register of a
lane is a table per shape. The ISA shows those of 8-bit elements in figures only. They are taken
from the layouts of CuTe DSL's copy atoms, ``layout_dst_tv`` of ``LdMatrix16x16x8bOp`` and
``LdMatrix8x16x8bOp`` and ``layout_src_tv`` of ``StMatrix16x8x8bOp``. CUTLASS agrees:
``include/cute/atom/copy_traits_sm100.hpp``, where the traits ``SM100_U8x8_LDSM_T`` and
``SM100_U8x16_LDSM_T`` describe registers *after* an exchange of bytes that ``copy_sm100.hpp``
beside it makes behind the instruction.

Elements of 4 and 6 bits become bytes with zeros above them: CUTLASS shifts those of 4 bits left by
two before the products that want them there (``fp4_shift_A``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.instructions.access import Access, Several
from schedgen.emulator.instructions.memory import rows_of
from schedgen.emulator.instructions.operands import address, items
from schedgen.emulator.instructions.table import Environment, Execute, builds, unsupported
from schedgen.emulator.machine.addresses import spaces
from schedgen.emulator.machine.lanes import (
    LANES,
    UNSIGNED,
    Decoder,
    EmulationError,
    Lanes,
    Read,
    error,
    gathered,
    taking,
)
from schedgen.emulator.machine.steps import SideBySide
from schedgen.emulator.ptx.tree import Instruction, Operand

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_ROW_BYTES = 16
_COUNTS = {"x1": 1, "x2": 2, "x4": 4}
_PACKED = {"b4x16_p64": 4, "b6x16_p32": 6}
"""Bits of an element: 16 of them stand in front of the padding of a row."""
_T = np.arange(LANES)[:, None]
_B = np.arange(4)
"""Byte of a register."""


@dataclass(frozen=True, eq=False)
class _Layout:
    """``row`` and ``column`` (registers, 32, 4): where each byte of each lane's register lies.

    The row is the number of the lane that has its address; the first ``rows`` lanes have one.
    ``bits`` is what an element has in shared memory: 8, or less where it becomes a byte.
    """

    row: NDArray[Any]
    column: NDArray[Any]
    rows: int
    bits: int = 8

    @cached_property
    def together(self) -> int:
        """How many bytes of a register lie side by side in one row: 4, 2 or 1."""
        for size in (4, 2):
            row, column = (each.reshape(-1, size) for each in (self.row, self.column))
            beside = (column == column[:, :1] + np.arange(size)).all()
            if beside and (row == row[:, :1]).all() and not (column[:, 0] % size).any():
                return size
        return 1

    def elements(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """(registers, 32, n) numbers of elements of `together` bytes in a memory in which the rows
        begin at these offsets."""
        size = self.together
        row, column = self.row[..., ::size], self.column[..., ::size]
        return (offsets[row] + column) // size

    def elements_of(self, found: Several) -> NDArray[np.int64]:
        """(warps, registers, 32, n) of them for rows of several warps."""

        def elements(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.stack([self.elements(one) for one in offsets.reshape(count, -1)])

        count = len(found.cells)
        return found.spot.index((self, count), elements)


def _halves(number: int, *, transposed: bool) -> _Layout:
    """m8n8.b16: lane t holds elements 2(t%4), 2(t%4)+1 of row t/4; transposed, of column t/4."""
    matrix = 8 * np.arange(number)[:, None, None]
    if transposed:
        row, column = matrix + 2 * (_T % 4) + _B // 2, 2 * (_T // 4) + _B % 2
    else:
        row, column = matrix + _T // 4 + 0 * _B, 4 * (_T % 4) + _B
    return _Layout(row, np.broadcast_to(column, row.shape), 8 * number)


def _stored_bytes(number: int) -> _Layout:
    """stmatrix m16n8.trans.b8: byte e of lane t is row t/4 + 8(e/2) of column 2(t%4) + e%2."""
    row = 8 * np.arange(number)[:, None, None] + 2 * (_T % 4) + _B % 2
    return _Layout(row, np.broadcast_to(_T // 4 + 8 * (_B // 2), row.shape), 8 * number)


def _transposed_bytes(number: int, bits: int) -> _Layout:
    """ldmatrix m16n16.trans: register r of a matrix is rows 4(t%4) to +3 of column t/4 + 8r."""
    register = np.arange(2 * number)[:, None, None]
    row = 16 * (register // 2) + 4 * (_T % 4) + _B
    column = np.broadcast_to(_T // 4 + 8 * (register % 2), row.shape)
    return _Layout(row, column, 16 * number, bits)


def _unpacked_rows(number: int, bits: int) -> _Layout:
    """ldmatrix m8n16: lane t holds elements 4(t%4) to +3 of row t/4."""
    row = 8 * np.arange(number)[:, None, None] + _T // 4 + 0 * _B
    return _Layout(row, np.broadcast_to(4 * (_T % 4) + _B, row.shape), 8 * number, bits)


@lru_cache(maxsize=64)
def _layout(opcode: str, kind: tuple[str, ...], number: int) -> _Layout | None:
    """The layout of a form, None if there is no such form; ``kind`` is its shape and types."""
    if not number:
        return None
    match opcode, *kind:
        case _, "m8n8", "b16":
            return _halves(number, transposed=False)
        case _, "m8n8", "trans", "b16":
            return _halves(number, transposed=True)
        case "stmatrix", "m16n8", "trans", "b8":
            return _stored_bytes(number)
        case "ldmatrix", "m16n16", "trans", "b8" if number < 4:
            return _transposed_bytes(number, 8)
        case "ldmatrix", "m16n16", "trans", "b8x16", packed if number < 4 and packed in _PACKED:
            return _transposed_bytes(number, _PACKED[packed])
        case "ldmatrix", "m8n16", "b8x16", packed if packed in _PACKED:
            return _unpacked_rows(number, _PACKED[packed])
        case _:
            return None


def _form(instruction: Instruction, vector: Operand) -> tuple[Access, _Layout]:
    """Access of one row, and the layout of the registers.

    Raises:
        EmulationError: unknown modifiers, or a wrong number of registers.
    """
    modifiers = instruction.modifiers
    space = spaces(modifiers)
    number = next((_COUNTS[m] for m in modifiers if m in _COUNTS), 0)
    kind = tuple(m for m in modifiers if m not in ("sync", "aligned", space, *_COUNTS))
    layout = _layout(instruction.opcode, kind, number)
    if layout is None:
        raise unsupported(instruction, modifiers)
    if len(items(vector)) != len(layout.row):
        raise error(instruction, f"{len(items(vector))} registers; it takes {len(layout.row)}")
    return Access(instruction, space, width=1, count=_ROW_BYTES), layout


def _unpacked(matrices: NDArray[Any], bits: int) -> NDArray[Any]:
    """(16 bytes, rows) with elements of ``bits`` bits as (16 elements, rows) bytes."""
    if bits == 8:
        return matrices
    packed = np.unpackbits(matrices[: 2 * bits], axis=0, bitorder="little")
    elements = packed.reshape(_ROW_BYTES, bits, -1)
    return np.packbits(elements, axis=1, bitorder="little")[:, 0]


def _rows(warp: Warp, lanes: Lanes, layout: _Layout, where: Instruction) -> Lanes:
    if not warp.full:
        raise error(where, "lanes of the warp have exited")
    return lanes[: layout.rows]


@builds("ldmatrix")
def _ldmatrix(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    vector = instruction.operands[0]
    access, layout = _form(instruction, vector)
    writes = [decoder.write(item, instruction) for item in items(vector)]
    addresses = address(instruction.operands[1], decoder, instruction)
    first: Read = lambda warp: addresses(warp)[: layout.rows]  # noqa: E731

    def run(warp: Warp) -> None:
        rows = _rows(warp, addresses(warp), layout, instruction)
        known = access.single(warp, rows) if layout.bits == 8 else None
        if known is not None:
            flat, spot = known
            index = spot.index(layout, layout.elements)
            for write, lanes in zip(writes, flat.views[layout.together][index], strict=True):
                write(warp, lanes.view(np.uint32)[:, 0])
            access.report(warp, flat, spot.offsets, write=False)
            return
        fetched = access.fetch(warp, rows)
        matrices = _unpacked(fetched, layout.bits)
        registers = matrices[layout.column, layout.row].view(np.uint32)[..., 0]
        for write, lanes in zip(writes, registers, strict=True):
            write(warp, lanes)

    def several(warps: Sequence[Warp]) -> bool:
        if layout.bits != 8:
            return False
        found = access.several(warps, first, write=False)
        if found is None:
            return False
        every = found.flat.views[layout.together][layout.elements_of(found)]
        for warp, registers in zip(warps, every.view(np.uint32)[..., 0], strict=True):
            for write, lanes in zip(writes, registers, strict=True):
                write(warp, lanes)
        access.report_several(warps, write=False)
        return True

    return SideBySide(run, several)


@builds("stmatrix")
def _stmatrix(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    vector = instruction.operands[1]
    access, layout = _form(instruction, vector)
    count = len(items(vector))
    reads = taking([decoder.read(item, "b32", instruction) for item in items(vector)])
    addresses = address(instruction.operands[0], decoder, instruction)
    first: Read = lambda warp: addresses(warp)[: layout.rows]  # noqa: E731
    kind = UNSIGNED[layout.together]

    def run(warp: Warp) -> None:
        rows = _rows(warp, addresses(warp), layout, instruction)
        registers = np.ascontiguousarray(rows_of(reads(warp)))
        known = access.single(warp, rows)
        if known is not None and known[1].different:
            flat, spot = known
            index, view = spot.index(layout, layout.elements), flat.views[layout.together]
            values = registers[..., None].view(kind)
            found = flat.finds(index, values, layout.together) if warp.machine.tracking else None
            view[index] = values
            access.report(warp, flat, spot.offsets, write=True, found=found)
            return
        matrices = np.empty((_ROW_BYTES, layout.rows), np.uint8)
        matrices[layout.column, layout.row] = registers.view(np.uint8).reshape(layout.row.shape)
        access.put(warp, rows, matrices)

    def several(warps: Sequence[Warp]) -> bool:
        try:
            registers = gathered([rows_of(reads(warp)) for warp in warps])
        except EmulationError:
            return False  # it will be met again, in the warp whose fault it is
        found = access.several(warps, first, write=True)
        if found is None:
            return False
        values = registers.reshape(len(warps), count, -1, 1).view(kind)
        access.put_several(warps, found, layout.together, layout.elements_of(found), values)
        return True

    return SideBySide(run, several)

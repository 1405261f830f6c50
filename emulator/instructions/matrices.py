"""ldmatrix and stmatrix (PTX ISA 9.7.14.5.15 and 9.7.14.5.16).

Lanes hold the addresses of rows of 16 bytes. Which bytes of which rows make up the register of a
lane is a table per shape. The ISA shows those of 8-bit elements in figures only; they are taken
from ``SM100_U8x8_LDSM_T``, ``SM100_U8x16_LDSM_T`` and ``SM100_U8x4_STSM_T`` to
``SM100_U8x16_STSM_T`` in CUTLASS ``include/cute/atom/copy_traits_sm100.hpp``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.instructions.access import Access
from schedgen.emulator.instructions.memory import rows_of
from schedgen.emulator.instructions.operands import address, items
from schedgen.emulator.instructions.table import Environment, Execute, builds, unsupported
from schedgen.emulator.machine.addresses import spaces
from schedgen.emulator.machine.lanes import LANES, Decoder, Lanes, error
from schedgen.emulator.ptx.tree import Instruction, Operand

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_ROW_BYTES = 16
_COUNTS = {"x1": 1, "x2": 2, "x4": 4}
_T = np.arange(LANES)[:, None]
_B = np.arange(4)
"""Byte of a register."""


@dataclass(frozen=True)
class _Layout:
    """``row`` and ``column`` (registers, 32, 4): where each byte of each lane's register lies.

    The row is the number of the lane that has its address; the first ``rows`` lanes have one.
    """

    row: NDArray[Any]
    column: NDArray[Any]
    rows: int


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


def _loaded_bytes(number: int) -> _Layout:
    """ldmatrix m16n16.trans.b8: two registers per matrix; rows alternate between them."""
    register = np.arange(2 * number)[:, None, None]
    row = _B % 2 + 2 * (register % 2) + 4 * (_T % 4) + 16 * (register // 2)
    return _Layout(row, np.broadcast_to(_T // 4 + 8 * (_B // 2), row.shape), 16 * number)


def _form(instruction: Instruction, vector: Operand) -> tuple[Access, _Layout]:
    """Access of one row, and the layout of the registers.

    Raises:
        EmulationError: unknown modifiers, or a wrong number of registers.
    """
    modifiers = instruction.modifiers
    space = spaces(modifiers)
    number = next((_COUNTS[m] for m in modifiers if m in _COUNTS), 0)
    kind = tuple(m for m in modifiers if m not in ("sync", "aligned", space, *_COUNTS))
    layout: _Layout | None = None
    if kind in (("m8n8", "b16"), ("m8n8", "trans", "b16")):
        layout = _halves(number, transposed="trans" in kind)
    elif kind == ("m16n8", "trans", "b8") and instruction.opcode == "stmatrix":
        layout = _stored_bytes(number)
    elif kind == ("m16n16", "trans", "b8") and instruction.opcode == "ldmatrix" and number < 4:
        layout = _loaded_bytes(number)
    if layout is None or not number:
        raise unsupported(instruction, modifiers)
    if len(items(vector)) != len(layout.row):
        raise error(instruction, f"{len(items(vector))} registers; it takes {len(layout.row)}")
    return Access(instruction, space, width=1, count=_ROW_BYTES), layout


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

    def run(warp: Warp) -> None:
        matrices = access.fetch(warp, _rows(warp, addresses(warp), layout, instruction))
        registers = matrices[layout.column, layout.row].view(np.uint32)[..., 0]
        for write, lanes in zip(writes, registers, strict=True):
            write(warp, lanes)

    return run


@builds("stmatrix")
def _stmatrix(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    vector = instruction.operands[1]
    access, layout = _form(instruction, vector)
    reads = [decoder.read(item, "b32", instruction) for item in items(vector)]
    addresses = address(instruction.operands[0], decoder, instruction)

    def run(warp: Warp) -> None:
        rows = _rows(warp, addresses(warp), layout, instruction)
        registers = np.ascontiguousarray(rows_of(warp, reads))
        matrices = np.empty((_ROW_BYTES, layout.rows), np.uint8)
        matrices[layout.column, layout.row] = registers.view(np.uint8).reshape(layout.row.shape)
        access.put(warp, rows, matrices)

    return run

"""ldmatrix and stmatrix (PTX ISA 9.7.14.5.15 and 9.7.14.5.16) of 8x8 matrices of 16-bit elements.

Lanes 8i to 8i+7 hold the addresses of the rows of matrix i. Lane t holds elements 2(t%4) and
2(t%4)+1 of row t/4, or with ``.trans`` those of column t/4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

_COUNTS = {"x1": 1, "x2": 2, "x4": 4}
_T = np.arange(LANES)
_ROW = _T // 4
_PAIR = 2 * (_T % 4)


def _form(instruction: Instruction, vector: Operand) -> tuple[Access, bool, int]:
    """Access of one row of 16 bytes, whether transposed, number of matrices."""
    modifiers = instruction.modifiers
    space = spaces(modifiers)
    number = next((_COUNTS[m] for m in modifiers if m in _COUNTS), 0)
    left = set(modifiers) - {"sync", "aligned", "m8n8", "b16", "trans", space} - _COUNTS.keys()
    if left or not {"m8n8", "b16"} <= set(modifiers):
        raise unsupported(instruction, left or modifiers)
    if len(items(vector)) != number:
        raise error(instruction, f"{len(items(vector))} registers for {number} matrices")
    return Access(instruction, space, width=2, count=8), "trans" in modifiers, number


def _addresses(warp: Warp, lanes: Lanes, number: int, where: Instruction) -> Lanes:
    if not warp.full:
        raise error(where, "lanes of the warp have exited")
    return lanes[: 8 * number]


def _indices(transposed: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Column and row of the lower half of each lane's register; the upper half comes next."""
    return (_ROW, _PAIR) if transposed else (_PAIR, _ROW)


@builds("ldmatrix")
def _ldmatrix(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    vector = instruction.operands[0]
    access, transposed, number = _form(instruction, vector)
    writes = [decoder.write(item, instruction) for item in items(vector)]
    addresses = address(instruction.operands[1], decoder, instruction)
    column, row = _indices(transposed)
    next_column, next_row = (column, row + 1) if transposed else (column + 1, row)

    def run(warp: Warp) -> None:
        rows = _addresses(warp, addresses(warp), number, instruction)
        matrices = access.fetch(warp, rows).astype(np.uint32)
        for index, write in enumerate(writes):
            low = matrices[column, row + 8 * index]
            high = matrices[next_column, next_row + 8 * index]
            write(warp, low | high << np.uint32(16))

    return run


@builds("stmatrix")
def _stmatrix(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    vector = instruction.operands[1]
    access, transposed, number = _form(instruction, vector)
    reads = [decoder.read(item, "b32", instruction) for item in items(vector)]
    addresses = address(instruction.operands[0], decoder, instruction)
    column, row = _indices(transposed)
    next_column, next_row = (column, row + 1) if transposed else (column + 1, row)

    def run(warp: Warp) -> None:
        rows = _addresses(warp, addresses(warp), number, instruction)
        registers = rows_of(warp, reads)
        matrices = np.empty((8, 8 * number), np.uint16)
        for index in range(number):
            matrices[column, row + 8 * index] = registers[index]
            matrices[next_column, next_row + 8 * index] = registers[index] >> np.uint32(16)
        access.put(warp, rows, matrices)

    return run

"""tcgen05.cp from shared to tensor memory (PTX ISA 9.7.16.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from schedgen.emulator.instructions.forms import Form
from schedgen.emulator.instructions.in_flight import flight
from schedgen.emulator.instructions.operands import address
from schedgen.emulator.instructions.table import Environment, Execute, builds
from schedgen.emulator.instructions.tcgen05_operands import Claim, blocks_of, group_of
from schedgen.emulator.instructions.tma_operands import chunks_of, lanes_of
from schedgen.emulator.layouts.descriptors import MatrixDescriptor, chunks, decode_tcgen05, touched
from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.layouts.products import holders
from schedgen.emulator.layouts.tensor_memory import COLUMNS, COPIES, LANES, Copy
from schedgen.emulator.machine.block import Block
from schedgen.emulator.machine.lanes import Decoder, error
from schedgen.emulator.machine.steps import WarpOperation
from schedgen.emulator.order.tracker import Cells, Queue, Space
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_SHAPES = tuple(dict.fromkeys(shape for shape, _ in COPIES))
_MULTICASTS = tuple(dict.fromkeys(multicast for _, multicast in COPIES if multicast))
_CELL = 32
"""Bits."""
_PACKED = {"b4x16_p64": 4, "b6x16_p32": 6}
"""Formats of what is decompressed -> bits of an element."""


class _Move(WarpOperation):
    """One copy in one CTA or in both of a pair, each from its own shared memory."""

    __slots__ = ("_claims", "_copy", "_lane_column", "_matrix", "_packed", "_where")

    def __init__(
        self,
        warp: Warp,
        where: Instruction,
        copy: Copy,
        matrix: MatrixDescriptor,
        lane_column: tuple[int, int],
        claims: list[tuple[Block, Claim]],
        packed: int,
    ) -> None:
        super().__init__(warp, "tcgen05.cp", where.line, Queue.MMA)
        self._where = where
        self._copy = copy
        self._matrix = matrix
        self._lane_column = lane_column
        self._claims = claims
        self._packed = packed

    def execute(self) -> None:
        copy, matrix, machine = self._copy, self._matrix, self.warp.machine
        lane, column = self._lane_column
        width = copy.bits // _CELL
        places = chunks(matrix, copy.rows, copy.bits // 8, 8, k_major=True)
        for block, claim in self._claims:
            claim.check(self._where)
            found = chunks_of(block)[places]
            words = (holders(found, self._packed) if self._packed else found).view(np.uint32)
            memory = block.tensor.cells
            for lanes in copy.lanes:
                rows = np.array(lanes, np.int64) + lane
                memory[rows, column : column + width] = words
            if machine.tracking:
                index = touched(matrix, copy.rows, copy.bits // 8, 8, k_major=True)
                source = Cells(Space.SHARED, block.number, index, 16)
                machine.tracker.access(self.handle, source, write=False)
                every = np.array(copy.lanes, np.int64).reshape(-1) + lane
                target = Cells(Space.TENSOR, block.number, every * COLUMNS + column, width)
                machine.tracker.access(self.handle, target, write=True)


@builds("tcgen05.cp")
def _cp(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    form = Form(instruction, decoder, environment)
    group = group_of(form)
    form.choose("cp")
    wide = form.choose(*_PACKED) if form.flag("b8x16") else ""
    shape = form.choose(*_SHAPES)
    multicast = form.choose(*_MULTICASTS, default="")
    form.finish(2)
    if (shape, multicast) not in COPIES:
        wanted = " or ".join(f".{m}" if m else "none" for s, m in COPIES if s == shape)
        raise form.error(f".{shape} needs a multicast of {wanted}")
    copy = COPIES[shape, multicast]
    targets = address(form.operands[0], decoder, instruction)
    sources = form.source(form.operands[1], "b64")

    def run(warp: Warp) -> None:
        blocks = blocks_of(warp, group, instruction)
        target, source = targets(warp), sources(warp)
        for lane in lanes_of(warp):
            taddr = int(target[lane])
            matrix = _source(int(source[lane]), copy, warp, instruction)
            first, column = taddr >> 16, taddr & 0xFFFF
            if first + max(map(max, copy.lanes)) >= LANES:
                raise error(instruction, f".{shape} cannot begin in lane {first} of tensor memory")
            width = copy.bits // _CELL
            claims = [
                (block, Claim(block, column, width, "tcgen05.cp", instruction)) for block in blocks
            ]
            packed = _PACKED.get(wide, 0)
            move = _Move(warp, instruction, copy, matrix, (first, column), claims, packed)
            flight(warp).products += 1
            warp.machine.operations.issue(move, warp.block.products)

    return run


def _source(value: int, copy: Copy, warp: Warp, where: Instruction) -> MatrixDescriptor:
    """The descriptor of the source, whose matrix must lie in shared memory."""
    try:
        matrix = decode_tcgen05(value)
        last = int(touched(matrix, copy.rows, copy.bits // 8, 8, k_major=True)[-1])
    except LayoutError as problem:
        raise error(where, str(problem)) from None
    if last + 16 > warp.block.shared.size:
        raise error(
            where,
            f"the source ends at shared-memory address {last + 16:#x}, beyond the "
            f"{warp.block.shared.size:#x} bytes of the CTA",
        )
    return matrix

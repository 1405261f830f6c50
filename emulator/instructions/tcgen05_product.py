"""One tcgen05.mma while it is under way: what it reads, computes and writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.instructions.tcgen05_operands import Claim
from schedgen.emulator.instructions.tma_operands import chunks_of
from schedgen.emulator.layouts.descriptors import Matrix
from schedgen.emulator.layouts.product_descriptor import ProductDescriptor
from schedgen.emulator.layouts.products import (
    accumulate,
    block_scaled,
    held,
    multiply,
    operand_at,
    values,
)
from schedgen.emulator.layouts.tensor_memory import (
    COLUMNS,
    DataPath,
    from_window,
    scale_cells,
    to_window,
    window,
)
from schedgen.emulator.machine.block import Block
from schedgen.emulator.machine.steps import WarpOperation
from schedgen.emulator.order.tracker import Cells, Queue, Space
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

# Python 3.11 takes as long to find a member in its enumeration as for several calls.
_SHARED, _TENSOR = Space.SHARED, Space.TENSOR
_MMA = Queue.MMA

_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32}
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Operands:
    """Decoded operands.

    Attributes:
        product: types, shape and options.
        path: where D lies in tensor memory.
        group: CTAs that take part: 1 or 2.
        d: lane and column of D.
        d_lanes: the first cells of its lanes.
        a: A, None where it lies in tensor memory,
        a_window: at this lane and column; ``a_lanes`` are the first cells of its lanes.
        b: B; of each CTA its part.
        keep: whether D is added to.
        scale_d: power of two by which the old D is divided.
        mask: words of the lanes that are not written, 4 per CTA; empty if all are.
        factors: scale factors per row and product, 0 without block scales.
        scales: tensor-memory addresses of the scale factors of A and B.
    """

    product: ProductDescriptor
    path: DataPath
    group: int
    d: tuple[int, int]
    d_lanes: NDArray[np.int64]
    a: Matrix | None
    a_window: tuple[int, int]
    a_lanes: NDArray[np.int64]
    b: Matrix
    keep: bool
    scale_d: int
    mask: tuple[int, ...]
    factors: int
    scales: tuple[int, ...]


class Product(WarpOperation):
    """Executes in order with the other products, copies and commits of its CTA."""

    __slots__ = ("_blocks", "_claims", "_operands", "_where")

    def __init__(
        self,
        warp: Warp,
        where: Instruction,
        operands: Operands,
        blocks: list[Block],
        claims: list[Claim],
    ) -> None:
        super().__init__(warp, "tcgen05.mma", where.line, None)
        self._where = where
        self._operands = operands
        self._blocks = blocks
        self._claims = claims
        machine = warp.machine
        if machine.tracking:
            shape = operands.product.kind, operands.product.m, operands.product.n
            chain = (*operands.d, *shape)
            self.handle = machine.tracker.issue(warp.number, _MMA, where.line, chain=chain)

    def execute(self) -> None:
        for claim in self._claims:
            claim.check(self._where)
        operands = self._operands
        product = operands.product
        every = [
            self._matrix(block, operands.b, product.b, product.transpose_b)
            for block in self._blocks
        ]
        b = every[0] if len(every) == 1 else np.concatenate(every)
        for number, block in enumerate(self._blocks):
            scaled_b = b
            if operands.factors:
                scaled_b = self._scaled(block, b, 1)
            if product.negate_a != product.negate_b:
                scaled_b = -scaled_b
            self._update(block, number, self._result(block, scaled_b))

    def _result(self, block: Block, b: Floats) -> Floats:
        """A·B of one CTA: (rows, n)."""
        operands, product = self._operands, self._operands.product
        rows = product.m // operands.group
        if operands.a is not None:
            a = self._matrix(block, operands.a, product.a, product.transpose_a)
            return multiply(self._scaled_a(block, a), b)
        halves = operands.path.blocks if operands.path.by_columns else 1
        found = self._tensor_a(block).reshape(halves, rows, -1)
        each = b.reshape(halves, product.n // halves, -1)
        parts = [
            multiply(self._scaled_a(block, one), other)
            for one, other in zip(found, each, strict=True)
        ]
        return np.concatenate(parts, axis=1)

    def _matrix(self, block: Block, matrix: Matrix, format_: str, transposed: bool) -> Floats:
        """An operand in shared memory, which has been checked to lie there: (rows, k)."""
        bits, machine = self._operands.product.bits, self.warp.machine
        if machine.tracking:
            cells = Cells(_SHARED, block.number, matrix.index, 16)
            machine.tracker.access(self.handle, cells, write=False)
        return operand_at(
            chunks_of(block), matrix.places, format_, bits=bits, k_major=not transposed
        )

    def _tensor_a(self, block: Block) -> Floats:
        """A in tensor memory: all of its lanes, (lanes, k)."""
        operands, product = self._operands, self._operands.product
        lane, column = operands.a_window
        width = product.k * product.bits // 32
        found = window(block.tensor.cells, operands.path, lane, column, width)
        self._report(block, operands.a_lanes, width, write=False)
        words = np.ascontiguousarray(found).reshape(-1, width)
        if product.bits == 4:
            bytes_ = words.view(np.uint8)
            pairs = np.stack([bytes_ & np.uint8(15), bytes_ >> np.uint8(4)], axis=-1)
            return values(pairs.reshape(len(words), -1), product.a)
        if product.bits == 8:
            return values(held(words.view(np.uint8), product.a), product.a)
        return values(words.view(_UNSIGNED[product.bits]), product.a)

    def _scaled_a(self, block: Block, a: Floats) -> Floats:
        return self._scaled(block, a, 0) if self._operands.factors else a

    def _scaled(self, block: Block, matrix: Floats, which: int) -> Floats:
        """A (``which`` 0) or B (1) times its scale factors, as its rows' data path reads them."""
        operands, product = self._operands, self._operands.product
        assert product.scale is not None
        blocks = operands.path.blocks if which and operands.path.by_columns else 1
        taddr = operands.scales[which]
        first = (taddr >> 16) * COLUMNS + (taddr & 0xFFFF)
        cells = scale_cells(len(matrix), blocks) + first
        words = block.tensor.cells.reshape(-1)[cells[0]]
        start = product.scale_b if which else product.scale_a
        codes = words.view(np.uint8).reshape(-1, 4)[:, start : start + operands.factors]
        machine = self.warp.machine
        if machine.tracking:
            index = np.unique(cells)
            found = Cells(_TENSOR, block.number, index)
            machine.tracker.access(self.handle, found, write=False)
        return block_scaled(matrix, codes, product.scale)

    def _update(self, block: Block, number: int, result: Floats) -> None:
        """D of one CTA, with what was there before if it is wanted."""
        operands, product = self._operands, self._operands.product
        path = operands.path
        lane, column = operands.d
        width = path.width(product.n)
        target = window(block.tensor.cells, path, lane, column, width)
        old = None
        if operands.keep:
            old = from_window(path, target)
            self._report(block, operands.d_lanes, width, write=False)
        words = accumulate(
            result, old, product.d, scale=operands.scale_d, saturate=product.saturate
        )
        new = to_window(path, words)
        mask = operands.mask[4 * number : 4 * number + 4]
        if any(mask):
            bits = np.unpackbits(np.array(mask, "<u4").view(np.uint8), bitorder="little")
            off = bits.reshape(path.blocks, path.step)[:, lane : lane + path.lanes, None]
            new = np.where(off != 0, target, new)
        target[...] = new
        self._report(block, operands.d_lanes, width, write=True, mask=mask)

    def _report(
        self,
        block: Block,
        index: NDArray[np.int64],
        width: int,
        *,
        write: bool,
        mask: tuple[int, ...] = (),
    ) -> None:
        """Tells the race checker of a window of tensor memory: the first cells of its lanes."""
        machine = self.warp.machine
        if not machine.tracking:
            return
        if any(mask):
            lanes = index // COLUMNS
            off = np.array(mask, np.int64)[lanes // 32] >> (lanes % 32) & 1
            index = index[off == 0]
        cells = Cells(_TENSOR, block.number, index, width)
        machine.tracker.access(self.handle, cells, write=write)

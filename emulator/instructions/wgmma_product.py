"""One wgmma.mma_async of a warpgroup while it is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.instructions.in_flight import promise
from schedgen.emulator.instructions.tma_operands import chunks_of
from schedgen.emulator.instructions.wgmma_group import (
    WARPS,
    Joint,
    Member,
    Part,
    Shape,
    Warpgroup,
)
from schedgen.emulator.layouts import fragments
from schedgen.emulator.layouts.descriptors import MatrixDescriptor, chunks, touched
from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.layouts.hopper_sums import accumulated
from schedgen.emulator.layouts.products import accumulate, multiply, operand, values
from schedgen.emulator.machine.switches import Accumulation
from schedgen.emulator.order.tracker import Cells, Queue, Space
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.lanes import Lanes

_ROWS = 64
_LANES = 32


class Product(Joint):
    """One product; issued when all four warps have joined it."""

    __slots__ = ("_group", "_number", "_old", "operands")

    def __init__(
        self, group: Warpgroup[Product], number: int, where: Instruction, shape: Shape
    ) -> None:
        super().__init__(group.members[0].warp, where, shape)
        self.operands: tuple[MatrixDescriptor | None, MatrixDescriptor, bool] | None = None
        self._group = group
        self._number = number
        self._old: dict[int, list[Any] | None] = {}

    def set_operands(self, a: MatrixDescriptor | None, b: MatrixDescriptor, keep: bool) -> None:
        """Descriptors of A (None: in registers) and B, and whether D is added to.

        Raises:
            LayoutError: shape and swizzle do not fit together, or a matrix leaves shared memory.
        """
        size = self.warp.block.shared.size
        for matrix, rows, turned in (
            (a, _ROWS, self.shape.transposes[0]),
            (b, self.shape.n, self.shape.transposes[1]),
        ):
            if matrix is None:
                continue
            shape = self.shape
            last = touched(matrix, rows, shape.k, shape.bits, k_major=not turned)[-1]
            if last + 16 > size:
                raise LayoutError(
                    f"the matrix at shared-memory address {matrix.start:#x} ends at "
                    f"{last + 16:#x}, beyond the {size:#x} bytes of the CTA"
                )
            chunks(matrix, rows, shape.k, shape.bits, k_major=not turned)
        self.operands = a, b, keep

    def join(
        self,
        member: Member,
        d: tuple[int, ...],
        old: list[Any] | None,
        a: list[tuple[int, Any]],
    ) -> None:
        """A warp has executed the instruction.

        Args:
            member: the warp.
            d: slots of its registers of D.
            old: its registers of D, or None if they are those of the preceding product.
            a: slots and lanes of its registers of A.
        """
        accumulator, number = self.accumulator, member.number
        self.who = self.who or member.warp.title
        self._old[number] = old
        self.a_registers[number] = a
        member.add(self)
        before = accumulator.joined[number]
        accumulator.joined[number] = self
        if before is not None:
            member.waited.discard(before)
        if old is not None or not accumulator.promises[number]:
            part = Part(accumulator, member)
            accumulator.promises[number] = promise(member.warp, part, d)
        if len(self._old) == WARPS:
            self._issue(member)

    def _issue(self, last: Member) -> None:
        group, machine = self._group, self.warp.machine
        group.complete(self._number)
        self.issuer = self.warp = last.warp
        if machine.tracking:
            numbers = tuple(member.warp.number for member in group.members)
            self.handle = machine.tracker.issue(
                last.warp.number, Queue.WGMMA, self.line, together=numbers
            )
        before = self.accumulator.latest
        self.accumulator.latest = self
        machine.operations.issue(self, after=() if before is None else (before,))

    def execute(self) -> None:
        assert self.operands is not None
        shape, (matrix_a, matrix_b, keep) = self.shape, self.operands
        a = self._registers() if matrix_a is None else self._matrix(matrix_a, _ROWS, 0)
        b = self._matrix(matrix_b, shape.n, 1)
        if shape.signs[0] * shape.signs[1] < 0:
            a = -a
        old = self._before() if keep else None
        as_h200 = self.warp.machine.switches.accumulation is Accumulation.H200
        if as_h200 and shape.d != "s32":
            words = accumulated(a, b, old, shape.a, shape.d)
        else:
            words = accumulate(multiply(a, b), old, shape.d, saturate=shape.saturate)
        self.accumulator.put(words)
        self._old.clear()
        self.done = True
        for member in self._group.members:
            member.changed()

    def _matrix(self, matrix: MatrixDescriptor, rows: int, which: int) -> NDArray[np.float32]:
        """A (``which`` 0) or B (1) from shared memory."""
        shape, block, machine = self.shape, self.warp.block, self.warp.machine
        k_major = not shape.transposes[which]
        format_ = shape.b if which else shape.a
        if machine.tracking:
            index = touched(matrix, rows, shape.k, shape.bits, k_major=k_major)
            cells = Cells(Space.SHARED, block.number, index, 16)
            machine.tracker.access(self.handle, cells, write=False)
        return operand(
            chunks_of(block), matrix, rows, shape.k, format_, bits=shape.bits, k_major=k_major
        )

    def _registers(self) -> NDArray[np.float32]:
        """A from the registers of all warps."""
        each = [
            np.stack([lanes for _, lanes in self.a_registers[number]]) for number in range(WARPS)
        ]
        codes = fragments.from_operand(np.concatenate(each, axis=1), self.shape.bits)
        return values(codes, self.shape.a)

    def _before(self) -> NDArray[np.uint32] | None:
        """D before: (64, n) words."""
        accumulator, d = self.accumulator, self.shape.d
        if all(old is None for old in self._old.values()):
            return accumulator.words
        each: list[Lanes] = []
        for number in range(WARPS):
            old = self._old[number]
            if old is None:
                first = _LANES * number
                each.append(accumulator.registers(d)[:, first : first + _LANES])
            else:
                each.append(np.stack(old).view(np.uint32))
        registers = np.concatenate(each, axis=1)
        if d == "f16":
            registers = fragments.halves(registers)
        return np.ascontiguousarray(fragments.from_accumulator(registers))

"""One wgmma.mma_async of a warpgroup while it is under way."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
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
from schedgen.emulator.layouts.descriptors import Matrix, MatrixDescriptor, decode_wgmma, matrix_of
from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.layouts.hopper_sums import accumulated
from schedgen.emulator.layouts.products import accumulate, multiply, operand_at, values
from schedgen.emulator.machine.lanes import gathered
from schedgen.emulator.machine.switches import Accumulation
from schedgen.emulator.order.tracker import Cells, Queue, Space
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.lanes import Lanes

# Python 3.11 takes as long to find a member in its enumeration as for several calls.
_SHARED = Space.SHARED
_WGMMA = Queue.WGMMA
_H200 = Accumulation.H200

_ROWS = 64
_LANES = 32


Given = tuple[int | None, int, bool]
"""Descriptors of A (None: in registers) and B, and whether D is added to (scale-d)."""


@lru_cache(maxsize=4096)
def _matrix(value: int, rows: int, k: int, bits: int, k_major: bool) -> Matrix:
    """The operand of a descriptor.

    Raises:
        LayoutError: shape and swizzle do not fit together.
    """
    return matrix_of(decode_wgmma(value), rows, k, bits, k_major=k_major)


class Product(Joint):
    """One product; issued when all four warps have joined it."""

    __slots__ = ("_fresh", "_group", "_matrices", "_number", "_old", "given")

    def __init__(
        self, group: Warpgroup[Product], number: int, where: Instruction, shape: Shape
    ) -> None:
        super().__init__(group.members[0].warp, where, shape)
        self.given: Given | None = None
        self._matrices: list[Matrix | None] = []
        self._group = group
        self._number = number
        self._old: dict[int, Sequence[Any] | None] = {}
        self._fresh = False
        """Whether registers of D are not those of the preceding product in some warp."""

    def give(self, given: Given) -> None:
        """Operands.

        Raises:
            LayoutError: shape and swizzle do not fit together, or a matrix leaves shared memory.
        """
        size = self.warp.block.shared.size
        shape = self.shape
        for value, rows, turned in zip(given, (_ROWS, shape.n), shape.transposes, strict=False):
            if value is None:
                self._matrices.append(None)
                continue
            matrix = _matrix(value, rows, shape.k, shape.bits, not turned)
            last = matrix.index.item(-1)
            if last + 16 > size:
                raise LayoutError(
                    f"the matrix at shared-memory address {matrix.descriptor.start:#x} ends at "
                    f"{last + 16:#x}, beyond the {size:#x} bytes of the CTA"
                )
            self._matrices.append(matrix)
        self.given = given

    def agrees(self, given: Given) -> bool:
        """Whether another warp gives the same operands."""
        mine = self.given
        assert mine is not None
        return mine == given or _meant(mine) == _meant(given)

    def join(
        self,
        member: Member,
        d: tuple[int, ...],
        old: Sequence[Any] | None,
        a: Sequence[tuple[int, Any]],
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
        self._fresh |= old is not None
        self.a_registers[number] = a
        member.add(self)
        before = accumulator.joined[number]
        accumulator.joined[number] = self
        if before is not None and member.waited:
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
                last.warp.number, _WGMMA, self.line, together=numbers
            )
        before = self.accumulator.latest
        self.accumulator.latest = self
        machine.operations.issue(self, after=() if before is None else (before,))

    def execute(self) -> None:
        assert self.given is not None
        shape, keep = self.shape, self.given[2]
        matrix_a, matrix_b = self._matrices
        a = self._registers() if matrix_a is None else self._values(matrix_a, 0)
        assert matrix_b is not None
        b = self._values(matrix_b, 1)
        if shape.signs[0] * shape.signs[1] < 0:
            a = -a
        old = self._before() if keep else None
        as_h200 = self.warp.machine.switches.accumulation is _H200
        if as_h200 and shape.d != "s32":
            words = accumulated(a, b, old, shape.a, shape.d)
        else:
            words = accumulate(multiply(a, b), old, shape.d, saturate=shape.saturate)
        self.accumulator.put(words)
        self._old.clear()
        self.done = True
        for member in self._group.members:
            member.changed()

    def _values(self, matrix: Matrix, which: int) -> NDArray[np.float32]:
        """A (``which`` 0) or B (1) from shared memory."""
        shape, block, machine = self.shape, self.warp.block, self.warp.machine
        if machine.tracking:
            cells = Cells(_SHARED, block.number, matrix.index, 16)
            machine.tracker.access(self.handle, cells, write=False)
        return operand_at(
            chunks_of(block), matrix.places, shape.b if which else shape.a,
            bits=shape.bits, k_major=not shape.transposes[which],
        )  # fmt: skip

    def _registers(self) -> NDArray[np.float32]:
        """A from the registers of all warps."""
        each = [[lanes for _, lanes in registers] for registers in self.a_registers]
        every = [lanes for register in zip(*each, strict=True) for lanes in register]
        codes = fragments.from_operand(gathered(every).reshape(len(each[0]), -1), self.shape.bits)
        return values(codes, self.shape.a)

    def _before(self) -> NDArray[np.uint32] | None:
        """D before: (64, n) words."""
        accumulator, d = self.accumulator, self.shape.d
        if not self._fresh:
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


def _meant(given: Given) -> tuple[MatrixDescriptor | None, MatrixDescriptor, bool]:
    """Operands without the bits of descriptors that mean nothing."""
    a, b, keep = given
    return None if a is None else decode_wgmma(a), decode_wgmma(b), keep

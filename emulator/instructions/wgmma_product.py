"""One wgmma.mma_async of a warpgroup, and what its warps keep about theirs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.instructions.in_flight import Promise, promise, touching
from schedgen.emulator.instructions.tma_operands import chunks_of
from schedgen.emulator.layouts import fragments
from schedgen.emulator.layouts.descriptors import MatrixDescriptor, chunks, touched
from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.layouts.products import accumulate, multiply, operand, values
from schedgen.emulator.machine.conditions import Condition, Resource
from schedgen.emulator.machine.lanes import EmulationError, Lanes, error
from schedgen.emulator.machine.operations import Operation
from schedgen.emulator.order.tracker import Cells, Queue, Space
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_ROWS = 64
_WARPS = 4
_LANES = 32


@dataclass(frozen=True, slots=True)
class Shape:
    """Types and shape of a product of 64 × n × k; ``bits`` are those of an operand's element."""

    n: int
    k: int
    d: str
    a: str
    b: str
    bits: int
    saturate: bool
    signs: tuple[int, int] = (1, 1)
    transposes: tuple[bool, bool] = (False, False)

    @property
    def registers(self) -> int:
        """32-bit registers of D per thread."""
        return self.n // 4 if self.d == "f16" else self.n // 2

    def with_options(self, signs: tuple[int, int], transposes: tuple[bool, bool]) -> Shape:
        return replace(self, signs=signs, transposes=transposes)


class Accumulator:
    """D registers of a warpgroup between products on the same registers.

    ``words`` (64, n) uint32; ``joined`` and ``promises`` are per warp: the last product that it
    has joined, and what its registers hold.
    """

    def __init__(self) -> None:
        self.words: NDArray[np.uint32] | None = None
        self.latest: Product | None = None
        self.joined: list[Product | None] = [None] * _WARPS
        self.promises: list[list[Promise]] = [[] for _ in range(_WARPS)]
        self._registers: Lanes | None = None

    def put(self, words: NDArray[np.uint32]) -> None:
        """A product has executed."""
        self.words = words
        self._registers = None

    def registers(self, d: str) -> Lanes:
        """(registers, 128 threads)."""
        if self._registers is None:
            assert self.words is not None
            found = fragments.accumulator(self.words)
            self._registers = np.ascontiguousarray(fragments.packed(found) if d == "f16" else found)
        return self._registers


class _Part:
    """The registers of one warp in an accumulator: the owner of its promises."""

    def __init__(self, accumulator: Accumulator, member: Member) -> None:
        self._accumulator = accumulator
        self._member = member

    def lanes(self, index: int) -> Lanes:
        member = self._member
        product = self._accumulator.joined[member.number]
        assert product is not None
        if product not in member.waited:
            raise member.too_early(product, self._accumulator.promises[member.number][index].slot)
        first = _LANES * member.number
        return self._accumulator.registers(product.shape.d)[index, first : first + _LANES]


class Member(Resource):
    """A warp in its warpgroup.

    ``fenced`` is what its registers held at the last wgmma.fence, ``waited`` the products that a
    wait has covered and that its accumulators still come from.
    """

    def __init__(self, group: Warpgroup, warp: Warp, number: int) -> None:
        super().__init__()
        self.warp = warp
        self.group = group
        self.number = number
        self.issued = 0
        self.fenced: list[Lanes] | None = None
        self.waited: set[Product] = set()
        self._open: list[Product] = []
        self._committed: list[list[Product]] = []

    def add(self, product: Product) -> None:
        """A product joins the group that will be committed next."""
        self._open.append(product)

    def commit(self) -> None:
        """Closes the open group, which may be empty (W4)."""
        self._committed.append(self._open)
        self._open = []

    def wait(self, left: int, where: Instruction) -> Condition | None:
        """Waits until at most ``left`` committed groups are unfinished; None once that is so.

        Raises:
            EmulationError: registers of A were overwritten meanwhile (W5).
        """
        covered = self._committed[: len(self._committed) - left]
        products = [product for group in covered for product in group]
        if not all(product.done for product in products):
            return Condition(
                self,
                lambda: all(product.done for product in products),
                lambda: self._explain(left, products),
            )
        del self._committed[: len(covered)]
        for product in products:
            self._check_operands(product, where)
            if product.accumulator.joined[self.number] is product:
                self.waited.add(product)
        return None

    def too_early(self, product: Product, slot: int) -> EmulationError:
        """The error about a register of D that is touched before a wait."""
        name = next(name for name, at in self.warp.program.decoder.slot.items() if at == slot)
        reader = touching(self.warp, name)
        at = f"PTX line {reader.line}: {reader.name}: " if reader is not None else ""
        return EmulationError(
            f"{at}register {name} belongs to the wgmma.mma_async of PTX line {product.line}, which "
            "no wgmma.wait_group has waited for; wait before the register is accessed (rule W5)"
        )

    def _check_operands(self, product: Product, where: Instruction) -> None:
        for slot, lanes in product.a_registers[self.number]:
            if self.warp.registers[slot] is not lanes:
                names = self.warp.program.decoder.slot
                name = next(name for name, at in names.items() if at == slot)
                raise error(
                    where,
                    f"register {name} of A was overwritten after the wgmma.mma_async of PTX line "
                    f"{product.line} and before this wait for it (rule W5)",
                )

    def _explain(self, left: int, products: list[Product]) -> str:
        unfinished = [product.explain() for product in products if not product.done]
        return f"at most {left} unfinished wgmma groups; unfinished: {'; '.join(unfinished[:3])}"


class Warpgroup:
    """Four warps that execute wgmma together."""

    def __init__(self, warps: list[Warp]) -> None:
        self.members = [Member(self, warp, number) for number, warp in enumerate(warps)]
        self._accumulators: dict[tuple[int, ...], Accumulator] = defaultdict(Accumulator)
        self._open: dict[int, Product] = {}

    def accumulator(self, slots: tuple[int, ...]) -> Accumulator:
        """The accumulator in these registers."""
        return self._accumulators[slots]

    def next(self, member: Member, where: Instruction, shape: Shape) -> Product:
        """The product that a warp joins by its next wgmma.mma_async.

        Raises:
            EmulationError: other warps of the warpgroup have executed another one (W1).
        """
        number = member.issued
        member.issued += 1
        product = self._open.get(number)
        if product is None:
            product = self._open[number] = Product(self, number, where, shape)
        elif product.where is not where:
            raise error(
                where,
                f"{member.warp.title} executes this, but {product.who} of its warpgroup executed "
                f"PTX line {product.line} in its place; all four warps execute the same wgmma "
                "instructions (rule W1)",
            )
        return product

    def complete(self, number: int) -> None:
        """All four warps have joined a product."""
        del self._open[number]


class Product(Operation):
    """One product; issued when all four warps have joined it."""

    __slots__ = (
        "_group", "_number", "_old", "a_registers", "accumulator", "operands", "shape", "where",
        "who",
    )  # fmt: skip

    def __init__(self, group: Warpgroup, number: int, where: Instruction, shape: Shape) -> None:
        warp = group.members[0].warp
        super().__init__(warp, "wgmma.mma_async", where.line, None)
        self.where = where
        self.shape = shape
        self.who = ""
        self.operands: tuple[MatrixDescriptor | None, MatrixDescriptor, bool] | None = None
        self.accumulator: Accumulator
        self.a_registers: list[list[tuple[int, Any]]] = [[] for _ in range(_WARPS)]
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

    def join(self, member: Member, old: list[Any] | None, a: list[tuple[int, Any]]) -> None:
        """A warp has executed the instruction.

        Args:
            member: the warp.
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
            slots = [*self._slots()]
            part = _Part(accumulator, member)
            accumulator.promises[number] = promise(member.warp, part, slots)
        if len(self._old) == _WARPS:
            self._issue(member)

    def _slots(self) -> tuple[int, ...]:
        names = self.warp.program.decoder.slot
        vector: Any = self.where.operands[0]
        return tuple(names[one.name] for one in vector.items)

    def _issue(self, last: Member) -> None:
        group, machine = self._group, self.warp.machine
        group.complete(self._number)
        self.warp = last.warp
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
        product = multiply(a, b)
        old = self._before() if keep else None
        words = accumulate(product, old, shape.d, saturate=shape.saturate)
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
            np.stack([lanes for _, lanes in self.a_registers[number]]) for number in range(_WARPS)
        ]
        codes = fragments.from_operand(np.concatenate(each, axis=1), self.shape.bits)
        return values(codes, self.shape.a)

    def _before(self) -> NDArray[np.uint32] | None:
        """D before: (64, n) words."""
        accumulator, d = self.accumulator, self.shape.d
        if all(old is None for old in self._old.values()):
            return accumulator.words
        each: list[Lanes] = []
        for number in range(_WARPS):
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

"""wgmma.mma_async as the warps of a warpgroup execute it: one after the other, or side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from schedgen.emulator.instructions.in_flight import Promise
from schedgen.emulator.instructions.operands import common, uniform
from schedgen.emulator.instructions.wgmma_group import (
    WARPS,
    Accumulator,
    Member,
    Shape,
    Warpgroup,
)
from schedgen.emulator.instructions.wgmma_product import Given, Product
from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.machine.lanes import Read, error
from schedgen.emulator.native.registers import Same, held, kept
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_DESCRIPTOR = (1 << 64) - 1


def warpgroup(warp: Warp, where: Instruction) -> Warpgroup[Product]:
    """The warpgroup of a warp.

    Raises:
        EmulationError: the CTA has not all of its four warps (W1).
    """
    kept, number = warp.machine.kept, warp.rank // WARPS
    key = Warpgroup, warp.block.number, number
    found: Warpgroup[Product] | None = kept.get(key)
    if found is None:
        warps = warp.siblings[WARPS * number : WARPS * (number + 1)]
        if len(warps) < WARPS:
            raise error(
                where,
                f"{warp.title} is in a warpgroup of {len(warps)} warps; wgmma needs four (rule W1)",
            )
        made: Warpgroup[Product] = Warpgroup(warps)
        found = kept[key] = made
    return found


@dataclass(frozen=True)
class Mma:
    """An instruction.

    Attributes:
        d, a: slots of its registers; none of A where that is in shared memory.
        read_a, read_b, keep: descriptors (None of A: in registers) and scale-d.
    """

    where: Instruction
    shape: Shape
    d: tuple[int, ...]
    a: tuple[int, ...]
    read_a: Read | None
    read_b: Read
    keep: Read

    def run(self, warp: Warp) -> None:
        """One warp executes it."""
        group = warpgroup(warp, self.where)
        member = group.members[warp.rank % WARPS]
        product = group.next(
            member, self.where, lambda number: Product(group, number, self.where, self.shape)
        )
        matrix_a, where = None, self.where
        if self.read_a is not None:
            matrix_a = uniform(warp, self.read_a(warp), "the descriptor of A", where) & _DESCRIPTOR
        matrix_b = uniform(warp, self.read_b(warp), "the descriptor of B", where) & _DESCRIPTOR
        scale = bool(uniform(warp, self.keep(warp), "scale-d", where))
        self._agree(product, member, (matrix_a, matrix_b, scale))
        accumulator = product.accumulator = group.accumulator(self.d)
        old = None if self._preceding(member, accumulator) else self._old(member, accumulator)
        registers = [self._operand(member, slot) for slot in self.a]
        product.join(member, self.d, old, [*zip(self.a, registers, strict=True)])

    def several(self, warps: Sequence[Warp]) -> bool:
        """All four warps execute it, where nothing is wrong with any of them."""
        if len(warps) != WARPS:
            return False
        group = warpgroup(warps[0], self.where)
        members = [group.members[warp.rank % WARPS] for warp in warps]
        given = self._given(warps)
        if given is None:
            return False
        number = members[0].issued
        for member in members:
            if member.issued != number:
                return False
        accumulator = group.accumulator(self.d)
        olds = [
            () if self._preceding(one, accumulator) else _fenced(one, self.d, self._kept_d)
            for one in members
        ]
        operands = [_fenced(one, self.a, self._kept_a) if self.a else () for one in members]
        if None in olds or None in operands:
            return False
        product = Product(group, number, self.where, self.shape)
        try:
            product.give(given)
        except LayoutError:
            return False  # it will be met again, in the warp that comes first
        product.accumulator = accumulator
        group.all_next(members, product)
        for member, old, registers in zip(members, olds, operands, strict=True):
            a = [*zip(self.a, registers, strict=True)] if registers else ()
            product.join(member, self.d, old or None, a)
        return True

    @cached_property
    def _kept_d(self) -> Same:
        return kept(self.d)

    @cached_property
    def _kept_a(self) -> Same:
        return kept(self.a)

    @cached_property
    def _held_d(self) -> Same:
        return held(self.d)

    def _given(self, warps: Sequence[Warp]) -> Given | None:
        """Descriptors and scale-d, if they are the same in all warps."""
        matrix_a = None if self.read_a is None else common(warps, self.read_a)
        matrix_b, scale = common(warps, self.read_b), common(warps, self.keep)
        if matrix_b is None or scale is None or (matrix_a is None) != (self.read_a is None):
            return None
        return matrix_a, matrix_b, bool(scale)

    def _agree(self, product: Product, member: Member, given: Given) -> None:
        """Descriptors and scale-d are the same in all warps of the warpgroup."""
        if product.given is None:
            try:
                product.give(given)
            except LayoutError as problem:
                raise error(self.where, str(problem)) from None
        elif not product.agrees(given):
            raise error(
                self.where,
                f"{member.warp.title} gives other descriptors or scale-d than the warps of its "
                "warpgroup that came before (rule W1)",
            )

    def _preceding(self, member: Member, accumulator: Accumulator) -> bool:
        """Whether the registers of D are those of the preceding product on them."""
        promises = accumulator.promises[member.number]
        return bool(promises) and self._held_d(member.warp.registers, promises)

    def _old(self, member: Member, accumulator: Accumulator) -> list[Any]:
        """Old values of D, which are not those of the preceding product.

        Registers that were cleared after the fence are let pass: the compiler of CuTe DSL moves
        constants there, and assemblers know that they depend on nothing.

        Raises:
            EmulationError: registers were touched since the last wgmma.fence (W2), or another
                product is still under way that writes them (W5).
        """
        registers = member.warp.registers
        mine = set(map(id, accumulator.promises[member.number]))
        fenced = member.fenced
        found: list[Any] = []
        for slot in self.d:
            lanes: Any = registers[slot]
            kept = id(lanes) in mine or (fenced is not None and fenced[slot] is lanes)
            if not kept and (fenced is None or isinstance(lanes, Promise) or lanes.any()):
                self._unfenced(member, slot, "D")
            found.append(lanes.now() if isinstance(lanes, Promise) else lanes)
        return found

    def _operand(self, member: Member, slot: int) -> Any:
        """Lanes of a register of A, of which the warp must have been fenced since (W2)."""
        lanes: Any = member.warp.registers[slot]
        if member.fenced is None or member.fenced[slot] is not lanes:
            self._unfenced(member, slot, "A")
        return lanes.now() if isinstance(lanes, Promise) else lanes

    def _unfenced(self, member: Member, slot: int, matrix: str) -> None:
        since = (
            "there was no wgmma.fence before"
            if member.fenced is None
            else "a thread has accessed it since the last wgmma.fence"
        )
        names = member.warp.program.decoder.slot
        name = next(name for name, at in names.items() if at == slot)
        member.warp.machine.broken(
            self.where,
            "W2",
            f"register {name} of {matrix}: {since}; put wgmma.fence between accesses "
            "to registers and the wgmma.mma_async that uses them",
        )


def _fenced(member: Member, slots: tuple[int, ...], same: Same) -> Sequence[Any] | None:
    """Lanes of registers that were not touched since the last wgmma.fence, and that no product is
    about to write; None of others."""
    registers = member.warp.registers
    if member.fenced is None or not same(registers, member.fenced):
        return None
    return [registers[slot] for slot in slots]

"""What a warpgroup keeps: its accumulators, and per warp groups of products and fences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.instructions.in_flight import Promise, touching
from schedgen.emulator.layouts import fragments
from schedgen.emulator.machine.conditions import Condition, Resource
from schedgen.emulator.machine.lanes import EmulationError, Lanes, error
from schedgen.emulator.machine.steps import WarpOperation
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

WARPS = 4
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


class Joint(WarpOperation):
    """A product that the warps of a warpgroup join one after the other.

    ``who`` is the first to come; ``a_registers`` are slots and lanes of A, per warp.
    """

    __slots__ = ("a_registers", "accumulator", "shape", "where", "who")

    def __init__(self, warp: Warp, where: Instruction, shape: Shape) -> None:
        super().__init__(warp, "wgmma.mma_async", where.line, None)
        self.where = where
        self.shape = shape
        self.who = ""
        self.accumulator: Accumulator
        self.a_registers: list[Sequence[tuple[int, Any]]] = [()] * WARPS


AnyJoint = TypeVar("AnyJoint", bound=Joint)


class Accumulator:
    """D registers of a warpgroup between products on the same registers.

    ``words`` (64, n) uint32; ``joined`` and ``promises`` are per warp: the last product that it
    has joined, and what its registers hold.
    """

    def __init__(self) -> None:
        self.words: NDArray[np.uint32] | None = None
        self.latest: Joint | None = None
        self.joined: list[Joint | None] = [None] * WARPS
        self.promises: list[list[Promise]] = [[] for _ in range(WARPS)]
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


class Part:
    """The registers of one warp in an accumulator: the owner of its promises."""

    def __init__(self, accumulator: Accumulator, member: Member) -> None:
        self._accumulator = accumulator
        self._member = member

    def lanes(self, index: int) -> Lanes:
        return self.several((index,))[0]

    def several(self, indices: Sequence[int]) -> Sequence[Lanes]:
        member = self._member
        product = self._accumulator.joined[member.number]
        assert product is not None
        if product not in member.waited:
            first = self._accumulator.promises[member.number][indices[0]]
            raise member.too_early(product, first.slot)
        start = _LANES * member.number
        rows = self._accumulator.registers(product.shape.d)[:, start : start + _LANES]
        return [rows[index] for index in indices]


class Member(Resource):
    """A warp in its warpgroup.

    ``fenced`` is what its registers of products held at the last wgmma.fence, ``waited`` the
    products that a wait has covered and that its accumulators still come from.
    """

    def __init__(self, warp: Warp, number: int) -> None:
        super().__init__()
        self.warp = warp
        self.number = number
        self.issued = 0
        self.fenced: list[Any] | None = None
        self.waited: set[Joint] = set()
        self._open: list[Joint] = []
        self._committed: list[list[Joint]] = []

    def add(self, product: Joint) -> None:
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
        products = self._covered(left)
        if not _done(products):
            return Condition(self, lambda: _done(products), lambda: self._explain(left, products))
        del self._committed[: len(self._committed) - left]
        for product in products:
            if product.a_registers[self.number]:
                self._check_operands(product, where)
            if product.accumulator.joined[self.number] is product:
                self.waited.add(product)
        return None

    def over(self, left: int) -> bool:
        """Whether a wait for at most ``left`` unfinished groups neither blocks nor fails."""
        registers, products = self.warp.registers, self._covered(left)
        if not _done(products):
            return False
        for product in products:
            for slot, lanes in product.a_registers[self.number]:
                if registers[slot] is not lanes:
                    return False
        return True

    def _covered(self, left: int) -> list[Joint]:
        covered = self._committed[: len(self._committed) - left]
        return [product for group in covered for product in group]

    def too_early(self, product: Joint, slot: int) -> EmulationError:
        """The error about a register of D that is touched before a wait."""
        name = next(name for name, at in self.warp.program.decoder.slot.items() if at == slot)
        reader = touching(self.warp, name)
        at = f"PTX line {reader.line}: {reader.name}: " if reader is not None else ""
        return EmulationError(
            f"{at}register {name} belongs to the wgmma.mma_async of PTX line {product.line}, which "
            "no wgmma.wait_group has waited for; wait before the register is accessed (rule W5)"
        )

    def _check_operands(self, product: Joint, where: Instruction) -> None:
        for slot, lanes in product.a_registers[self.number]:
            if self.warp.registers[slot] is not lanes:
                names = self.warp.program.decoder.slot
                name = next(name for name, at in names.items() if at == slot)
                raise error(
                    where,
                    f"register {name} of A was overwritten after the wgmma.mma_async of PTX line "
                    f"{product.line} and before this wait for it (rule W5)",
                )

    def _explain(self, left: int, products: list[Joint]) -> str:
        unfinished = [product.explain() for product in products if not product.done]
        return f"at most {left} unfinished wgmma groups; unfinished: {'; '.join(unfinished[:3])}"


def _done(products: Sequence[Joint]) -> bool:
    for product in products:  # noqa: SIM110 - this is called very often
        if not product.done:
            return False
    return True


class Warpgroup(Generic[AnyJoint]):
    """Four warps that execute wgmma together."""

    def __init__(self, warps: list[Warp]) -> None:
        self.members = [Member(warp, number) for number, warp in enumerate(warps)]
        self._accumulators: dict[tuple[int, ...], Accumulator] = defaultdict(Accumulator)
        self._known: dict[int, tuple[tuple[int, ...], Accumulator]] = {}
        """By the identities of registers: looking these up takes longer."""
        self._open: dict[int, AnyJoint] = {}

    def accumulator(self, slots: tuple[int, ...]) -> Accumulator:
        """The accumulator in these registers."""
        known = self._known.get(id(slots))
        if known is None:
            known = self._known[id(slots)] = slots, self._accumulators[slots]
        return known[1]

    def next(self, member: Member, where: Instruction, make: Callable[[int], AnyJoint]) -> AnyJoint:
        """The product that a warp joins by its next wgmma.mma_async.

        The first warp to come makes it; its argument is the number of the product.

        Raises:
            EmulationError: other warps of the warpgroup have executed another one (W1).
        """
        number = member.issued
        member.issued += 1
        product = self._open.get(number)
        if product is None:
            product = self._open[number] = make(number)
        elif product.where is not where:
            raise error(
                where,
                f"{member.warp.title} executes this, but {product.who} of its warpgroup executed "
                f"PTX line {product.line} in its place; all four warps execute the same wgmma "
                "instructions (rule W1)",
            )
        return product

    def all_next(self, members: Sequence[Member], product: AnyJoint) -> None:
        """All four warps join a product side by side, as `next` lets one after the other; their
        numbers are the same, and none has joined the product yet."""
        for member in members:
            member.issued += 1
        self._open[members[0].issued - 1] = product

    def complete(self, number: int) -> None:
        """All four warps have joined a product."""
        del self._open[number]

"""Registers whose values an asynchronous operation still has to bring.

Such a register holds, instead of an array, an object that stands for one. Whatever an instruction
does with it asks its owner for the lanes: tcgen05.ld then executes at once (a register dependency
is respected, PTX ISA 9.7.16.6.4.5), wgmma refuses while no wait has covered it. Registers that no
operation is about to write cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from schedgen.emulator.machine.lanes import Lanes
from schedgen.emulator.machine.operations import Groups
from schedgen.emulator.ptx.tree import Instruction, touched

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp


class Owner(Protocol):
    """An operation that writes registers."""

    def lanes(self, index: int) -> Lanes:
        """The lanes of its ``index``-th register, now that an instruction touches it.

        Raises:
            EmulationError: it must not be touched yet.
        """
        ...

    def several(self, indices: Sequence[int]) -> Sequence[Lanes]:
        """The lanes of some of its registers.

        Raises:
            EmulationError: the first one must not be touched yet.
        """
        ...


class Promise(NDArrayOperatorsMixin):
    """Stands for the lanes of one register until an instruction touches them."""

    __slots__ = ("index", "owner", "registers", "slot")

    def __init__(self, owner: Owner, index: int, registers: list[Any], slot: int) -> None:
        self.owner = owner
        self.index = index
        self.registers = registers
        self.slot = slot

    def now(self) -> Lanes:
        """The lanes; from now on the register holds them."""
        lanes = self.owner.lanes(self.index)
        if self.registers[self.slot] is self:
            self.registers[self.slot] = lanes
        return lanes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.now(), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Lanes:
        return np.array(self.now(), dtype=dtype, copy=copy)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(function, method)(*_kept(inputs), **options)

    def __array_function__(
        self, function: Any, _types: Any, arguments: Any, options: dict[str, Any]
    ) -> Any:
        return function(*_kept(arguments), **{key: _kept(one) for key, one in options.items()})

    def __getitem__(self, key: Any) -> Any:
        return self.now()[key]

    def __len__(self) -> int:
        return len(self.now())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.now())


def promise(warp: Warp, owner: Owner, slots: Sequence[int]) -> list[Promise]:
    """Makes an operation the owner of registers; a slot of -1 is the destination ``_``."""
    registers: list[Any] = warp.registers
    made = [Promise(owner, index, registers, slot) for index, slot in enumerate(slots)]
    for one in made:
        if one.slot >= 0:
            registers[one.slot] = one
    return made


def _kept(value: Any) -> Any:
    """Arguments of a numpy function with lanes in place of promises."""
    if isinstance(value, Promise):
        return value.now()
    if isinstance(value, (tuple, list)):
        found = cast("tuple[Any, ...] | list[Any]", value)
        return type(found)(_kept(one) for one in found)
    return value


class Flight:
    """What a warp has under way in the tensor core."""

    def __init__(self) -> None:
        self.loads = Groups("tcgen05.ld")
        self.stores = Groups("tcgen05.st")
        self.products = 0
        """tcgen05.mma and cp that it has issued."""


def flight(warp: Warp) -> Flight:
    """What a warp has under way."""
    key = Flight, warp.number
    found: Flight | None = warp.machine.kept.get(key)
    if found is None:
        found = warp.machine.kept[key] = Flight()
    return found


def touching(warp: Warp, name: str) -> Instruction | None:
    """The instruction that touches a register now, as far as that can be told."""
    body = warp.program.kernel.body
    stretch = warp.program.stretches[warp.pc]
    # While steps run, warp.pc is where they begin; while a branch or the like runs, behind it.
    end = stretch.end if stretch is not None else warp.pc
    for instruction in body[max(warp.pc - 1, 0) : end]:
        if instruction.opcode != "wgmma" and any(
            name == found for operand in instruction.operands for found in touched(operand)
        ):
            return instruction
    return None

"""The operand ``[tensor map, {coordinates}]`` of tensor copies, and the box that it names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.instructions.forms import Form
from schedgen.emulator.instructions.operands import address, items
from schedgen.emulator.instructions.tma_operands import (
    MapOperand,
    global_part,
    signed,
    tensor_map,
)
from schedgen.emulator.launch.tensor_map import TensorMap
from schedgen.emulator.launch.tensor_map_bits import SIZE
from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.layouts.tiles import Block, block, box_shape, rows
from schedgen.emulator.machine.lanes import Lanes, error
from schedgen.emulator.order.tracker import Cells, Space
from schedgen.emulator.ptx.tree import Address, Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_DIMENSIONS = {"1d": 1, "2d": 2, "3d": 3, "4d": 4, "5d": 5}
_ROWS = 4
"""Of gather4 and scatter4."""
_INNERMOST = 16
"""Bytes of which an innermost coordinate is a multiple."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box at some coordinates: what is copied, and which part of it is inside of the tensor."""

    operand: MapOperand
    shape: tuple[int, ...]
    parts: tuple[tuple[Block, NDArray[np.uint8], Cells], ...]

    @property
    def size(self) -> int:
        """Bytes in shared memory."""
        element = self.operand.tensor.element
        return self.packed * 8 // element.bits if element.is_padded else self.packed

    @property
    def packed(self) -> int:
        """Bytes in global memory, which are those that a copy reports to its mbarrier: gaps of
        padded types do not count. DeepGEMM and TileLang expect them so for 4-bit operands of
        tcgen05.mma; the ISA says only that it is the amount that is copied (9.7.9.25.4.1)."""
        return prod(self.shape)

    @property
    def whole(self) -> NDArray[np.uint8] | None:
        """All of it, if nothing is outside of the tensor and it is no gather4 or scatter4."""
        if len(self.parts) == 1 and self.parts[0][0].shape == self.shape:
            return self.parts[0][1]
        return None

    @property
    def inside(self) -> int:
        """Bytes of global memory that are inside of the tensor."""
        return sum(view.size for _, view, _ in self.parts)


class Source:
    """The operand ``[map, {coordinates}]`` of an instruction."""

    def __init__(self, form: Form, operand: object, gather: str) -> None:
        if not isinstance(operand, Address) or not operand.coordinates:
            raise form.error("[tensor map, {coordinates}] expected")
        self.where = form.where
        dimensions = _DIMENSIONS[form.choose(*_DIMENSIONS)]
        self.four = form.flag(f"tile::{gather}")
        form.flag("tile")
        if extra := [m for m in form.left if m.startswith("im2col")]:
            raise form.error(f".{extra[0]}: only tiled tensor maps are supported")
        given = [one for item in operand.coordinates for one in items(item)]
        self.rank = dimensions
        wanted = 1 + _ROWS if self.four else dimensions
        if len(given) != wanted:
            raise form.error(f"{len(given)} coordinates, {wanted} expected")
        self.map = address(Address(operand.base, operand.offset), form.decoder, form.where)
        self.coordinates = [form.decoder.read(one, "b32", form.where) for one in given]

    def read(self, warp: Warp) -> tuple[Lanes, ...]:
        """Lanes of the map's address and of the coordinates."""
        return tuple(read(warp) for read in (self.map, *self.coordinates))

    def used(self, warp: Warp, map_: int) -> None:
        """Tells the race checker that a lane uses the map at an address."""
        if warp.machine.tracking:
            cells = Cells(Space.GLOBAL, -1, slice(map_, map_ + SIZE))
            warp.machine.tracker.map_use(warp.number, cells, self.where.line)

    def box(self, warp: Warp, lanes: tuple[Lanes, ...], lane: int, *, store: bool) -> Box:
        """The box that one lane names.

        Raises:
            EmulationError: map and instruction do not fit together, or the tensor is not there.
        """
        where = self.where
        first, *others = lanes
        operand = tensor_map(warp, int(first[lane]), where)
        if not store:
            operand.check_begin(warp.machine, where)
        self.used(warp, int(first[lane]))
        tensor = operand.tensor
        if tensor.rank != self.rank:
            raise error(where, f"the tensor map has {tensor.rank} dimensions, not {self.rank}")
        at = [signed(one, lane) for one in others]
        if store and min(at) < 0:
            raise error(where, f"coordinates {at}: those of a store must not be negative")
        _check_aligned(tensor, at[0], where)
        try:
            shape, found = _blocks(tensor, tuple(at), self.four)
        except LayoutError as problem:
            raise error(where, str(problem)) from None
        return Box(operand, shape, tuple((one, *global_part(warp, one, where)) for one in found))


@lru_cache(maxsize=4096)
def _blocks(
    tensor: TensorMap, at: tuple[int, ...], four: bool
) -> tuple[tuple[int, ...], tuple[Block, ...]]:
    """The shape of a box, and its parts that are inside of the tensor; several CTAs copy the same.

    Raises:
        LayoutError: map and coordinates do not fit together.
    """
    shape = box_shape(tensor, _ROWS if four else None)
    if four:
        return shape, tuple(rows(tensor, at))
    single = block(tensor, at)
    return shape, () if single is None else (single,)


def _check_aligned(tensor: TensorMap, innermost: int, where: Instruction) -> None:
    """A box has to begin at a multiple of 16 bytes along the innermost dimension (T14).

    The ISA does not say so. An H200 reports an illegal instruction for a load that does not, and
    TileLang's users for stores (its issue 2527); prefetches are taken for loads. Padded elements
    have a rule of their own.

    Raises:
        EmulationError: it does not.
    """
    bits = innermost * tensor.element.bits
    if bits % (8 * _INNERMOST) and not tensor.element.is_padded:
        raise error(
            where,
            f"the innermost coordinate {innermost} is {bits / 8:g} bytes behind the beginning of a "
            f"row, no multiple of {_INNERMOST}: an illegal instruction on an H200; let boxes begin "
            "at multiples of that (rule T14)",
        )

"""Tile-mode tensor copies: which global bytes a box names and where they lie in shared memory.

Source: PTX ISA sections 5.5.3 (tiled mode) and 5.5.7; for traversal strides the documentation of
cuTensorMapEncodeTiled. Dimension 0 of a tensor map is the innermost; arrays here have the
outermost first, and their last dimension counts bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.layouts.descriptors import CHUNK, PERIOD
from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.layouts.swizzle import Swizzle, swizzle

ALIGNMENT = 128
"""Of the shared-memory address of a box (CUDA programming guide, multi-dimensional bulk copies)."""


class TensorMap(Protocol):
    """What a copy needs of a decoded tensor map; innermost dimension first."""

    @property
    def address(self) -> int:
        """Global address of element 0."""
        ...

    @property
    def element_bytes(self) -> int: ...
    @property
    def dims(self) -> tuple[int, ...]:
        """Size of the tensor in elements."""
        ...

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes between neighbours in dimensions 1 and up: one less than dimensions."""
        ...

    @property
    def box(self) -> tuple[int, ...]: ...
    @property
    def element_strides(self) -> tuple[int, ...]: ...
    @property
    def swizzle(self) -> Swizzle: ...


@dataclass(frozen=True, slots=True)
class Block:
    """The part of a box that lies inside of the tensor, as strided bytes.

    Attributes:
        address: global address of its first byte.
        shape: extents, the last in bytes.
        strides: bytes between neighbours; 1 for the last.
        place: where this part lies in the box.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    place: tuple[slice, ...]

    @property
    def end(self) -> int:
        """Address behind the last byte."""
        steps = sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))
        return self.address + steps + 1

    def addresses(self) -> NDArray[np.int64]:
        """Global addresses of all bytes, flat."""
        return _relative(self.shape, self.strides) + self.address


def box_shape(tensor: TensorMap, rows: int | None = None) -> tuple[int, ...]:
    """Extents of a box in shared memory, the last in bytes.

    Args:
        tensor: the map.
        rows: how many rows a gather4 or scatter4 moves (4), None for a plain tile.

    Raises:
        LayoutError: a box that the ISA does not allow or whose layout is not known.
    """
    steps = tensor.element_strides
    counts = [-(-n // step) for n, step in zip(tensor.box, steps, strict=True)]
    if rows is not None:
        if len(counts) != 2 or tensor.box[1] != 1:
            raise LayoutError(
                "tile::gather4 and tile::scatter4 need a tensor of 2 dimensions and a box of 1 row,"
                f" not the box {tensor.box}"
            )
        counts[1] = rows
    row = counts[0] * tensor.element_bytes
    span = tensor.swizzle.value.span
    if steps[0] != 1:
        raise LayoutError(f"element stride {steps[0]} in dimension 0, where only 1 is allowed")
    if row % CHUNK:
        raise LayoutError(f"a box with rows of {row} bytes: they must be a multiple of 16")
    if tensor.swizzle is not Swizzle.NONE and row != span:
        raise LayoutError(
            f"a box with rows of {row} bytes and a swizzle of {span}: how rows are placed that do "
            "not fill the swizzle is not known"
            if row < span
            else f"a box with rows of {row} bytes exceeds its swizzle of {span}"
        )
    return (*reversed(counts[1:]), row)


def block(tensor: TensorMap, coordinates: Sequence[int]) -> Block | None:
    """The global bytes of the box at ``coordinates`` (innermost first); None if all are outside."""
    size = tensor.element_bytes
    shape: list[int] = []
    strides: list[int] = []
    place: list[slice] = []
    address = tensor.address
    pitches = (size, *tensor.strides)
    for start, dim, extent, step, pitch in zip(
        coordinates, tensor.dims, tensor.box, tensor.element_strides, pitches, strict=True
    ):
        count = -(-extent // step)
        first = max(0, -(start // step))
        last = min(count, -((start - dim) // step))
        if last <= first:
            return None
        unit = size if not shape else 1  # bytes of the innermost dimension, else rows
        shape.append((last - first) * unit)
        strides.append(1 if not strides else step * pitch)
        place.append(slice(first * unit, last * unit))
        address += (start + first * step) * pitch
    return Block(address, tuple(shape[::-1]), tuple(strides[::-1]), tuple(place[::-1]))


def rows(tensor: TensorMap, coordinates: Sequence[int]) -> list[Block]:
    """The global bytes of gather4 and scatter4: one block per row that is inside.

    Args:
        tensor: a map of two dimensions.
        coordinates: the column, then four rows.
    """
    column, *lines = coordinates
    found: list[Block] = []
    for number, line in enumerate(lines):
        one = block(tensor, (column, line))
        if one is not None:
            place = (slice(number, number + 1), one.place[1])
            found.append(Block(one.address, one.shape, one.strides, place))
    return found


def box_chunks(shape: tuple[int, ...], start: int, mode: Swizzle) -> NDArray[np.int64]:
    """Numbers (address / 16) of the chunks of a box in shared memory, in the order of the box.

    Args:
        shape: as of `box_shape`.
        start: address in shared memory.
        mode: the swizzle.

    Raises:
        LayoutError: the address is not aligned.
    """
    if start % ALIGNMENT:
        raise LayoutError(
            f"shared-memory address {start:#x} of a tensor copy is not a multiple of {ALIGNMENT}"
        )
    low = start % PERIOD
    return _box_chunks(prod(shape) // CHUNK, low, mode) + (start - low) // CHUNK


def filling(tensor_bytes: int, *, nan: bool) -> bytes:
    """What one element outside of the tensor reads as: zero, or a NaN (all ones but the sign)."""
    return b"\xff" * (tensor_bytes - 1) + b"\x7f" if nan else bytes(tensor_bytes)


@lru_cache(maxsize=1024)
def _box_chunks(count: int, start: int, mode: Swizzle) -> NDArray[np.int64]:
    offsets = np.arange(count, dtype=np.int64) * CHUNK
    result = swizzle(start + offsets, mode) // CHUNK
    result.flags.writeable = False
    return result


@lru_cache(maxsize=256)
def _relative(shape: tuple[int, ...], strides: tuple[int, ...]) -> NDArray[np.int64]:
    result = np.zeros(1, np.int64)
    for count, step in zip(shape, strides, strict=True):
        result = (result[:, None] + np.arange(count, dtype=np.int64) * step).reshape(-1)
    result.flags.writeable = False
    return result

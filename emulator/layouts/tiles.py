"""Tile-mode tensor copies: which global bytes a box names and where they lie in shared memory.

Source: PTX ISA sections 5.5.3 (tiled mode) and 5.5.7; for traversal strides and padded types the
documentation of cuTensorMapEncodeTiled. Dimension 0 of a tensor map is the innermost; arrays here
have the outermost first, and their last dimension counts bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.launch.tensor_map import Element, Fill, Interleave, TensorMap
from schedgen.emulator.layouts.descriptors import CHUNK
from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.layouts.formats import from_float32
from schedgen.emulator.layouts.swizzle import Swizzle, swizzle

ALIGNMENT = 128
"""Of the shared-memory address of a box (CUDA programming guide, multi-dimensional bulk copies)."""


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

    def rows(self) -> NDArray[np.int64]:
        """Global addresses of its rows of ``shape[-1]`` adjacent bytes, flat and not writeable: the
        same array for the same ones, as boxes are copied by many CTAs."""
        return _rows(self.address, self.shape[:-1], self.strides[:-1])


def box_shape(tensor: TensorMap, rows: int | None = None) -> tuple[int, ...]:
    """Extents of a box, the last in bytes of global memory.

    Args:
        tensor: the map.
        rows: how many rows a gather4 or scatter4 moves (4), None for a plain tile.

    Raises:
        LayoutError: a box whose layout is not known.
    """
    if tensor.interleave is not Interleave.NONE:
        raise LayoutError("interleaved tensor maps are not supported; use Interleave.NONE")
    counts = [-(-n // step) for n, step in zip(tensor.box, tensor.element_strides, strict=True)]
    counts[0] = tensor.box[0]
    if rows is not None:
        if len(counts) != 2 or tensor.box[1] != 1:
            raise LayoutError(
                "tile::gather4 and tile::scatter4 need a tensor of 2 dimensions and a box of 1 row,"
                f" not the box {tensor.box}"
            )
        counts[1] = rows
    row = counts[0] * tensor.element.bits // 8
    stored = row if not tensor.element.is_padded else counts[0]
    span = tensor.swizzle.value.span
    if tensor.swizzle is not Swizzle.NONE and stored != span:
        raise LayoutError(
            f"a box with rows of {stored} bytes and a swizzle of {span}: how rows are placed that "
            "do not fill the swizzle is not known; make the rows as long as the swizzle"
        )
    return (*reversed(counts[1:]), row)


def block(tensor: TensorMap, coordinates: Sequence[int]) -> Block | None:
    """The global bytes of the box at ``coordinates`` (innermost first); None if all are outside."""
    bits = tensor.element.bits
    shape: list[int] = []
    strides: list[int] = []
    place: list[slice] = []
    address = tensor.address
    steps = (1, *tensor.element_strides[1:])
    for number, start in enumerate(coordinates):
        step = steps[number]
        first = max(0, -(start // step))
        last = min(-(-tensor.box[number] // step), -((start - tensor.dims[number]) // step))
        if last <= first:
            return None
        if number:
            pitch = step * tensor.strides[number - 1]
            address += start * tensor.strides[number - 1] + first * pitch
        else:
            if start * bits % 8:
                raise LayoutError(f"coordinate {start} of {bits}-bit elements is inside of a byte")
            pitch = 1
            first, last = first * bits // 8, last * bits // 8
            address += start * bits // 8 + first
        shape.append(last - first)
        strides.append(pitch)
        place.append(slice(first, last))
    address %= 1 << 64  # coordinates times strides may go round (seen on an H200)
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


@lru_cache(maxsize=4096)
def box_chunks(size: int, start: int, mode: Swizzle) -> NDArray[np.int64]:
    """Numbers (address / 16) of the chunks of a box in shared memory, in the order of the box.

    Args:
        size: bytes of the box in shared memory, a multiple of 16.
        start: address in shared memory.
        mode: the swizzle.

    Returns:
        (size / 16), not writeable.

    Raises:
        LayoutError: the address is not aligned.
    """
    if start % ALIGNMENT:
        raise LayoutError(
            f"shared-memory address {start:#x} of a tensor copy is not a multiple of {ALIGNMENT}"
        )
    offsets = np.arange(0, size, CHUNK, dtype=np.int64)
    result = swizzle(start + offsets, mode) // CHUNK
    result.flags.writeable = False
    return result


def fill(tensor: TensorMap) -> bytes | None:
    """What elements outside of the tensor read as where that is not zero: one NaN each.

    The ISA does not say which; these are the bits that an H200 writes.
    """
    if tensor.fill is Fill.ZERO:
        return None
    return b"\xf7\x7f" * (tensor.element_bytes // 2)


def converted(data: NDArray[np.uint8], element: Element) -> NDArray[np.uint8]:
    """What a copy to shared memory makes of elements: an H200 rounds those of TF32 maps."""
    if element not in (Element.TF32, Element.TF32_FTZ):
        return data
    words = np.ascontiguousarray(data).view(np.uint32)
    rounded = from_float32(words.view(np.float32), "tf32") & np.uint32(0xFFFFE000)
    return rounded.view(np.uint8).reshape(data.shape)


def padded(box: NDArray[np.uint8], element: Element) -> NDArray[np.uint8]:
    """A box as it lies in shared memory: with gaps behind groups of 16 values of some types.

    Gaps become zero; what they hold on hardware is not specified.
    """
    if not element.is_padded:
        return box
    groups = box.reshape(-1, 2 * element.bits)
    wide = np.zeros((len(groups), CHUNK), np.uint8)
    wide[:, : 2 * element.bits] = groups
    return wide.reshape(*box.shape[:-1], -1)


@lru_cache(maxsize=256)
def _relative(shape: tuple[int, ...], strides: tuple[int, ...]) -> NDArray[np.int64]:
    result = np.zeros(1, np.int64)
    for count, step in zip(shape, strides, strict=True):
        result = (result[:, None] + np.arange(count, dtype=np.int64) * step).reshape(-1)
    result.flags.writeable = False
    return result


@lru_cache(maxsize=4096)
def _rows(address: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> NDArray[np.int64]:
    result = _relative(shape, strides) + address
    result.flags.writeable = False
    return result

"""Shared-memory matrix descriptors of wgmma and tcgen05, and the addresses that they describe.

Sources: PTX ISA sections 9.7.15.5.1.2 (wgmma) and 9.7.16.3, 9.7.16.4.1 (tcgen05); the strides of
the mode with 32-byte atoms are those of CUTLASS ``include/cute/arch/mma_sm100_desc.hpp``.

Every layout keeps 16-byte chunks whole, so that reading an operand means gathering chunks.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.layouts.swizzle import Swizzle, swizzle

CHUNK = 16
"""Bytes that no layout takes apart."""

_WGMMA_SWIZZLES = {0: Swizzle.NONE, 1: Swizzle.B128, 2: Swizzle.B64, 3: Swizzle.B32}
_TCGEN05_SWIZZLES = {
    0: Swizzle.NONE,
    1: Swizzle.B128_ATOM32,
    2: Swizzle.B128,
    4: Swizzle.B64,
    6: Swizzle.B32,
}


class MatrixDescriptor(NamedTuple):
    """A decoded descriptor.

    Attributes:
        start: address of the matrix in bytes, modulo 2^18.
        leading: leading dimension byte offset (LBO).
        stride: stride dimension byte offset (SBO).
        swizzle: the swizzle of the layout.
        base_offset: line of the pattern's start modulo 8, 0 where it is aligned to its size.
    """

    start: int
    leading: int
    stride: int
    swizzle: Swizzle
    base_offset: int = 0


@lru_cache(maxsize=4096)
def decode_wgmma(value: int) -> MatrixDescriptor:
    """Decode a 64-bit descriptor of `wgmma` (section 9.7.15.5.1.2.2)."""
    return _decoded(value, _WGMMA_SWIZZLES[value >> 62 & 3])


@lru_cache(maxsize=4096)
def decode_tcgen05(value: int) -> MatrixDescriptor:
    """Decode a 64-bit descriptor of `tcgen05` (section 9.7.16.4.1, Table 40).

    Raises:
        LayoutError: a constant field has another value, the swizzle is invalid, or the leading
            dimension is an absolute address (sm_103a).
    """
    constant, mode = value >> 46 & 7, value >> 61 & 7
    if constant != 1:
        raise LayoutError(
            f"matrix descriptor {value:#018x}: bits 48..46 are {constant:#05b}, must be 0b001 for "
            "tcgen05 (a wgmma descriptor has no such field)"
        )
    if value >> 52 & 1:
        raise LayoutError(
            f"matrix descriptor {value:#018x}: bit 52 asks for an absolute leading dimension, "
            "which only sm_103a has"
        )
    if reserved := value >> 53 & 0xFF:
        raise LayoutError(
            f"matrix descriptor {value:#018x}: bits 60..53 are {reserved:#x}, must be 0"
        )
    if mode not in _TCGEN05_SWIZZLES:
        raise LayoutError(
            f"matrix descriptor {value:#018x}: swizzle {mode} in bits 63..61 is invalid; valid "
            "are 0 (none), 1 (128 bytes, 32-byte atoms), 2 (128), 4 (64) and 6 (32)"
        )
    return _decoded(value, _TCGEN05_SWIZZLES[mode])


@lru_cache(maxsize=4096)
def chunks(
    matrix: MatrixDescriptor, rows: int, k: int, bits: int, *, k_major: bool
) -> NDArray[np.int64]:
    """Numbers (address / 16) of the chunks of an operand, in the order of its memory layout.

    Args:
        matrix: its descriptor.
        rows: M of A or N of B.
        k: length of the product.
        bits: of an element as stored (6-bit and padded 4-bit types count 8).
        k_major: whether elements along K are adjacent; else those along M or N.

    Returns:
        (rows, k * bits / 128) if K-major, (k, rows * bits / 128) else; not writeable.

    Raises:
        LayoutError: the shape does not fit the swizzle.
    """
    mode, start = matrix.swizzle, matrix.start
    length = (k if k_major else rows) * bits
    if length % (8 * CHUNK):
        raise LayoutError(
            f"{k if k_major else rows} elements of {bits} bits along the major dimension are no "
            "multiple of 16 bytes"
        )
    span = mode.value.span
    inside = length // 8 if k_major else min(length // 8, span)
    if mode is not Swizzle.NONE and start % span + inside > span:
        raise LayoutError(
            f"matrix at {start % span} bytes into a row of {span} bytes: the next {inside} bytes "
            f"of its major dimension leave the {span}-byte swizzle"
        )
    major = np.arange(length // (8 * CHUNK), dtype=np.int64)  # in chunks
    minor = np.arange(rows if k_major else k, dtype=np.int64)[:, None]
    place = _k_major if k_major else _mn_major
    offsets = place(major, minor, matrix.leading, matrix.stride, mode)
    result = swizzle(start + offsets, mode, matrix.base_offset) // CHUNK
    result.flags.writeable = False
    return result


@lru_cache(maxsize=4096)
def touched(
    matrix: MatrixDescriptor, rows: int, k: int, bits: int, *, k_major: bool
) -> NDArray[np.int64]:
    """Addresses of all chunks of an operand, flat, rising and not writeable; see `chunks`."""
    # As np.unique, which imports numpy.ma.
    every = np.sort(chunks(matrix, rows, k, bits, k_major=k_major), axis=None)
    result = every[np.concatenate([[True], every[1:] != every[:-1]])] * CHUNK
    result.flags.writeable = False
    return result


@dataclass(frozen=True, slots=True)
class Matrix:
    """An operand in shared memory: its descriptor, its `chunks` in their order, and their
    addresses as `touched` has them."""

    descriptor: MatrixDescriptor
    places: NDArray[np.int64]
    index: NDArray[np.int64]


def matrix_of(
    descriptor: MatrixDescriptor, rows: int, k: int, bits: int, *, k_major: bool
) -> Matrix:
    """The operand of a descriptor; arguments as of `chunks`.

    Raises:
        LayoutError: shape and swizzle do not fit together.
    """
    places = chunks(descriptor, rows, k, bits, k_major=k_major)
    return Matrix(descriptor, places, touched(descriptor, rows, k, bits, k_major=k_major))


def addresses(
    matrix: MatrixDescriptor, rows: int, k: int, bits: int, *, k_major: bool
) -> NDArray[np.int64]:
    """Byte address of every element; arguments as of `chunks`, ``bits`` at least 8.

    Returns:
        (rows, k).
    """
    first = chunks(matrix, rows, k, bits, k_major=k_major) * CHUNK
    each = first[:, :, None] + np.arange(0, CHUNK, bits // 8, dtype=np.int64)
    flat = each.reshape(len(first), -1)
    return flat if k_major else flat.T


def _decoded(value: int, mode: Swizzle) -> MatrixDescriptor:
    base_offset = value >> 49 & 7
    if base_offset and mode is Swizzle.NONE:
        raise LayoutError(
            f"matrix descriptor {value:#018x}: base offset {base_offset} without a swizzle"
        )
    return MatrixDescriptor(
        start=(value & 0x3FFF) << 4,
        leading=(value >> 16 & 0x3FFF) << 4,
        stride=(value >> 32 & 0x3FFF) << 4,
        swizzle=mode,
        base_offset=base_offset,
    )


def _k_major(
    chunk: NDArray[np.int64], row: NDArray[np.int64], leading: int, stride: int, mode: Swizzle
) -> NDArray[np.int64]:
    if mode is Swizzle.B128_ATOM32:
        raise LayoutError("the 128-byte swizzle with 32-byte atoms has no K-major layout")
    group = (row // 8) * stride + (row % 8) * mode.value.span
    return group + chunk * (leading if mode is Swizzle.NONE else CHUNK)


def _mn_major(
    chunk: NDArray[np.int64], k: NDArray[np.int64], leading: int, stride: int, mode: Swizzle
) -> NDArray[np.int64]:
    if mode is Swizzle.NONE:
        return chunk * stride + (k % 8) * CHUNK + (k // 8) * leading
    span = mode.value.span
    wide = span // CHUNK
    deep = 4 if mode is Swizzle.B128_ATOM32 else 8
    return (
        (chunk // wide) * leading
        + (chunk % wide) * CHUNK
        + (k % deep) * span
        + (k // deep) * stride
    )

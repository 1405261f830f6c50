"""Shared-memory swizzles: a permutation of the 16-byte chunks of 128-byte lines.

Source: PTX ISA section 5.5.7 (Swizzling Modes); the modes with 16-byte atoms are CuTe's
``Swizzle<B, 4, 3>`` (CUTLASS ``include/cute/swizzle.hpp``). All modes exchange chunks by an XOR
with bits of the absolute address, and each is its own inverse.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

Addresses = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pattern:
    """How a mode changes the bits of an address.

    Attributes:
        span: bytes of a row of a tile, at most (the width of a swizzle atom).
        lines: mask of the bits of the line number (address / 128) that take part.
        shift: how far these bits go to the left in the chunk number (address / 16).
        repeat: bytes after which the pattern repeats.
        align: bytes to which shared memory must be aligned, the size of what stays together.
        flip: whether the 8-byte halves of chunks are exchanged on every other line.
    """

    span: int
    lines: int
    shift: int
    repeat: int
    align: int = 16
    flip: bool = False


class Swizzle(Enum):
    """The modes, named by span and, where that is not 16, by the bytes that stay together."""

    __hash__ = object.__hash__  # that of Enum takes longer, and is a part of many keys

    NONE = Pattern(span=16, lines=0, shift=0, repeat=16)
    B32 = Pattern(span=32, lines=1, shift=0, repeat=256)
    B64 = Pattern(span=64, lines=3, shift=0, repeat=512)
    B96 = Pattern(span=96, lines=1, shift=0, repeat=256)
    B128 = Pattern(span=128, lines=7, shift=0, repeat=1024)
    B128_ATOM32 = Pattern(span=128, lines=3, shift=1, repeat=512, align=32)
    B128_ATOM32_FLIP8 = Pattern(span=128, lines=3, shift=1, repeat=512, align=32, flip=True)
    B128_ATOM64 = Pattern(span=128, lines=1, shift=2, repeat=256, align=64)


def swizzle(addresses: Addresses, mode: Swizzle, base_offset: int = 0) -> Addresses:
    """Where bytes of an unswizzled layout lie.

    Args:
        addresses: absolute byte addresses in shared memory, any shape.
        mode: the swizzle.
        base_offset: line (0..7) at which the pattern starts, where that is not a multiple of its
            size: the matrix base offset of descriptors. How it enters the XOR is our reading.
    """
    pattern = mode.value
    if not pattern.lines:
        return addresses
    lines = addresses >> 7
    if base_offset:
        lines = lines - base_offset
    moved = addresses ^ ((lines & pattern.lines) << (4 + pattern.shift))
    if pattern.flip:
        # Which lines are flipped is only in a figure of the ISA: odd ones, as we read it.
        moved = moved ^ ((lines & 1) << 3)
    return moved

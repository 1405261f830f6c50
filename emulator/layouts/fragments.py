"""Register fragments of wgmma and mma.sync: which element of a matrix lies in which register.

Sources: PTX ISA sections 9.7.15.5.1.1 and 9.7.14.5 (figures); the formulas are those of CUTLASS
``include/cute/atom/mma_traits_sm90_gmma.hpp`` and ``mma_traits_sm80.hpp``.

Fragments are arrays of 32-bit registers, (registers, threads).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Registers = NDArray[np.uint32]

WARPGROUP = 128


def accumulator(matrix: NDArray[Any]) -> NDArray[Any]:
    """D of wgmma, one element per register.

    Thread t of a warpgroup has rows ``16 (t / 32) + t / 4 mod 8`` and that plus 8; register
    ``v0 + 2 v1 + 4 v2`` is row half v1, column ``8 v2 + 2 (t mod 4) + v0``.

    Args:
        matrix: (64, n).

    Returns:
        (n / 2, 128).
    """
    warp, half, group, column, pair = 4, 2, 8, 4, 2
    parts = matrix.reshape(warp, half, group, -1, column, pair)
    return parts.transpose(3, 1, 5, 0, 2, 4).reshape(-1, WARPGROUP)


def from_accumulator(registers: NDArray[Any]) -> NDArray[Any]:
    """The inverse of `accumulator`: (n / 2, 128) registers to (64, n)."""
    parts = registers.reshape(-1, 2, 2, 4, 8, 4)
    return parts.transpose(3, 1, 4, 0, 5, 2).reshape(64, -1)


def from_operand(registers: Registers, bits: int) -> NDArray[Any]:
    """A of wgmma in registers.

    Args:
        registers: (4, 128); register ``v1 + 2 v2`` of thread t has row half v1, and
            ``q = 32 / bits`` elements from column ``q (t mod 4) + 4 q v2`` on.
        bits: of an element: 1 (bytes of eight are returned), 8, 16 or 32.

    Returns:
        (64, 8 q) unsigned codes.
    """
    codes = np.ascontiguousarray(registers).view(f"u{max(bits, 8) // 8}")
    parts = codes.reshape(2, 2, 4, 8, 4, -1)  # v2, v1, warp, group, column, element
    return parts.transpose(2, 1, 3, 0, 4, 5).reshape(64, -1)


def warp_operand_a(registers: Registers, bits: int) -> NDArray[Any]:
    """A of mma.sync.m16n8.

    Args:
        registers: (2 or 4, 32): register ``v1 + 2 v2`` as in `from_operand`.
        bits: of an element.

    Returns:
        (16, k) unsigned codes.
    """
    codes = np.ascontiguousarray(registers).view(f"u{bits // 8}")
    parts = codes.reshape(-1, 2, 8, 4, 32 // bits)  # v2, v1, group, column, element
    return parts.transpose(1, 2, 0, 3, 4).reshape(16, -1)


def warp_operand_b(registers: Registers, bits: int) -> NDArray[Any]:
    """B of mma.sync.m16n8, transposed.

    Args:
        registers: (1 or 2, 32): thread t has column ``t / 4``; register v2 its elements from
            ``q (t mod 4) + 4 q v2`` on.
        bits: of an element.

    Returns:
        (8, k) unsigned codes: rows are columns of B.
    """
    codes = np.ascontiguousarray(registers).view(f"u{bits // 8}")
    parts = codes.reshape(-1, 8, 4, 32 // bits)  # v2, group, column, element
    return parts.transpose(1, 0, 2, 3).reshape(8, -1)


def warp_accumulator(matrix: NDArray[Any]) -> NDArray[Any]:
    """C and D of mma.sync.m16n8, one element per register: (16, 8) to (4, 32)."""
    parts = matrix.reshape(2, 8, 4, 2)  # half, group, column, pair
    return parts.transpose(0, 3, 1, 2).reshape(4, 32)


def from_warp_accumulator(registers: NDArray[Any]) -> NDArray[Any]:
    """The inverse of `warp_accumulator`: (4, 32) to (16, 8)."""
    return registers.reshape(2, 2, 8, 4).transpose(0, 2, 3, 1).reshape(16, 8)


def halves(registers: Registers) -> Registers:
    """f16 accumulators out of packed registers: (r, threads) to (2 r, threads)."""
    both = np.stack([registers & np.uint32(0xFFFF), registers >> np.uint32(16)], axis=1)
    return both.reshape(-1, registers.shape[1])


def packed(registers: Registers) -> Registers:
    """The inverse of `halves`; high halves of the registers do not count."""
    low, high = registers[::2] & np.uint32(0xFFFF), registers[1::2]
    return low | high << np.uint32(16)

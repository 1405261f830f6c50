"""Products of tensor cores: values of operands, sums in float32 or int32.

Order and rounding of the sums are not specified by the ISA (section 9.7.15.5.2); here they are
those of a float32 matrix product. Data whose sums are exact in float32 give exact results.
Infinities and NaN are ordinary values: callers see to it that numpy does not warn of them, once for
a launch (`machine.launch.execute`).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.layouts.descriptors import CHUNK, MatrixDescriptor, chunks
from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.layouts.formats import FORMATS, Bits, Floats, from_float32, to_float32

Chunks = NDArray[np.void]
"""Memory seen in units of 16 bytes."""
CHUNK_TYPE = np.dtype(f"V{CHUNK}")
Words = NDArray[np.uint32]

_ONE_THREAD = 1 << 18
"""Multiplications up to which OpenBLAS does not start threads."""
_CODES = {4: np.uint8, 6: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32}


def values(codes: Bits, format_: str) -> Floats:
    """What codes of an operand mean, exactly.

    Args:
        codes: unsigned integers that hold one code each; bytes of 8 codes each for ``b1``.
        format_: a key of `formats.FORMATS`, ``s8``, ``u8`` or ``b1``.
    """
    match format_:
        case "s8":
            return codes.view(np.int8).astype(np.float32)
        case "u8":
            return codes.astype(np.float32)
        case "b1":
            return np.unpackbits(codes, axis=-1, bitorder="little").astype(np.float32)
        case _:
            return to_float32(codes, format_)


def operand(
    memory: Chunks,
    matrix: MatrixDescriptor,
    rows: int,
    k: int,
    format_: str,
    *,
    bits: int,
    k_major: bool,
) -> Floats:
    """Values of an operand in shared memory.

    Args:
        memory: shared memory of the block.
        matrix: the descriptor of the operand.
        rows: M of A or N of B.
        k: length of the product.
        format_: as of `values`.
        bits: that an element takes in memory. Types of 4 and 6 bits that take 8 fill the first 8
            and 12 bytes of each chunk of 16 elements (section 9.7.16.10.4.4).
        k_major: whether elements along K are adjacent.

    Returns:
        (rows, k).

    Raises:
        LayoutError: shape and swizzle do not fit together, or the matrix leaves the memory.
    """
    places = chunks(matrix, rows, k, bits, k_major=k_major)
    try:
        return operand_at(memory, places, format_, bits=bits, k_major=k_major)
    except IndexError:
        raise LayoutError(
            f"matrix at shared-memory address {matrix.start:#x} (strides {matrix.leading} and "
            f"{matrix.stride} bytes) ends at {int(places.max() + 1) * CHUNK:#x}, beyond the "
            f"block's {len(memory) * CHUNK:#x} bytes"
        ) from None


def operand_at(
    memory: Chunks, places: NDArray[np.int64], format_: str, *, bits: int, k_major: bool
) -> Floats:
    """The same, of the chunks that `descriptors.chunks` found.

    Raises:
        IndexError: the matrix leaves the memory.
    """
    codes = _codes(memory[places], format_, bits)
    result = values(codes, format_).reshape(len(places), -1)
    return result if k_major else result.T


def multiply(a: Floats, b: Floats) -> Floats:
    """``a[m, k] · b[n, k]`` summed over k in float32: (m, n).

    In parts that BLAS computes in one thread: for more it takes several, which on a machine with
    other work costs many times what it saves.
    """
    (m, k), n = a.shape, len(b)
    columns = max(_ONE_THREAD // (m * k), 8)
    if n <= columns:
        return a @ b.T
    result = np.empty((m, n), np.float32)
    for first in range(0, n, columns):
        part = slice(first, first + columns)
        np.matmul(a, b[part].T, out=result[:, part])
    return result


def accumulate(
    product: Floats, words: Words | None, d: str, *, scale: int = 0, saturate: bool = False
) -> Words:
    """``D = product + D · 2^-scale``, rounded to the type of D.

    Args:
        product: (m, n); changed, and perhaps returned.
        words: (m, n) old accumulators, one per 32-bit word, or None for zero.
        d: ``f32``, ``s32``, or ``f16`` in the low half of a word.
        scale: 0..15, for floating-point types.
        saturate: whether s32 stops at its limits instead of wrapping around.

    Returns:
        (m, n) new accumulators; the high half of a word is 0 for f16.
    """
    if d == "s32":
        total = product.astype(np.int64)
        if words is not None:
            total = total + words.view(np.int32)
        if saturate:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        return total.astype(np.int32).view(np.uint32)
    if words is not None:
        old = words.view(np.float32) if d == "f32" else to_float32(words, "f16")
        if scale:
            old = np.ldexp(old, np.int32(-scale))
        product += old
    if d == "f16":
        return from_float32(product, "f16").astype(np.uint32)
    return product.view(np.uint32)


def block_scaled(operand_: Floats, scales: Bits, format_: str) -> Floats:
    """An operand (rows, k) times its scales (rows, k / block), as block-scaled kinds do it."""
    factors = to_float32(scales, format_)
    return operand_ * np.repeat(factors, operand_.shape[1] // factors.shape[1], axis=1)


def _codes(found: Chunks, format_: str, bits: int) -> NDArray[Any]:
    """Codes of chunks, in order."""
    width = FORMATS[format_].bits if format_ in FORMATS else bits
    if bits == 4:
        halves = found.view(np.uint8)
        return np.stack([halves & np.uint8(15), halves >> np.uint8(4)], axis=-1).reshape(-1)
    if bits != 8 or width == 8:
        return found.reshape(-1).view(_CODES.get(bits, np.uint8))
    return _unpacked(found, width).reshape(-1)


def _unpacked(found: Chunks, width: int) -> NDArray[np.uint8]:
    """Codes of 4 or 6 bits that fill the beginning of each chunk, in low bits: (chunks, 16)."""
    used = found.reshape(-1).view(np.uint8).reshape(-1, CHUNK)[:, : 2 * width]
    flat = np.unpackbits(used, axis=1, bitorder="little").reshape(-1, CHUNK, width)
    return np.packbits(flat, axis=2, bitorder="little").reshape(-1, CHUNK)


def holders(found: Chunks, width: int) -> Chunks:
    """What ``tcgen05.cp`` with decompression makes of chunks: each code of ``width`` bits, 4 or 6,
    in the middle of a byte, as operands in tensor memory are (CUTLASS's example
    ``cp_narrow_a_to_tmem_mma`` says which bits; the ISA has them in a figure).
    """
    codes = _unpacked(found, width) << np.uint8((8 - width) // 2)
    return np.ascontiguousarray(codes).reshape(*found.shape[:1], -1).view(found.dtype)


def held(holders_: NDArray[np.uint8], format_: str) -> NDArray[np.uint8]:
    """Codes of bytes in tensor memory: as they are, or in the middle if they have fewer bits."""
    width = FORMATS[format_].bits if format_ in FORMATS else 8
    return holders_ >> np.uint8((8 - width) // 2)

"""Products of random operands laid out here by the canonical layouts, against integer sums."""

import numpy as np
import pytest
from numpy.typing import NDArray

from schedgen.emulator.layouts.descriptors import MatrixDescriptor, addresses
from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.layouts.formats import from_float32, to_float32
from schedgen.emulator.layouts.products import (
    CHUNK_TYPE,
    accumulate,
    block_scaled,
    multiply,
    operand,
    values,
)
from schedgen.emulator.layouts.swizzle import Swizzle

SMALL = np.random.default_rng(0)


def stored(
    matrix: MatrixDescriptor, codes: NDArray[np.generic], *, k_major: bool
) -> NDArray[np.void]:
    """Shared memory with an operand written element by element."""
    memory = np.zeros(64 * 1024, np.uint8)
    size = codes.dtype.itemsize
    rows, k = codes.shape
    places = addresses(matrix, rows, k, 8 * size, k_major=k_major)
    bytes_ = np.ascontiguousarray(codes).view(np.uint8).reshape(*codes.shape, size)
    memory[places[:, :, None] + np.arange(size)] = bytes_
    return memory.view(CHUNK_TYPE)


@pytest.mark.parametrize("name", ["f16", "bf16", "tf32", "e4m3", "e5m2"])
@pytest.mark.parametrize("k_major", [True, False])
def test_operands_of_all_sizes(name: str, k_major: bool) -> None:
    codes = from_float32(SMALL.integers(-4, 5, (128, 16)).astype(np.float32), name)
    swizzle = Swizzle.B128
    if codes.dtype.itemsize == 4 and not k_major:
        swizzle = Swizzle.B128_ATOM32
    matrix = MatrixDescriptor(2048, 8192, 1024, swizzle)
    memory = stored(matrix, codes, k_major=k_major)
    bits = 8 * codes.dtype.itemsize
    found = operand(memory, matrix, 128, 16, name, bits=bits, k_major=k_major)
    assert np.array_equal(found, to_float32(codes, name))


@pytest.mark.parametrize(("name", "bits"), [("e2m1", 4), ("e2m3", 6), ("e3m2", 6)])
def test_padded_operands(name: str, bits: int) -> None:
    codes = SMALL.integers(0, 1 << bits, (8, 32)).astype(np.uint8)
    memory = np.full((8, 2, 16), 0xAA, np.uint8)
    for row in range(8):
        for half in range(2):
            word = sum(int(codes[row, 16 * half + i]) << (bits * i) for i in range(16))
            memory[row, half, : 2 * bits] = list(word.to_bytes(2 * bits, "little"))
    matrix = MatrixDescriptor(0, 16, 256, Swizzle.B32)
    view = memory.reshape(-1).view(CHUNK_TYPE)
    # 8 rows of 32 bytes are one swizzle atom of 32 bytes; rows 4 to 7 exchange their chunks
    memory[4:] = memory[4:, ::-1].copy()
    found = operand(view, matrix, 8, 32, name, bits=8, k_major=True)
    assert np.array_equal(found, to_float32(codes, name))


def test_packed_four_bit_operands() -> None:
    codes = SMALL.integers(0, 16, (8, 64)).astype(np.uint8)
    memory = (codes[:, ::2] | codes[:, 1::2] << 4).reshape(8, 2, 16)
    memory[4:] = memory[4:, ::-1].copy()
    matrix = MatrixDescriptor(0, 16, 256, Swizzle.B32)
    view = memory.reshape(-1).view(CHUNK_TYPE)
    found = operand(view, matrix, 8, 64, "e2m1", bits=4, k_major=True)
    assert np.array_equal(found, to_float32(codes, "e2m1"))


def test_a_matrix_beyond_its_memory() -> None:
    memory = np.zeros(1024, np.uint8).view(CHUNK_TYPE)
    matrix = MatrixDescriptor(0, 16, 1024, Swizzle.B128)
    with pytest.raises(LayoutError, match="ends at 0x800, beyond the block's 0x400 bytes"):
        operand(memory, matrix, 16, 16, "f16", bits=16, k_major=True)


def test_large_products_are_computed_in_parts() -> None:
    a, b = (SMALL.integers(-8, 9, (rows, 96)).astype(np.float32) for rows in (128, 250))
    assert np.array_equal(multiply(a, b), (a.astype(int) @ b.T.astype(int)).astype(np.float32))


def test_single_bits_count_common_ones() -> None:
    a, b = (SMALL.integers(0, 256, (4, 32)).astype(np.uint8) for _ in range(2))
    found = multiply(values(a, "b1"), values(b, "b1"))
    for m in range(4):
        for n in range(4):
            both = int.from_bytes(a[m].tobytes(), "little") & int.from_bytes(
                b[n].tobytes(), "little"
            )
            assert found[m, n] == both.bit_count()


def test_integers_wrap_or_saturate() -> None:
    a = values(np.full((1, 32), 0x80, np.uint8), "s8")
    b = values(np.full((1, 32), 0xFF, np.uint8), "u8")
    product = multiply(a, b)
    assert product[0, 0] == -128 * 255 * 32
    old = np.array([[-(1 << 31)]], np.int32).view(np.uint32)
    assert accumulate(product, None, "s32").view(np.int32)[0, 0] == -128 * 255 * 32
    wrapped = accumulate(product, old, "s32").view(np.int32)[0, 0]
    assert wrapped == (1 << 31) - 128 * 255 * 32
    stopped = accumulate(product, old, "s32", saturate=True).view(np.int32)[0, 0]
    assert stopped == -(1 << 31)


def test_accumulators_of_both_float_types() -> None:
    product = np.array([[1.5, -2.0]], np.float32)
    old = np.array([[8.0, 4.0]], np.float32).view(np.uint32)
    assert accumulate(product.copy(), old, "f32").view(np.float32).tolist() == [[9.5, 2.0]]
    assert accumulate(product.copy(), old, "f32", scale=3).view(np.float32).tolist() == [
        [2.5, -1.5]
    ]
    half = np.array([[0xABCD0000 | 0x3C00, 0x3C00]], np.uint32)  # 1.0, with rubbish above
    found = accumulate(product, half, "f16")
    assert (found >> 16 == 0).all()
    assert to_float32(found, "f16").tolist() == [[2.5, -1.0]]


def test_block_scales_multiply_runs_of_k() -> None:
    scales = np.array([[127, 128], [126, 129]], np.uint8)
    found = block_scaled(np.ones((2, 8), np.float32), scales, "ue8m0")
    assert found.tolist() == [[1] * 4 + [2] * 4, [0.5] * 4 + [4] * 4]

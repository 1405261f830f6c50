"""Register fragments against CuTe's layouts of (thread, value), evaluated here.

The layouts are those of CUTLASS ``include/cute/atom/mma_traits_sm90_gmma.hpp`` and
``mma_traits_sm80.hpp``: shapes and strides of threads and of values, in elements of a column-major
matrix.
"""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from schedgen.emulator.layouts import fragments

Modes = Sequence[tuple[int, int]]
"""(extent, stride) of each mode, the fastest first."""


def offset(coordinate: int, modes: Modes) -> int:
    total = 0
    for extent, stride in modes:
        total += coordinate % extent * stride
        coordinate //= extent
    return total


def positions(threads: Modes, values: Modes, rows: int) -> NDArray[np.int64]:
    """(values, threads, 2): row and column of each value of each thread."""
    counts = [int(np.prod([extent for extent, _ in modes])) for modes in (values, threads)]
    result = np.zeros((*counts, 2), np.int64)
    for value in range(counts[0]):
        for thread in range(counts[1]):
            at = offset(thread, threads) + offset(value, values)
            result[value, thread] = at % rows, at // rows
    return result


@pytest.mark.parametrize("n", [8, 24, 256])
def test_accumulator_of_wgmma(n: int) -> None:
    where = positions([(4, 128), (8, 1), (4, 16)], [(2, 64), (2, 8), (n // 8, 512)], rows=64)
    matrix = np.arange(64 * n).reshape(64, n)
    registers = fragments.accumulator(matrix)
    assert np.array_equal(registers, matrix[where[..., 0], where[..., 1]])
    assert np.array_equal(fragments.from_accumulator(registers), matrix)


@pytest.mark.parametrize(
    ("bits", "threads", "values"),
    [
        (32, [(4, 64), (8, 1), (4, 16)], [(2, 8), (2, 256)]),
        (16, [(4, 128), (8, 1), (4, 16)], [(2, 64), (2, 8), (2, 512)]),
        (8, [(4, 256), (8, 1), (4, 16)], [(4, 64), (2, 8), (2, 1024)]),
    ],
)
def test_operand_of_wgmma(bits: int, threads: Modes, values: Modes) -> None:
    where = positions(threads, values, rows=64)
    k = 256 // bits
    matrix = np.random.default_rng(0).integers(0, 1 << bits, (64, k), f"u{bits // 8}")
    each = matrix[where[..., 0], where[..., 1]]  # (values, threads)
    registers = pack(each, bits)
    assert registers.shape == (4, 128)
    assert np.array_equal(fragments.from_operand(registers, bits), matrix)


@pytest.mark.parametrize(
    ("bits", "k", "a_values", "b_values"),
    [
        (16, 8, [(2, 16), (2, 8)], [(2, 8)]),
        (16, 16, [(2, 16), (2, 8), (2, 128)], [(2, 8), (2, 64)]),
        (32, 4, [(2, 8)], []),
        (32, 8, [(2, 8), (2, 64)], [(2, 32)]),
        (8, 32, [(4, 16), (2, 8), (2, 256)], [(4, 8), (2, 128)]),
    ],
)
def test_operands_of_mma_sync(bits: int, k: int, a_values: Modes, b_values: Modes) -> None:
    per = 32 // bits
    for rows, values, read in (
        (16, a_values, fragments.warp_operand_a),
        (8, b_values, fragments.warp_operand_b),
    ):
        where = positions([(4, rows * per), (8, 1)], values, rows)
        matrix = np.random.default_rng(0).integers(0, 1 << bits, (rows, k), f"u{bits // 8}")
        registers = pack(matrix[where[..., 0], where[..., 1]], bits)
        assert np.array_equal(read(registers, bits), matrix)


def test_accumulator_of_mma_sync() -> None:
    where = positions([(4, 32), (8, 1)], [(2, 16), (2, 8)], rows=16)
    matrix = np.arange(128).reshape(16, 8)
    registers = fragments.warp_accumulator(matrix)
    assert np.array_equal(registers, matrix[where[..., 0], where[..., 1]])
    assert np.array_equal(fragments.from_warp_accumulator(registers), matrix)


def test_packed_half_precision_accumulators() -> None:
    registers = np.array([[0x00020001], [0x00040003]], np.uint32)
    assert fragments.halves(registers).tolist() == [[1], [2], [3], [4]]
    assert np.array_equal(fragments.packed(fragments.halves(registers)), registers)


def pack(each: NDArray[np.unsignedinteger], bits: int) -> NDArray[np.uint32]:  # pyright: ignore[reportMissingTypeArgument]
    """Values in order, 32 / bits of them per register."""
    per = 32 // bits
    groups = each.reshape(-1, per, each.shape[1]).astype(np.uint64)
    total = sum(groups[:, i] << np.uint64(bits * i) for i in range(per))
    return np.asarray(total).astype(np.uint32)

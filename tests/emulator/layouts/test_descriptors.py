"""Addresses of operands against CuTe's canonical layouts, evaluated element by element here."""

import numpy as np
import pytest

from schedgen.emulator.layouts.descriptors import (
    MatrixDescriptor,
    addresses,
    chunks,
    decode_tcgen05,
    decode_wgmma,
    touched,
)
from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.layouts.swizzle import Swizzle

Nested = int | tuple["Nested", ...]

WIDTH = {Swizzle.NONE: 1, Swizzle.B32: 2, Swizzle.B64: 4, Swizzle.B128: 8}


def crd2idx(coordinate: int, shape: Nested, stride: Nested) -> int:
    """CuTe's mapping of a linear coordinate of one mode to an offset."""
    if isinstance(shape, int):
        assert isinstance(stride, int)
        return coordinate * stride
    assert isinstance(stride, tuple)
    offset = 0
    for inner, step in zip(shape, stride, strict=True):
        assert isinstance(inner, int)
        offset += crd2idx(coordinate % inner, inner, step)
        coordinate //= inner
    return offset


def canonical(
    mode: Swizzle, t: int, lbo: int, sbo: int, *, k_major: bool
) -> tuple[tuple[Nested, Nested], tuple[Nested, Nested]]:
    """Shape and stride in elements, rows then columns: PTX ISA section 9.7.16.3.3."""
    w, m, k = WIDTH[mode], 64, 64
    if k_major:
        inner = lbo if mode is Swizzle.NONE else t
        return ((8, m), (t, 2 * k)), ((w * t, sbo), (1, inner))
    if mode is Swizzle.NONE:
        return ((t, 1, m), (8, k)), ((1, t, sbo), (t, lbo))
    return ((t, w, m), (8, k)), ((1, t, lbo), (w * t, sbo))


@pytest.mark.parametrize("mode", WIDTH)
@pytest.mark.parametrize("k_major", [True, False])
@pytest.mark.parametrize("element", [1, 2, 4])
def test_canonical_layouts_of_cute(mode: Swizzle, k_major: bool, element: int) -> None:
    rows, k, start = 64, 32 // element, 3 * 1024
    lbo, sbo = 2048, 4096 + 1024
    matrix = MatrixDescriptor(start, lbo, sbo, mode)
    found = addresses(matrix, rows, k, 8 * element, k_major=k_major)
    bits = {1: 0, 2: 1, 4: 2, 8: 3}[WIDTH[mode]]
    t = 16 // element
    shape, stride = canonical(mode, t, lbo // element, sbo // element, k_major=k_major)
    for row in range(0, rows, 3):
        for column in range(k):
            offset = crd2idx(row, shape[0], stride[0]) + crd2idx(column, shape[1], stride[1])
            byte = start + offset * element
            byte ^= ((byte >> 7) & ((1 << bits) - 1)) << 4
            assert found[row, column] == byte


def test_atoms_of_32_bytes_for_transposed_tf32() -> None:
    matrix = MatrixDescriptor(2048, leading=512, stride=8192, swizzle=Swizzle.B128_ATOM32)
    found = addresses(matrix, 64, 8, 32, k_major=False)
    for row in range(64):
        for k in range(8):
            byte = 2048 + row // 32 * 512 + row % 32 * 4 + k % 4 * 128 + k // 4 * 8192
            assert found[row, k] == byte ^ ((byte >> 7) & 3) << 5
    with pytest.raises(LayoutError, match="no K-major layout"):
        addresses(matrix, 64, 8, 32, k_major=True)


def test_advancing_the_start_by_a_k_step_addresses_the_next_slice() -> None:
    tile = MatrixDescriptor(1024, 16, 1024, Swizzle.B128)
    whole = addresses(tile, 128, 64, 16, k_major=True)
    for step in range(4):
        part = MatrixDescriptor(1024 + 32 * step, 16, 1024, Swizzle.B128)
        found = addresses(part, 128, 16, 16, k_major=True)
        assert np.array_equal(found, whole[:, 16 * step : 16 * (step + 1)])


def test_a_pattern_that_starts_at_another_line_has_a_base_offset() -> None:
    aligned = addresses(MatrixDescriptor(0, 16, 1024, Swizzle.B128), 64, 16, 16, k_major=True)
    moved = MatrixDescriptor(256, 16, 1024, Swizzle.B128, base_offset=2)
    assert np.array_equal(addresses(moved, 64, 16, 16, k_major=True), aligned + 256)


def test_chunks_cover_what_is_touched() -> None:
    matrix = MatrixDescriptor(160 * 1024 + 64, 16, 1024, Swizzle.B128)
    found = chunks(matrix, 128, 16, 16, k_major=True)
    assert found.shape == (128, 2)
    every = addresses(matrix, 128, 32, 8, k_major=True)
    bytes_ = touched(matrix, 128, 16, 16, k_major=True)[:, None] + np.arange(16)
    assert np.array_equal(np.sort(every.ravel()), bytes_.ravel())
    assert chunks(matrix, 32, 16, 16, k_major=False).shape == (16, 4)


def test_decoding() -> None:
    value = 0x123 | 0x40 << 16 | 0x80 << 32 | 5 << 49 | 1 << 62
    assert decode_wgmma(value) == MatrixDescriptor(0x1230, 0x400, 0x800, Swizzle.B128, 5)
    modes = {1: Swizzle.B128, 2: Swizzle.B64, 3: Swizzle.B32, 0: Swizzle.NONE}
    assert {code: decode_wgmma(code << 62).swizzle for code in modes} == modes
    value = 0x3FFF | 1 << 16 | 0x40 << 32 | 1 << 46 | 2 << 61
    assert decode_tcgen05(value) == MatrixDescriptor(0x3FFF0, 16, 1024, Swizzle.B128)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "bits 48..46 are 0b000, must be 0b001"),
        (1 << 46 | 1 << 52, "absolute leading dimension"),
        (1 << 46 | 1 << 60, "bits 60..53 are 0x80, must be 0"),
        (1 << 46 | 3 << 61, "swizzle 3 in bits 63..61 is invalid"),
        (1 << 46 | 1 << 49, "base offset 1 without a swizzle"),
    ],
)
def test_invalid_descriptors(value: int, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        decode_tcgen05(value)


def test_shapes_that_do_not_fit() -> None:
    matrix = MatrixDescriptor(1024 + 112, 16, 1024, Swizzle.B128)
    with pytest.raises(LayoutError, match="112 bytes into a row of 128 bytes: the next 32 bytes"):
        addresses(matrix, 64, 16, 16, k_major=True)
    with pytest.raises(LayoutError, match="8 elements of 8 bits along the major dimension"):
        addresses(MatrixDescriptor(0, 16, 1024, Swizzle.B128), 8, 32, 8, k_major=False)

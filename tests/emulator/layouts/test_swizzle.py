"""Swizzles against the tables of PTX ISA section 5.5.7 and CuTe's closed form."""

import numpy as np
import pytest

from schedgen.emulator.layouts.swizzle import Swizzle, swizzle

TABLES = {  # lines of 16-byte chunks, as printed in the ISA
    Swizzle.B32: ["01234567", "10325476"],
    Swizzle.B64: ["01234567", "10325476", "23016745", "32107654"],
    Swizzle.B96: ["01234567", "10325476"],
    Swizzle.B128: [
        "01234567",
        "10325476",
        "23016745",
        "32107654",
        "45670123",
        "54761032",
        "67452301",
        "76543210",
    ],
    Swizzle.B128_ATOM32: ["01234567", "23016745", "45670123", "67452301"],
    Swizzle.B128_ATOM64: ["01234567", "45670123"],
}


@pytest.mark.parametrize("mode", TABLES)
def test_tables_of_the_isa(mode: Swizzle) -> None:
    table = TABLES[mode]
    # CuTe: 64-byte and 32-byte patterns hold for rows of their span; the tables show whole lines,
    # in which a line of 128 bytes is one step of the pattern.
    for line in range(4 * len(table)):
        for place, source in enumerate(table[line % len(table)]):
            address = np.array([line * 128 + int(source) * 16 + 5], np.int64)
            assert swizzle(address, mode)[0] == line * 128 + place * 16 + 5


@pytest.mark.parametrize("mode", Swizzle)
def test_every_mode_is_its_own_inverse_and_repeats(mode: Swizzle) -> None:
    addresses = np.arange(4096, dtype=np.int64)
    moved = swizzle(addresses, mode)
    assert np.array_equal(swizzle(moved, mode), addresses)
    assert np.array_equal(np.sort(moved), addresses)
    repeat = mode.value.repeat
    assert np.array_equal(moved[:repeat] + repeat, moved[repeat : 2 * repeat])
    kept = mode.value.align if not mode.value.flip else 8
    assert np.array_equal(moved[:kept], moved[0] + np.arange(kept))


@pytest.mark.parametrize(
    ("mode", "bits", "base", "shift"),
    [
        (Swizzle.B32, 1, 4, 3),
        (Swizzle.B64, 2, 4, 3),
        (Swizzle.B128, 3, 4, 3),
        (Swizzle.B128_ATOM32, 2, 5, 2),
    ],
)
def test_closed_form_of_cute(mode: Swizzle, bits: int, base: int, shift: int) -> None:
    for address in range(0, 4096, 8):
        moved = address ^ ((address >> (base + shift)) & ((1 << bits) - 1)) << base
        assert swizzle(np.array([address], np.int64), mode)[0] == moved


def test_halves_of_chunks_are_exchanged_on_odd_lines() -> None:
    moved = swizzle(np.array([0, 128, 256, 384], np.int64), Swizzle.B128_ATOM32_FLIP8)
    assert moved.tolist() == [0, 128 + 32 + 8, 256 + 64, 384 + 96 + 8]


def test_base_offset_moves_the_pattern() -> None:
    start = 3 * 128  # where the pattern starts
    addresses = np.arange(start, start + 1024, 16, dtype=np.int64)
    expected = swizzle(addresses - start, Swizzle.B128) + start
    assert np.array_equal(swizzle(addresses, Swizzle.B128, base_offset=3), expected)

"""Layouts of tensor memory against those of CUTLASS, evaluated element by element here.

Sources: ``tmem_frg`` and ``tmem_sf_frg`` in CUTLASS
``include/cute/atom/mma_traits_sm100_frag.hpp``, traits in ``copy_traits_sm100.hpp``.
"""

from collections.abc import Sequence

import numpy as np
import pytest

from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.layouts.tensor_memory import (
    COPIES,
    SHAPES,
    check_window,
    data_path,
    from_window,
    moved,
    moved_lanes,
    scale_cells,
    to_window,
    window,
    window_lanes,
)

Modes = Sequence[tuple[int, int]]
"""(extent, stride) of each mode, the fastest first."""


def offset(coordinate: int, modes: Modes) -> int:
    total = 0
    for extent, stride in modes:
        total += coordinate % extent * stride
        coordinate //= extent
    return total


N = 64
# (cta_group, M, .ws) -> rows, columns of an atom; strides: 1 per lane, 128 per column
ATOMS: dict[tuple[int, int, bool], tuple[Modes, Modes]] = {
    (1, 128, False): ([(128, 1)], [(N, 128)]),
    (1, 64, False): ([(16, 1), (4, 32)], [(N, 128)]),
    (1, 32, True): ([(32, 1)], [(N // 4, 128), (4, 32)]),
    (1, 64, True): ([(64, 1)], [(N // 2, 128), (2, 64)]),
    (2, 128, False): ([(64, 1)], [(N // 2, 128), (2, 64)]),
    (2, 256, False): ([(128, 1)], [(N, 128)]),
}


@pytest.mark.parametrize(("group", "m", "stationary"), ATOMS)
def test_accumulators(group: int, m: int, stationary: bool) -> None:
    rows, columns = ATOMS[group, m, stationary]
    path = data_path(group, m, stationary=stationary)
    memory = np.arange(128 * 512).reshape(128, 512)
    lane, column = check_window(path, 100, path.width(N), "D")
    found = from_window(path, window(memory, path, lane, column, path.width(N)))
    assert found.shape == (m // group, N)
    for i in range(m // group):
        for j in range(N):
            at = offset(i, rows) + offset(j, columns)
            assert found[i, j] == at % 128 * 512 + at // 128 + 100
    again = np.zeros_like(memory)
    window(again, path, lane, column, path.width(N))[...] = to_window(path, found)
    assert np.array_equal(np.unique(again), np.unique([0, *found.ravel()]))
    assert np.array_equal(again[again > 0], np.sort(found.ravel()))
    lanes = window_lanes(path, lane, column)
    runs = lanes[:, None] + np.arange(path.width(N))
    assert np.array_equal(np.sort(runs.ravel()), np.sort(found.ravel()))


def test_half_of_the_lanes_may_be_the_upper_one() -> None:
    path = data_path(1, 64)
    assert check_window(path, 16 << 16 | 5, 8, "D") == (16, 5)
    memory = np.arange(128 * 512).reshape(128, 512)
    assert from_window(path, window(memory, path, 16, 5, 8))[16, 0] == (32 + 16) * 512 + 5
    with pytest.raises(LayoutError, match="begins in lane 8; layout F begins in lane 0 or 16"):
        check_window(path, 8 << 16, 8, "D")
    with pytest.raises(LayoutError, match="takes 64 columns from column 480; there are 512"):
        check_window(path, 480, 64, "D")
    with pytest.raises(LayoutError, match="M = 32 with cta_group::1"):
        data_path(1, 32)


# Destination layouts in bits, lanes of `width` bits: threads, then bits of the registers.
TRAITS = {
    ("16x64b", 1): (64, [(2, 512), (2, 32), (8, 64)], [(32, 1)]),
    ("16x64b", 2): (128, [(2, 1024), (2, 32), (8, 128)], [(32, 1), (2, 64)]),
    ("16x128b", 1): (128, [(4, 32), (8, 128)], [(32, 1), (2, 1024)]),
    ("16x128b", 2): (256, [(4, 32), (8, 256)], [(32, 1), (2, 2048), (2, 128)]),
    ("16x256b", 1): (256, [(4, 64), (8, 256)], [(64, 1), (2, 2048)]),
    ("16x256b", 2): (512, [(4, 64), (8, 512)], [(64, 1), (2, 4096), (2, 256)]),
    ("32x32b", 1): (32, [(32, 32)], [(32, 1)]),
    ("32x32b", 2): (64, [(32, 64)], [(64, 1)]),
    ("16x32bx2", 1): (64, [(16, 64), (2, 32)], [(32, 1)]),
    ("16x32bx2", 2): (128, [(16, 128), (2, 64)], [(64, 1)]),
}


@pytest.mark.parametrize(("shape", "num"), TRAITS)
def test_loads_and_stores(shape: str, num: int) -> None:
    width, threads, values = TRAITS[shape, num]
    found = moved(shape, num, half=num)  # CUTLASS puts the second half behind the first
    assert found.shape == (SHAPES[shape].registers * num, 32)
    for register in range(len(found)):
        for thread in range(32):
            bit = offset(thread, threads) + offset(32 * register, values)
            assert found[register, thread] == bit // width * 512 + bit % width // 32


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("packed", [False, True])
def test_loads_touch_each_of_their_cells_once(shape: str, packed: bool) -> None:
    for num in (1, 4, SHAPES[shape].most // 2):
        half = num * (1 + packed) + 3
        cells = moved(shape, num, packed=packed, half=half)
        every = np.concatenate([cells.ravel(), cells.ravel() + 1]) if packed else cells.ravel()
        lanes, width = moved_lanes(shape, num, packed=packed, half=half)
        runs = (lanes[:, None] + np.arange(width)).ravel()
        assert np.array_equal(np.sort(every), np.sort(runs))


def test_numbers_that_do_not_exist() -> None:
    with pytest.raises(LayoutError, match=r"\.16x256b has no \.x64; the largest is \.x32"):
        moved("16x256b", 64)
    with pytest.raises(LayoutError, match=r"no \.x3"):
        moved("32x32b", 3)


# (extent, lane) of the rows of the source, then of their copies
COPY_TRAITS: dict[tuple[str, str], tuple[Modes, Modes]] = {
    ("128x256b", ""): ([(128, 1)], []),
    ("128x128b", ""): ([(128, 1)], []),
    ("4x256b", ""): ([(4, 32)], []),
    ("32x128b", "warpx4"): ([(32, 1)], [(4, 32)]),
    ("64x128b", "warpx2::02_13"): ([(64, 1)], [(2, 64)]),
    ("64x128b", "warpx2::01_23"): ([(32, 1), (2, 64)], [(2, 32)]),
}


@pytest.mark.parametrize("key", COPIES)
def test_copies(key: tuple[str, str]) -> None:
    rows, copies = COPY_TRAITS[key]
    copy = COPIES[key]
    assert copy.rows == int(key[0].split("x", maxsplit=1)[0])
    for number, lanes in enumerate(copy.lanes):
        expected = [offset(row, rows) + offset(number, copies) for row in range(copy.rows)]
        assert list(lanes) == expected


@pytest.mark.parametrize(("rows", "blocks"), [(128, 1), (256, 1), (64, 1), (256, 2)])
def test_scale_factors(rows: int, blocks: int) -> None:
    # bytes of scales: a lane has stride 1, a byte 128
    if blocks == 1:
        modes, copies = [(32, 1), (rows // 32, 512)], [(4, 32)]
    else:
        modes, copies = [(32, 1), (rows // 64, 512), (2, 64)], [(2, 32)]
    found = scale_cells(rows, blocks)
    for copy in range(len(found)):
        for row in range(rows):
            at = offset(row, modes) + offset(copy, copies)
            assert found[copy, row] == at % 128 * 512 + at // 128 // 4

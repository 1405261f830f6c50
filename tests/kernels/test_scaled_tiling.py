"""Which output tiles products with factors take for a shape."""

from __future__ import annotations

import pytest

from schedgen.driver import lock_file
from schedgen.kernels import scaled_tiling
from schedgen.kernels.errors import DeviceError
from schedgen.kernels.scaled_tiling import BLOCKS, LONG, ROWS, TILES
from schedgen.kernels.tile_sizes import Tile

SMS = 132
ARCH = "sm_90a"
KINDS = {
    ROWS: (("dtype", "e4m3"),),
    LONG: (("dtype", "e4m3"), ("factors_b", "blocks")),
}
OTHERS = {BLOCKS: (("dtype", "e4m3"), ("factor", "e8m0"))}
TIMES = {
    ROWS: {
        (4096, 24576, 1536): "282.4 246.8  288.8 258.0  242.7 229.3  239.6 226.9  246.0 235.2",
        (8192, 8192, 8192): "852.8 788.3  865.8 803.6  810.0 752.9  836.8 784.6  830.1 792.1",
        (4096, 4096, 4096): "105.9 106.7  108.4 111.2  114.6 115.4  111.7 113.5  102.3 107.6",
        (4096, 2112, 7168): "129.3 127.2  110.7 112.9  95.6 99.3  107.2 109.2  108.7 112.1",
        (128, 24576, 1536): "15.6 20.9  12.9 21.5  11.7 21.4  14.1 23.8  12.3 21.3",
        (4096, 7168, 2048): "101.7 99.9  104.4 105.0  97.8 99.2  89.3 92.9  94.0 97.9",
        (4096, 7168, 16384): "724.1 658.6  738.4 692.2  770.4 698.1  713.2 656.2  721.5 684.5",
        (4096, 4096, 7168): "183.9 175.1  188.8 181.3  206.2 190.3  200.9 188.2  182.2 177.4",
        (2048, 2048, 2048): "14.0 18.9  14.3 19.2  18.6 23.7  15.7 20.9  13.6 18.5",
        (4096, 32768, 512): "151.7 149.9  158.9 157.3  167.2 167.1  163.3 164.4  172.8 176.0",
    },
    LONG: {
        (4096, 4096, 4096): "126.6 132.5  133.9 136.3",
        (8192, 8192, 8192): "1014.4 950.1  943.9 895.3",
        (4096, 7168, 16384): "865.0 824.5  905.4 849.8",
        (4096, 24576, 1536): "324.9 309.2  279.5 272.8",
        (4096, 2112, 7168): "128.9 130.3  108.4 114.1",
        (4096, 4096, 7168): "215.1 210.0  234.0 221.0",
        (4096, 7168, 2048): "119.2 122.5  112.1 116.4",
        (2048, 2048, 2048): "16.4 21.4  20.4 25.6",
        (128, 24576, 1536): "14.3 22.1  18.6 24.8",
        (128, 7168, 2048): "8.7 13.9  11.1 16.3",
    },
}
"""Microseconds for m, n, k in a graph and one by one, in each of `TILES` (H200, by hand)."""


def best(spec: str, m: int, n: int, k: int) -> Tile:
    return scaled_tiling.best(spec, ARCH, KINDS[spec], (1, m, n, k), SMS)


def lost(spec: str, shape: tuple[int, int, int]) -> tuple[float, float]:
    """Part by which the tile that is chosen was slower than the fastest one, in a graph and not."""
    times = [*map(float, TIMES[spec][shape].split())]
    at = TILES[spec][ARCH].index(best(spec, *shape))
    graph, single = (t[at] / min(t) - 1 for t in (times[0::2], times[1::2]))
    return graph, single


@pytest.mark.parametrize("spec", TIMES)
def test_little_is_lost_of_what_was_measured(spec: str) -> None:
    every = {shape: lost(spec, shape) for shape in TIMES[spec]}
    for shape, (graph, single) in every.items():
        print(spec, shape, best(spec, *shape), f"{graph:.1%} {single:.1%}")
        assert graph < 0.015
        assert single < 0.03
    assert sum(graph for graph, _ in every.values()) / len(every) < 0.002


def test_estimates_of_tiles_are_near_what_was_measured() -> None:
    """Up to what all tiles of a shape have in common, such as the clock; results of one wave of
    tiles, for which memory is what counts, not as near.
    """
    for spec, shapes in TIMES.items():
        for (m, n, k), text in shapes.items():
            times = [*map(float, text.split())][0::2]
            of = spec, ARCH, KINDS[spec], (1, m, n, k), SMS
            found = [
                scaled_tiling.cycles(*of, tile) / time
                for tile, time in zip(TILES[spec][ARCH], times, strict=True)
            ]
            assert max(found) / min(found) < (1.08 if m * n > 2048**2 else 1.3), (spec, m, n, k)


def test_tiles_in_turn() -> None:
    """An epilogue is behind products of the other tile, unless there are few of these."""
    assert best(ROWS, 8192, 8192, 8192) == Tile(columns=192, depth=128, teams=2)
    assert best(ROWS, 4096, 4096, 4096) == Tile(columns=128, depth=128, teams=2)
    assert best(ROWS, 4096, 32768, 512) == Tile(depth=128)
    assert best(ROWS, 128, 4096, 4096) == Tile(columns=128, depth=128)


def test_three_warpgroups() -> None:
    assert best(LONG, 8192, 8192, 8192).rows == 192
    assert best(LONG, 4096, 4096, 4096).rows == 128
    assert best(LONG, 5, 7168, 2048).rows == 128


@pytest.mark.parametrize(("spec", "arch"), [(s, a) for s in TILES for a in TILES[s]])
def test_kernels_are_shipped(spec: str, arch: str) -> None:
    kind = (KINDS | OTHERS)[spec]
    for tile in TILES[spec][arch]:
        settings = dict(kind) | scaled_tiling.settings(spec, arch, tile)
        assert lock_file.locked(spec, arch, settings) is not None
    assert scaled_tiling.settings(spec, arch, TILES[spec][arch][0]) == {}


def test_settings() -> None:
    high, narrow = TILES[LONG][ARCH][1], TILES[ROWS][ARCH][2]
    found = scaled_tiling.settings(LONG, ARCH, high)
    assert found == {"tile_m": "192", "consumers": "3", "steps": "1"}
    assert scaled_tiling.settings(ROWS, ARCH, narrow) == {"tile_n": "192", "teams": "2"}


def test_blackwell_is_not_measured() -> None:
    """Waves of tiles, with two iterations for what is around each; the larger tiles of two."""
    of = ROWS, "sm_100a", KINDS[ROWS]
    assert scaled_tiling.best(*of, (1, 148 * 128, 256, 4096), 148) == Tile(depth=128)
    assert scaled_tiling.best(*of, (1, 128, 4096, 4096), 148) == Tile(columns=128, depth=128)


def test_no_kernel() -> None:
    with pytest.raises(DeviceError, match="no kernel of gemm_fp8 for sm_80: there is none"):
        scaled_tiling.best(ROWS, "sm_80", KINDS[ROWS], (1, 8, 8, 8), SMS)

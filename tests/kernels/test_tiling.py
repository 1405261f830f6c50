"""Which kernel is taken for a shape."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from schedgen.kernels import tiling
from schedgen.kernels.errors import DeviceError
from schedgen.kernels.tiling import Product

SMS = 132
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


GEMM = Product("sm_90a", "fp16")
SYMMETRIC = replace(GEMM, symmetric=True)


def width(product: Product, *shape: int) -> int:
    batch, m, n, k = shape
    return tiling.best(product, (batch, m, n, k), SMS).columns


def test_few_tiles_are_small() -> None:
    few = tiling.best(SYMMETRIC, (1, 512, 512, 512), SMS)
    assert few == tiling.Tile(64, 32, 256)
    whole = tiling.best(GEMM, (1, 1024, 1024, 1024), SMS)
    assert whole == tiling.Tile(64, 128, 64)
    assert width(SYMMETRIC, 1, 1024, 1024, 4096) == 128


@pytest.mark.parametrize("triangle", [False, True])
def test_ratios_are_those_that_were_measured(triangle: bool) -> None:
    rows = json.loads((RESULTS / "tiling.json").read_text("utf-8"))["rows"]
    found = {
        row["tile"]: round(row["measured/model"], 2)
        for row in rows
        if ("symmetric" in row["spec"]) == triangle and row["tile"].startswith("64x")
    }
    ratios = tiling.MEASURED["sm_90a"][triangle]
    assert found == {str(tile): ratio for tile, ratio in ratios.items() if tile.rows == 64}


def test_little_is_lost_of_what_was_measured() -> None:
    """Of products that were timed in all tiles of 128 rows, in graphs and one by one."""
    rows = json.loads((RESULTS / "choices.json").read_text("utf-8"))["rows"]
    times: dict[tuple[object, ...], dict[str, dict[str, float]]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("spec", "b", "shape", "addend"))
        times.setdefault(key, {})[row["tile"]] = {how: row[how] for how in ("us", "graph us")}
    for how in ("us", "graph us"):
        lost: list[float] = []
        for (spec, b, shape, addend), measured in times.items():
            product = Product("sm_90a", "bf16", spec == "gemm_symmetric", str(b))
            sizes = {str(t): t for t in tiling.sizes(product) if str(t) in measured}
            batch, m, n, k = map(int, str(shape).split("x"))
            of = (product, (batch, m, n, k), SMS)
            added = addend == "yes"
            chosen = min(sizes, key=lambda name: tiling.cycles(*of, sizes[name], addend=added))
            lost.append(measured[chosen][how] / min(t[how] for t in measured.values()) - 1)
        assert len(lost) > 70
        assert sum(lost) / len(lost) < 0.003
        assert max(lost) < 0.04


GATED = {
    (256, 11008): (113.5, 97.0, 83.1, 80.7, 87.5),
    (256, 14336): (113.2, 98.0, 125.7, 125.6, 113.9),
    (512, 11008): (165.0, 141.6, 161.4, 163.5, 167.2),
    (512, 14336): (223.5, 194.4, 205.4, 205.9, 192.8),
    (1024, 11008): (328.2, 281.5, 280.1, 281.0, 300.0),
    (1024, 14336): (369.3, 372.6, 402.9, 388.7, 372.3),
    (2048, 11008): (599.8, 574.5, 561.2, 549.8, 593.1),
    (2048, 14336): (755.5, 743.8, 752.5, 739.8, 781.8),
    (4096, 11008): (1143.8, 1142.9, 1122.0, 1103.6, 1226.2),
    (4096, 14336): (1515.0, 1502.4, 1480.6, 1451.2, 1603.2),
    (8192, 11008): (2284.7, 2322.2, 2251.3, 2218.4, 2522.8),
    (8192, 14336): (2999.5, 2974.1, 2937.4, 2892.7, 3313.3),
}
"""Rows of a, columns of the result -> us of `gemm_gated` with k = 4096, in bf16, in tiles of 256,
224 and 192 columns, and in turn of 192 and 128 (H200, in graphs that take turns, 30 November, by
hand)."""


def test_little_is_lost_of_gated_products() -> None:
    product = Product("sm_90a", "bf16", gate="silu")
    sizes = [tiling.Tile(), *(tiling.Tile(columns=n) for n in (224, 192))]
    sizes += [tiling.Tile(columns=n, teams=2) for n in (192, 128)]
    lost: list[float] = []
    for (m, n), times in GATED.items():
        found = [tiling.cycles(product, (1, m, 2 * n, 4096), SMS, tile) for tile in sizes]
        lost.append(times[found.index(min(found))] / min(times) - 1)
    assert sum(lost) / len(lost) < 0.002
    assert max(lost) < 0.01


@pytest.mark.parametrize("tile", tiling.TILES["sm_90a"], ids=str)
def test_ratios_of_few_sms_are_those_that_were_measured(tile: tiling.Tile) -> None:
    rows = json.loads((RESULTS / "iterations.json").read_text("utf-8"))["rows"]
    found = [row["measured/model"] for row in rows if row["tile"] == str(tile)]
    assert len(found) == 2
    assert all(abs(ratio - tiling.ALONE["sm_90a"][tile]) < 0.1 for ratio in found)


def test_one_wave_is_better_than_two() -> None:
    """Of the triangle of 2048, 72 tiles are 256 wide, 96 are 192 wide and 136 are 128 wide."""
    assert [
        tiling.tiles(2048, 2048, tiling.Tile(columns=w), triangle=True) for w in (256, 192, 128)
    ] == [72, 96, 136]
    assert width(replace(SYMMETRIC, b_layout="kn"), 1, 2048, 2048, 2048) == 192


def test_full_waves() -> None:
    """At 4096 there are exactly four waves of tiles that are 128 wide."""
    assert tiling.tiles(4096, 4096, tiling.Tile(columns=128), triangle=True) == 4 * SMS
    assert width(SYMMETRIC, 1, 4096, 4096, 4096) == 128
    assert width(SYMMETRIC, 1, 8192, 8192, 8192) == 128


@pytest.mark.parametrize("m", [1, 127, 128, 129, 700, 1536])
@pytest.mark.parametrize("tile", tiling.TILES["sm_90a"], ids=str)
def test_triangles(m: int, tile: tiling.Tile) -> None:
    rows = range(-(-m // tile.rows))
    wanted = sum(
        column * tile.columns < (row + 1) * tile.rows
        for row in rows
        for column in range(-(-m // tile.columns))
    )
    assert tiling.tiles(m, m, tile, triangle=True) == wanted


def test_only_kernels_that_there_are() -> None:
    assert width(replace(GEMM, arch="sm_100a"), 1, 512, 512, 512) == 128
    with pytest.raises(DeviceError, match="no kernel of gemm for sm_80"):
        width(replace(GEMM, arch="sm_80"), 1, 512, 512, 512)

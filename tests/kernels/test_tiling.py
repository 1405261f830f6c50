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

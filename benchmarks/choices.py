"""What the choice of output tiles loses: products in all sizes of tiles, beside the chosen one.

    python benchmarks/choices.py [--save]   measures on the GPU at hand
    python benchmarks/choices.py --loss     says what today's rule loses of what was kept
    python benchmarks/choices.py --fit      looks for numbers of the rule that lose less

Products are those of `benchmarks/h200.py` with 512 rows or more, and those that `polar` is made of,
there with and without an addend. Each is timed in all tiles, one by one after the L2 cache was
overwritten, and in CUDA graphs, where equal runs follow each other and power sets the clock.
`--fit` changes what `schedgen.kernels.tiling` takes from here: `MEASURED` for tiles of 128 rows,
`HIDDEN` and `ADDED`; it weighs what is lost and how far estimates are from times.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product as pairs
from random import Random
from statistics import fmean
from typing import Any

import torch
from report import RESULTS, keep, table

from schedgen.benchmarks import polar, shipped
from schedgen.benchmarks.timing import error, in_graphs, in_turns, warm
from schedgen.kernels import launcher, library, tiling
from schedgen.kernels.tiling import Product, Shape, Tile

NAME, ARCH, SMS = "choices", "sm_90a", 132
TIMES = {"graph": "graph us", "one by one": "us"}
_ROUNDS = 8
_CLOSE = 0.15
"""What estimates being off counts beside what is lost; both are parts of the time."""
_TRIES = 1500

Row = dict[str, Any]
Key = tuple[Product, Shape, bool]


def products() -> Iterator[Key]:
    """What is computed, batch, m, n and k, and whether something is added."""
    plain, symmetric = (Product(ARCH, "bf16", symmetric=s) for s in (False, True))
    for m, n, k in (*shipped.SQUARES, *shipped.LAYERS):
        if m >= 512:
            yield plain, (1, m, n, k), False
    for m, n, k in shipped.SYMMETRIC:
        yield symmetric, (1, m, n, k), False
    for batch, n, m in polar.SHAPES:
        if m > n:
            yield symmetric, (batch, n, n, m), False
            yield Product(ARCH, "bf16", b_layout="kn"), (batch, n, m, n), False
    squares = sorted({(batch, n) for batch, n, _ in polar.SHAPES})
    for (batch, n), added, one in pairs(squares, (False, True), (plain, symmetric)):
        yield one, (batch, n, n, n), added


def tiles_of(one: Product) -> list[Tile]:
    """Those that are compared: of 128 rows, and for the smallest results of 64 rows."""
    return [tile for tile in tiling.sizes(one) if tile not in tiling.MORE[ARCH]]


def measured(one: Product, shape: Shape, added: bool) -> list[Row]:
    """A row for each size of tiles."""
    batch, m, n, k = shape
    a = torch.randn(batch, m, k, device="cuda").bfloat16()
    b = a.mT if one.symmetric else torch.randn(batch, k, n, device="cuda").bfloat16()
    b = b if one.b_layout == "kn" else b.mT.contiguous()
    c = torch.randn(batch, m, n, device="cuda").bfloat16()
    c = c + c.mT if one.symmetric else c
    out = torch.empty_like(c)
    wanted = a @ (b if one.b_layout == "kn" else b.mT) + (c if added else 0)
    runs: dict[str, Callable[[], Any]] = {}
    for tile in tiles_of(one):
        run = launcher.launcher(library.path_of(one.spec, ARCH, one.settings(tile)), a.device)
        given = c if added else run.zeros[a.dtype].view(1, 1, -1)
        runs[str(tile)] = partial(run.launch, (a, b, given, out), (1.0, float(added)))
        runs[str(tile)]()
        if error(out, wanted) > 1e-2:
            raise SystemExit(f"{one.spec} in {tile} is wrong for {shape}")
    warm(next(iter(runs.values())))
    alone = in_turns(runs, _ROUNDS)
    graphs = in_graphs(runs, alone)
    shared: Row = {"spec": one.spec, "b": one.b_layout, "shape": "x".join(map(str, shape))}
    return [
        {**shared, "addend": "yes" if added else "no", "tile": name}
        | {TIMES["graph"]: round(1e3 * graphs[name], 2)}
        | {TIMES["one by one"]: round(1e3 * alone[name].milliseconds, 2)}
        for name in runs
    ]


def kept() -> dict[Key, dict[str, dict[Tile, float]]]:
    """Times of tiles, by product, and by how it was called."""
    found: dict[Key, dict[str, dict[Tile, float]]] = {}
    for row in json.loads((RESULTS / f"{NAME}.json").read_text("utf-8"))["rows"]:
        one = Product(ARCH, "bf16", row["spec"] == "gemm_symmetric", row["b"])
        batch, m, n, k = map(int, row["shape"].split("x"))
        tile = next(tile for tile in tiles_of(one) if str(tile) == row["tile"])
        times = found.setdefault((one, (batch, m, n, k), row["addend"] == "yes"), {})
        for how, column in TIMES.items():
            times.setdefault(how, {})[tile] = row[column]
    return found


def losses(times: Mapping[Key, Mapping[str, Mapping[Tile, float]]]) -> Iterator[tuple[Row, float]]:
    """What the chosen tile takes longer than the best one, and how far estimates are from times,
    as parts of the time, for each product and way to call it.
    """
    for (one, shape, added), ways in times.items():
        for how, measured in ways.items():
            guess = {tile: tiling.cycles(one, shape, SMS, tile, addend=added) for tile in measured}
            chosen = min(guess, key=lambda tile: guess[tile])
            best = min(measured, key=lambda tile: measured[tile])
            logs = [math.log(guess[tile] / measured[tile]) for tile in measured]
            apart = math.sqrt(fmean((log - fmean(logs)) ** 2 for log in logs))
            row: Row = {"spec": one.spec, "b": one.b_layout, "shape": shape, "addend": added}
            row |= {"called": how, "chosen": str(chosen), "best": str(best)}
            yield row | {"loss": round(measured[chosen] / measured[best] - 1, 3)}, apart


def fit(times: Mapping[Key, Mapping[str, Mapping[Tile, float]]]) -> None:
    """Changes `tiling.MEASURED`, `tiling.HIDDEN` and `tiling.ADDED` as long as that is better."""
    random = Random(0)
    wide = [tile for tile in tiling.MEASURED[ARCH][False] if tile.rows == 128]

    def total() -> float:
        found = list(losses(times))
        lost = [row["loss"] for row, _ in found]
        large = math.sqrt(fmean(loss * loss for loss in lost))
        return fmean(lost) + large + _CLOSE * fmean(off for _, off in found)

    best = total()
    for _ in range(_TRIES):
        ratios, tile = tiling.MEASURED[ARCH][random.random() < 0.5], random.choice(wide)
        before = ratios[tile], tiling.HIDDEN, tiling.ADDED[Tile()]
        ratios[tile] = round(ratios[tile] + random.choice((-0.02, -0.01, 0.01, 0.02)), 2)
        if random.random() < 0.2:
            tiling.HIDDEN = round(min(max(tiling.HIDDEN + random.choice((-0.1, 0.1)), 0), 1), 1)
            tiling.ADDED[Tile()] = max(tiling.ADDED[Tile()] + random.choice((-500, 0, 500)), 0)
        if (found := total()) < best:
            best = found
        else:
            ratios[tile], tiling.HIDDEN, tiling.ADDED[Tile()] = before
    for triangle, ratios in tiling.MEASURED[ARCH].items():
        print("a triangle:" if triangle else "all tiles:", {str(t): ratios[t] for t in wide})
    print("HIDDEN", tiling.HIDDEN, "ADDED", tiling.ADDED[Tile()])


def report(times: Mapping[Key, Mapping[str, Mapping[Tile, float]]]) -> None:
    found = sorted((row for row, _ in losses(times)), key=lambda row: -row["loss"])
    print(table(found[:20]))
    for how in TIMES:
        lost = [row["loss"] for row in found if row["called"] == how]
        print(f"{how}: {fmean(lost):.2%} on average, {max(lost):.1%} at most, {len(lost)} products")


def main() -> None:
    if "--fit" in sys.argv:
        fit(kept())
    elif "--loss" not in sys.argv:
        rows: list[Row] = []
        for one in dict.fromkeys(products()):
            rows += measured(*one)
            print(json.dumps(rows[-1]), flush=True)
        keep(NAME, rows)
        return
    report(kept())


if __name__ == "__main__":
    main()

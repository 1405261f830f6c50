"""Cycles of an iteration for each size of output tiles on the GPU at hand, beside the model's.

    python benchmarks/tiling.py [--save]

Products of 4096 x 11008 x 4096 and 16 symmetric ones of 2048 x 2048 with k = 7168 fill all SMs many
times over, and their operands do not fit into the L2 cache, from which small tiles load more.
Cycles are the time of a wave times the clock, over iterations and what fills the pipeline
(`schedgen.kernels.tiling.FILL`). The ratios are what `tiling.MEASURED` takes its numbers from.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from products import bound
from report import keep, table

from schedgen.benchmarks.timing import in_turns
from schedgen.codegen.facts import read_facts
from schedgen.kernels import launcher, tiling
from schedgen.kernels.library import path_of

SHAPES = {"gemm": (1, 4096, 11008, 4096), "gemm_symmetric": (16, 2048, 2048, 7168)}
"""Their right operands are read as they lie, with rows along n."""


def rows(spec: str) -> list[dict[str, object]]:
    batch, m, n, k = SHAPES[spec]
    device = torch.device("cuda", 0)
    arch = launcher.architecture(device)
    sms = launcher.multiprocessors(device)
    a, b = (torch.randn(batch, *s, device=device).half() for s in ((m, k), (k, n)))
    out = torch.empty(batch, m, n, device=device, dtype=torch.half)
    runs: dict[str, Callable[[], None]] = {}
    model: dict[str, tuple[tiling.Tile, int, int]] = {}
    product = tiling.Product(arch, "fp16", symmetric=spec == "gemm_symmetric", b_layout="kn")
    for tile in tiling.TILES[arch]:
        path = path_of(spec, arch, product.settings(tile))
        runs[str(tile)] = bound(path, a, b, out)
        tiles = batch * tiling.tiles(m, n, tile, triangle=product.symmetric)
        model[str(tile)] = tile, read_facts(path).cycles, -(-tiles // sms)
    found: list[dict[str, object]] = []
    for name, time in in_turns(runs).items():
        tile, cycles, waves = model[name]
        each = time.milliseconds * 1e3 * time.clock / waves / ((k + tiling.FILL) / tile.depth)
        row: dict[str, object] = {"spec": spec, "tile": name, "waves": waves}
        row |= {"ms": round(time.milliseconds, 4), "MHz": round(time.clock)}
        row |= {"cycles/iteration": round(each), "model": cycles}
        found.append(row | {"measured/model": round(each / cycles, 3)})
    return found


def main() -> None:
    found = [row for spec in SHAPES for row in rows(spec)]
    print(table(found))
    keep("tiling", found)


if __name__ == "__main__":
    main()

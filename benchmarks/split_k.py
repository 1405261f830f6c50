"""An estimate of what splitting k gains for symmetric products that leave SMs without work.

    python benchmarks/split_k.py [--save]

Parts of k are a batch of smaller products here: one launch, and a result of each part. That is an
estimate: adding parts up is left out, while each part stores a result, which a split would do only
once. *Of whole* compares with the fastest tile for k in one piece.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from products import bound
from report import keep, table
from torch import Tensor

from schedgen.codegen.facts import file_name
from schedgen.kernels import launcher, tiling
from schedgen.kernels.bench_common import in_graphs, in_turns
from schedgen.kernels.library import FOLDER

SHAPES = [(n, k) for n in (512, 1024, 2048) for k in (n, 4 * n)]
"""m = n, and k."""
PARTS = (1, 2, 3, 4, 6)
_FEW, _MANY = 10, 60
"""Rounds to find the best tile for each number of parts, and to compare those."""

Run = Callable[[], None]


def rows(n: int, k: int) -> list[dict[str, object]]:
    device = torch.device("cuda", 0)
    choice = tiling.TILES[launcher.architecture(device)]
    tiles: dict[str, str] = {}
    runs: dict[str, Run] = {}
    for parts in PARTS:
        a = torch.randn(parts, n, -(-k // parts // 64) * 64, device=device).bfloat16()
        found = {str(tile): _product(a, tile, device) for tile in choice}
        times = in_turns(found, _FEW)
        tile = min(found, key=lambda name, times=times: times[name].milliseconds)
        tiles[str(parts)], runs[str(parts)] = tile, found[tile]
    times = in_turns(runs, _MANY)
    best, graphs = {name: time.milliseconds for name, time in times.items()}, in_graphs(runs, times)
    return [
        {"m=n": n, "k": k, "parts": name, "tile": tiles[name], "ms": round(time, 5)}
        | {"of whole": round(best["1"] / time, 3), "graph ms": round(graphs[name], 5)}
        | {"of whole in a graph": round(graphs["1"] / graphs[name], 3)}
        for name, time in best.items()
    ]


def _product(a: Tensor, tile: tiling.Tile, device: torch.device) -> Run:
    """a @ a.mT for each part, without allocations."""
    settings = {"dtype": "bf16"} | tile.settings
    path = FOLDER / file_name("gemm_symmetric", launcher.architecture(device), settings)
    out = torch.empty(a.shape[0], a.shape[1], a.shape[1], device=device, dtype=torch.bfloat16)
    return bound(path, a, a, out)


def main() -> None:
    found = [row for n, k in SHAPES for row in rows(n, k)]
    print(table(found))
    keep("split_k", found)


if __name__ == "__main__":
    main()

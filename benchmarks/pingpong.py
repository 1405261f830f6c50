"""Output tiles that two warpgroups share, or compute in turn, beside quack's settings.

    python benchmarks/pingpong.py [--save]

Products whose epilogue is a larger or a smaller part, with and without something to add, in CUDA
graphs, one launch after the other; quack with and without clusters, and with and without ping-pong.
Says what takes the time of an epilogue, and whether clusters do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from report import keep, table
from torch import Tensor

from schedgen.benchmarks.timing import error, imported, in_graphs, in_turns, warm
from schedgen.kernels import launcher, library, tiling
from schedgen.kernels.tiling import Product, Tile

SHAPES = [
    *((1, 8192, 8192, 8192), (1, 8192, 12288, 4096), (1, 2048, 12288, 4096)),
    *((1, 8192, 22016, 4096), (1, 2048, 22016, 4096), (1, 512, 12288, 4096)),
    (1, 4096, 4096, 4096),
    *((16, 2048, 7168, 2048), (6, 1536, 1536, 1536), (24, 1024, 1024, 1024)),
]
"""Batch, m, n, k."""
QUACK = [(128, 256, 2, False), (128, 256, 1, False), (128, 192, 2, True), (128, 192, 1, True)]
"""Rows and columns of a tile, CTAs of a cluster, whether ping-pong."""
TILES = (Tile(), Tile(columns=192), Tile(columns=192, teams=2))


def rows(shape: tuple[int, int, int, int], symmetric: bool, added: bool) -> list[dict[str, object]]:
    batch, m, n, k = shape
    a = torch.randn(batch, m, k, device="cuda").bfloat16()
    b = a if symmetric else torch.randn(batch, n, k, device="cuda").bfloat16()
    c = torch.randn(batch, m, n, device="cuda").bfloat16() if added else None
    c = c + c.mT if c is not None and symmetric else c
    out = torch.empty(batch, m, n, device="cuda", dtype=torch.bfloat16)
    wanted = a @ b.mT if c is None else torch.baddbmm(c, a, b.mT)
    runs = ours(symmetric, a, b, c, out) | theirs(symmetric, a, b, c, out)
    for name, run in runs.items():
        run()
        if error(out, wanted) > 1e-2:
            raise SystemExit(f"{name} is wrong for {shape}")
    warm(next(iter(runs.values())))
    times = in_graphs(runs, in_turns(runs, 10))
    best = min((t for name, t in times.items() if name.startswith("quack")), default=0.0)
    what = "gemm_symmetric" if symmetric else "gemm"
    problem = {"spec": what, "shape": "x".join(map(str, shape)), "added": added}
    return [
        problem | {"kernel": name, "ms": round(t, 4), "of quack": round(best / t, 3)}
        for name, t in sorted(times.items(), key=lambda one: one[1])
    ]


def ours(
    symmetric: bool, a: Tensor, b: Tensor, c: Tensor | None, out: Tensor
) -> dict[str, Callable[[], Any]]:
    arch, beta = launcher.architecture(a.device), float(c is not None)
    found: dict[str, Callable[[], Any]] = {}
    for tile in TILES:
        product = Product(arch, "bf16", symmetric)
        path = library.path_of(product.spec, arch, product.settings(tile))
        run = launcher.launcher(path, a.device)
        given = run.zeros[a.dtype].view(1, 1, -1) if c is None else c
        found[str(tile)] = partial(run.launch, (a, b, given, out), (1.0, beta))
    return found


def theirs(
    symmetric: bool, a: Tensor, b: Tensor, c: Tensor | None, out: Tensor
) -> dict[str, Callable[[], Any]]:
    gemm, same = imported("quack.gemm", "gemm"), imported("quack.gemm_symmetric", "gemm_symmetric")
    if gemm is None or same is None:
        return {}
    if symmetric:
        run = partial(same, a, b, out, c, None, 128, 256, 2, 1, pingpong=False, persistent=True)
        return {"quack 128x256, cluster of 2": run}
    return {
        f"quack {rows}x{columns}, cluster of {ctas}{', ping-pong' if turns else ''}": partial(
            gemm, a, b, out, c, None, rows, columns, ctas, 1, pingpong=turns, persistent=True
        )
        for rows, columns, ctas, turns in QUACK
    }


def main() -> None:
    assert tiling.IN_TURN
    found: list[dict[str, object]] = []
    for shape in SHAPES:
        for symmetric in (False, True) if shape[1] == shape[2] else (False,):
            for added in (False, True):
                found += rows(shape, symmetric, added)
    print(table(found))
    keep("pingpong", found)


if __name__ == "__main__":
    main()

"""Cycles of an iteration where few SMs are at work, beside what the machine model takes them for.

    python benchmarks/iterations.py [--save]

Products of 256 x 256: no SM waits for another's loads. Two long k are timed in CUDA graphs, and
their difference is of iterations only. The clock is NVML's while the same kernels run alone.
*Model* is the II; it counts 128 bytes of shared memory per cycle for the operands of wgmma. *With
copies* is what that unit would need if what bulk copies write counted as well: where far fewer
cycles were measured, it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from products import bound
from report import keep, table

from schedgen.benchmarks.timing import in_graphs, in_turns
from schedgen.codegen.facts import read_facts
from schedgen.kernels import launcher, tiling
from schedgen.kernels.library import path_of

SPECS = ("gemm", "gemm_symmetric")
EXTENT = 256
LENGTHS = (8192, 16384)
_FEW = 10
_BYTES_PER_CYCLE = 128
"""Of shared memory, in the model of h200."""
_ROWS = 64
"""Rows of a product of one warpgroup, of which each reads the right operand."""


def rows(spec: str) -> list[dict[str, object]]:
    device = torch.device("cuda", 0)
    short, long = (_times(spec, k, device) for k in LENGTHS)
    arch = launcher.architecture(device)
    found: list[dict[str, object]] = []
    for tile in tiling.TILES[arch]:
        name = str(tile)
        turns = (LENGTHS[1] - LENGTHS[0]) / tile.depth
        clock = long[name][1]
        each = (long[name][0] - short[name][0]) * 1e3 * clock / turns
        cycles = read_facts(_path(spec, arch, tile)).cycles
        row: dict[str, object] = {"spec": spec, "tile": name, "MHz": round(clock)}
        row |= {"cycles/iteration": round(each), "model": cycles}
        row |= {"measured/model": round(each / cycles, 2), "with copies": _with_copies(tile)}
        found.append(row)
    return found


def _path(spec: str, arch: str, tile: tiling.Tile) -> Path:
    product = tiling.Product(arch, "bf16", symmetric=spec == "gemm_symmetric")
    return path_of(spec, arch, product.settings(tile))


def _times(spec: str, k: int, device: torch.device) -> dict[str, tuple[float, float]]:
    """Milliseconds in a CUDA graph and the clock in MHz, for each size of tiles."""
    a = torch.randn(1, EXTENT, k, device=device).bfloat16()
    out = torch.empty(1, EXTENT, EXTENT, device=device, dtype=torch.bfloat16)
    runs: dict[str, Callable[[], None]] = {}
    arch = launcher.architecture(device)
    for tile in tiling.TILES[arch]:
        runs[str(tile)] = bound(_path(spec, arch, tile), a, a, out)
    alone = in_turns(runs, _FEW)
    graphs = in_graphs(runs, alone)
    return {name: (graphs[name], alone[name].clock) for name in runs}


def _with_copies(tile: tiling.Tile) -> int:
    """Cycles of shared memory for operands of products and for the copies that fill them."""
    read = tile.rows // _ROWS * (_ROWS + tile.columns)
    return 2 * tile.depth * (read + tile.rows + tile.columns) // _BYTES_PER_CYCLE


def main() -> None:
    found = [row for spec in SPECS for row in rows(spec)]
    print(table(found))
    keep("iterations", found)


if __name__ == "__main__":
    main()

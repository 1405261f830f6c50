"""How blocks come to output tiles: fixed, one block for each tile (launch), or claimed (dynamic).

    python benchmarks/claims.py --build FOLDER                # without a GPU: kernels for H200
    SCHEDGEN_CACHE_DIR=FOLDER python benchmarks/claims.py --kernels FOLDER [--save]

Causal attention, whose tiles differ, and products, whose tiles do not: the same schedule with each
word that ``claim`` may be, as called eagerly with nothing queued ahead and L2 overwritten, and in
CUDA graphs, one launch after the other. Beside them what is shipped, which may have other tiles.
Each result is compared with that of a fixed claim. ``--build`` writes the generated files and
objects for 132 SMs, so that nothing is solved on the GPU's machine.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from report import keep, table

from schedgen import kernels
from schedgen.benchmarks.timing import eagerly, error, in_graphs, in_turns, warm
from schedgen.codegen.facts import read_facts
from schedgen.kernels import cache, kernel
from schedgen.kernels.of_spec import function_of
from schedgen.spec.claiming import CLAIMS
from schedgen.spec.reader import read_spec

ATTENTION = [
    *((4, 4096, 16, 128), (1, 16384, 16, 128)),
    *((16, 1024, 8, 128), (8, 2048, 4, 128), (16, 512, 16, 128)),
]
"""Batch, queries and keys, heads, head_dim. Of the last three 64 tiles are a slice, in which they
get shorter, and 132 of an H200 nearly two of them.
"""
PRODUCTS = [(4096, 4096, 4096), (3000, 5000, 4000), (8192, 4096, 11008)]
"""m, n, k."""
SPECS: dict[str, dict[str, Any]] = {"attention_fwd": {"causal": True}, "gemm": {}}
SMS = 132
SHIPPED = "as shipped"
Run = Callable[[], Any]


def build(folder: Path) -> None:
    """The kernels of shipped specs, by how blocks come to tiles, and what is compiled of them."""
    os.environ["SCHEDGEN_CACHE_DIR"] = str(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for (name, settings), claim in product(SPECS.items(), CLAIMS):
        text = read_spec(name).source.text
        if text.count("  persistent: true\n") != 1:
            raise SystemExit(f"{name} says something else of its loops now")
        path = folder / f"{name}_{claim}.yaml"
        path.write_text(text.replace("  persistent: true\n", f"  claim: {claim}\n"), "utf-8")
        file = _file(folder, name, claim)
        file.write_bytes(kernel(path, target="h200", **settings).path.read_bytes())
        cache.compiled(file, read_facts(file), SMS)
        print(file, flush=True)


def claiming(name: str, folder: Path) -> dict[str, Callable[..., Any]]:
    """Those kernels of a spec."""
    return {claim: function_of(_file(folder, name, claim)) for claim in CLAIMS}


def _file(folder: Path, name: str, claim: str) -> Path:
    return folder / f"{name}_{claim}.py"


def attention(
    shape: tuple[int, int, int, int], made: dict[str, Callable[..., Any]]
) -> dict[str, Run]:
    batch, length, heads, head_dim = shape
    q, k, v = (
        torch.randn(batch, length, heads, head_dim, device="cuda").bfloat16() for _ in range(3)
    )
    scale = math.log2(math.e) / math.sqrt(head_dim)
    runs: dict[str, Run] = {claim: partial(run, q, k, v, scale) for claim, run in made.items()}
    return runs | {SHIPPED: partial(kernels.attention, q, k, v, causal=True)}


def products(shape: tuple[int, int, int], made: dict[str, Callable[..., Any]]) -> dict[str, Run]:
    m, n, k = shape
    a, b = (torch.randn(1, rows, k, device="cuda").bfloat16() for rows in (m, n))
    c = torch.zeros(1, m, n, device="cuda", dtype=torch.bfloat16)
    runs: dict[str, Run] = {claim: partial(run, a, b, c, 1.0, 0.0) for claim, run in made.items()}
    return runs | {SHIPPED: partial(kernels.gemm, a, b.mT)}


def rows(spec: str, shape: tuple[int, ...], runs: dict[str, Run]) -> list[dict[str, object]]:
    wanted = _first(runs[CLAIMS[0]]())
    for name, run in runs.items():
        for _ in range(3):  # also as planned, from the second call on
            if error(_first(run()), wanted) > 1e-2:
                raise SystemExit(f"{spec} {name} is wrong for {shape}")
    warm(runs[CLAIMS[0]])
    ahead, eager = in_turns(runs), eagerly(runs)
    graphs = in_graphs(runs, ahead)
    return [
        {
            "spec": spec,
            "shape": "x".join(map(str, shape)),
            "claim": name,
            "eager_ms": round(eager[name].milliseconds, 4),
            "ahead_ms": round(ahead[name].milliseconds, 4),
            "graph_ms": round(graphs[name], 4),
            "eager_of_fixed": _of(eager[CLAIMS[0]].milliseconds, eager[name].milliseconds),
            "graph_of_fixed": _of(graphs[CLAIMS[0]], graphs[name]),
            "clock_mhz": round(ahead[name].clock),
        }
        for name in runs
    ]


def _first(result: Any) -> torch.Tensor:
    return result[0] if isinstance(result, tuple) else result


def _of(fixed: float, other: float) -> float:
    """The speed of another one: above 1 if it is faster."""
    return round(fixed / other, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description="how blocks come to output tiles")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--build", type=Path, metavar="FOLDER")
    what.add_argument("--kernels", type=Path, metavar="FOLDER")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    if options.build:
        build(options.build.resolve())
        return
    masked, plain = (claiming(name, options.kernels.resolve()) for name in SPECS)
    found: list[dict[str, object]] = []
    for shape in ATTENTION:
        found += rows("attention_fwd causal", shape, attention(shape, masked))
    for shape in PRODUCTS:
        found += rows("gemm", shape, products(shape, plain))
    print(table(found))
    keep("claims", found)


if __name__ == "__main__":
    main()

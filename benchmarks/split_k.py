"""What splitting k gains: products in one piece beside their fastest split, torch and quack.

    python benchmarks/split_k.py [--save]

*Split* is the one that should be the fastest by the estimate, also where the rule prefers one piece
(*taken* says so). Sums over its parts are included. Times are in CUDA graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from products import bound
from report import keep, table
from torch import Tensor

from schedgen.benchmarks.timing import imported, in_graphs, in_turns
from schedgen.kernels import launcher, split, tiling
from schedgen.kernels.library import path_of

SHAPES = {
    "gemm_symmetric": [
        *((n, n) for n in (512, 1024, 2048)),
        *((n, 4 * n) for n in (512, 1024, 2048)),
        *((256, 4096), (256, 16384), (512, 8192), (512, 32768), (768, 12288), (1024, 8192)),
        *((1024, 16384), (1024, 50304), (1536, 24576)),
    ],
    "gemm": [(256, 8192), (512, 2048), (512, 16384), (1024, 4096), (1024, 16384)],
}
"""m = n, and k."""
_PEERS = ("torch", "quack")
_ROUNDS = 10

Run = Callable[[], object]


def row(spec: str, n: int, k: int) -> dict[str, object]:
    device = torch.device("cuda", 0)
    arch, sms = launcher.architecture(device), launcher.multiprocessors(device)
    a = torch.randn(1, n, k, device=device).bfloat16()
    b = a if spec == "gemm_symmetric" else torch.randn_like(a)
    out = torch.empty(1, n, n, device=device, dtype=torch.bfloat16)
    product = tiling.Product(arch, "bf16", symmetric=spec == "gemm_symmetric")
    key = product, (1, n, n, k), sms
    tile, how = tiling.best(*key), split.estimated(*key)[1]
    assert how is not None
    path = path_of(spec, arch, product.settings(tile))
    runs: dict[str, Run] = {
        "whole": bound(path, a, b, out),
        "split": _split(product, how, a, b, out),
    }
    runs |= _peers(spec, a[0], b[0])
    graphs = {n: 1e3 * ms for n, ms in in_graphs(runs, in_turns(runs, _ROUNDS)).items()}
    taken = split.split(*key) is not None
    best = graphs["split" if taken else "whole"]
    peers = [graphs[name] for name in _PEERS if name in graphs]
    return (
        {"spec": spec, "m=n": n, "k": k, "whole": str(tile), "whole us": round(graphs["whole"], 2)}
        | {"split": str(how), "split us": round(graphs["split"], 2)}
        | {"of whole": round(graphs["whole"] / graphs["split"], 3), "taken": "yes" if taken else ""}
        | {f"{name} us": round(graphs[name], 2) if name in graphs else "" for name in _PEERS}
        | {"of best peer": round(min(peers) / best, 3)}
    )


def _split(product: tiling.Product, how: split.Split, a: Tensor, b: Tensor, out: Tensor) -> Run:
    made = split.SplitProduct(product, a.device, how)
    zero = made.zeros[a.dtype].view(1, 1, -1)
    return partial(made.launch, (a, b, zero, out), (1.0, 0.0))


def _peers(spec: str, a: Tensor, b: Tensor) -> dict[str, Run]:
    found: dict[str, Run] = {"torch": lambda: a @ b.mT}
    quack = imported("quack.gemm_interface", spec)
    if quack is not None:
        more = {} if spec == "gemm_symmetric" else {"tuned": False}
        found["quack"] = lambda: quack(a, b.mT, **more)
    return found


def main() -> None:
    found = [row(spec, n, k) for spec, shapes in SHAPES.items() for n, k in shapes]
    print(table(found))
    keep("split_k", found)


if __name__ == "__main__":
    main()

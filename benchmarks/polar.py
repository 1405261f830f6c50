"""`polar` on the GPU at hand, beside torch and gram-newton-schulz with quack's kernels.

    python benchmarks/polar.py [--save]

All as CUDA graphs, in one process, taking turns, on new random inputs in bf16; Polar Express with
five steps and safety 1.05, one restart at iteration 2. Times are medians in ms. *Floor*: operations
of the Gram iteration with symmetric products, over the rate that torch.mm reaches at 8192 in the
same run. Squares take the standard iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from statistics import median
from typing import Any

import torch
from report import keep, table
from torch import Tensor

from schedgen.kernels import polar
from schedgen.kernels.newton_schulz.coefficients import resolve

SHAPES = [
    *((1, 2048, 2048), (1, 2048, 7168), (4, 2048, 7168), (16, 2048, 7168), (1, 2048, 8192)),
    *((8, 1024, 4096), (16, 1024, 8192), (1, 4096, 4096), (1, 4096, 11008), (1, 7168, 18432)),
]
STEPS = 5
_ROUNDS = 15
Run = Callable[[], Tensor]


def _plain(x: Tensor) -> Tensor:
    """The standard iteration as one would write it with torch."""
    y = x.float()
    y = (y / (y.norm(dim=(-2, -1), keepdim=True) + 1e-7)).half()
    for a, b, c in resolve("polar_express", STEPS):
        r = y @ y.mT
        z = torch.baddbmm(r, r, r, beta=b, alpha=c)
        y = torch.baddbmm(y, z, y, beta=a)
    return y.to(x.dtype)


def _candidates(x: Tensor) -> dict[str, Run]:
    found: dict[str, Run] = {
        "schedgen": lambda: polar(x),
        "torch standard": lambda: polar(x, "standard", backend="torch"),
        "torch gram": lambda: polar(x, "gram", backend="torch"),
    }
    compiled: Any = torch.compile(_plain, dynamic=False)
    found["torch.compile standard"] = lambda: compiled(x)
    try:
        peer = import_module("gram_newton_schulz")
        run: Any = peer.GramNewtonSchulz(
            ns_epsilon=1e-7, compile_kwargs={"fullgraph": True, "mode": "default"}
        )
        found["gram-quack"] = lambda: run(x)
    except Exception as reason:
        print(f"gram-newton-schulz: {reason}")
    return found


def _graph(run: Run) -> tuple[Callable[[], None], Tensor]:
    for _ in range(2):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run()
    return graph.replay, result


def _medians(runs: dict[str, Callable[[], None]], renew: Callable[[], None]) -> dict[str, float]:
    times: dict[str, list[tuple[Any, Any]]] = {name: [] for name in runs}
    for number in range(_ROUNDS + 3):
        renew()
        for name, run in runs.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run()
            end.record()
            if number >= 3:
                times[name].append((begin, end))
    torch.cuda.synchronize()
    return {n: median(b.elapsed_time(e) for b, e in pairs) for n, pairs in times.items()}


def _defect(x: Tensor) -> float:
    x = x[0].double()
    eye = torch.eye(x.shape[-2], device=x.device)
    return math.sqrt((x @ x.mT - eye).square().sum() / x.shape[-2])


def _rate() -> float:
    """FLOP/s of torch.mm at 8192."""
    a, b = (torch.randn(8192, 8192, device="cuda").half() for _ in range(2))
    replay, _ = _graph(lambda: a @ b)
    time = _medians({"mm": replay}, lambda: None)["mm"]
    return 2 * 8192**3 / time * 1e3


def _flops(batch: int, n: int, m: int) -> float:
    """Of the Gram iteration with one restart; for squares of the standard one, halved products."""
    if n == m:
        return batch * STEPS * (3 * m / n + 1) * n**3
    return batch * (4 * STEPS - 6 + 6 * m / n) * n**3


def rows() -> list[dict[str, object]]:
    rate, found = _rate(), list[dict[str, object]]()
    for batch, n, m in SHAPES:
        x = torch.randn(batch, n, m, device="cuda").bfloat16()
        graphs: dict[str, tuple[Callable[[], None], Tensor]] = {}
        for name, run in _candidates(x).items():
            try:
                graphs[name] = _graph(run)
            except Exception as reason:
                print(f"{name} {(batch, n, m)}: {type(reason).__name__}: {str(reason)[:300]}")
        times = _medians({k: g[0] for k, g in graphs.items()}, x.normal_)
        row: dict[str, object] = {"batch": batch, "n": n, "m": m}
        row |= {name: round(times[name], 3) if name in times else "" for name in _NAMES}
        row["floor"] = round(_flops(batch, n, m) / rate * 1e3, 3)
        if "gram-quack" in times:
            row["of gram-quack"] = round(times["gram-quack"] / times["schedgen"], 3)
        row["defect"] = f"{_defect(graphs['schedgen'][1]):.4f}"
        found.append(row)
        print(row, flush=True)
        del graphs
        torch.cuda.empty_cache()
    return found


_NAMES = ("schedgen", "torch standard", "torch gram", "torch.compile standard", "gram-quack")


def main() -> None:
    with torch.no_grad():
        found = rows()
    print(table(found))
    ratios = [float(str(r["of gram-quack"])) for r in found if "of gram-quack" in r]
    if ratios:
        print(
            "geometric mean of gram-quack's time over ours:", math.prod(ratios) ** (1 / len(ratios))
        )
    keep("polar", found)


if __name__ == "__main__":
    main()

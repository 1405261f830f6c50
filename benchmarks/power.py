"""Large products in CUDA graphs: time, energy and clock, with numbers and with zeros.

    python benchmarks/power.py [--save] [--seconds S] [N ...]

`gemm_symmetric` of n x n with k = n and 4 n in all our tiles for many rows, and quack's, with and
without clusters. Equal launches follow each other until what the driver counts of energy and clock
is settled. Zeros take so little energy that the clock stays higher: what is slow then waits for
memory. With normal numbers the GPU is at its power limit. Needs a GPU and pynvml.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from statistics import median
from typing import Any

import torch
from report import keep, table
from torch import Tensor

from schedgen.benchmarks.timing import captured, imported, warm
from schedgen.kernels import launcher, library, tiling
from schedgen.kernels.tiling import Product, Tile
from schedgen.machine_file import read_machine

SIZES = (8192,)
TIMES = (1, 4)
"""k over n."""
SETTLE = 0.4
"""Seconds before anything is counted."""
_REPLAYED = 10
"""Launches of a graph."""
QUACK = ((128, 256, 2), (128, 256, 1))
"""Rows and columns of a tile of quack's, CTAs of a cluster."""
Row = dict[str, object]
Run = Callable[[], Any]


def candidates(a: Tensor, out: Tensor) -> dict[str, Run]:
    """A A^T into ``out`` by all kernels; names -> runs."""
    arch = launcher.architecture(a.device)
    product = Product(arch, "bf16", symmetric=True)
    found: dict[str, Run] = {}
    for tile in tiling.sizes(product):
        if tile.rows >= Tile().rows:
            path = library.path_of(product.spec, arch, product.settings(tile))
            run = launcher.launcher(path, a.device)
            nothing = run.zeros[a.dtype].view(1, 1, -1)
            found[str(tile)] = partial(run.launch, (a, a, nothing, out), (1.0, 0.0))
    theirs = imported("quack.gemm_symmetric", "gemm_symmetric")
    if theirs is None:
        return found
    for rows, columns, ctas in QUACK:
        name = f"quack {rows}x{columns}, cluster of {ctas}"
        found[name] = partial(
            theirs, a, a, out, None, None, rows, columns, ctas, 1, pingpong=False, persistent=True
        )
    return found


class Driver:
    """What the driver says of the GPU at hand."""

    def __init__(self) -> None:
        self._nvml: Any = import_module("pynvml")
        self._nvml.nvmlInit()
        self._device: Any = self._nvml.nvmlDeviceGetHandleByIndex(0)

    def joules(self) -> float:
        """Since it was loaded."""
        return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._device)) / 1e3

    def mhz(self) -> float:
        """The clock of the SMs now."""
        return float(self._nvml.nvmlDeviceGetClockInfo(self._device, self._nvml.NVML_CLOCK_SM))

    def watts(self) -> float:
        """The power limit."""
        return float(self._nvml.nvmlDeviceGetPowerManagementLimit(self._device)) / 1e3


def sustained(run: Run, seconds: float, driver: Driver) -> dict[str, float]:
    """Milliseconds, joules, watts and the clock in MHz of a run among many of its kind."""
    replay, _ = captured(run, _REPLAYED)
    _go(replay, SETTLE, driver)
    before, start = driver.joules(), time.perf_counter()
    count, clocks = _go(replay, seconds, driver)
    elapsed, used = time.perf_counter() - start, driver.joules() - before
    each = count * _REPLAYED
    return {
        "ms": 1e3 * elapsed / each,
        "J": used / each,
        "W": used / elapsed,
        "MHz": median(clocks),
    }


def _go(replay: Run, seconds: float, driver: Driver) -> tuple[int, list[float]]:
    """Replays a graph for so long; how often, and the clocks meanwhile."""
    count, clocks, end = 0, list[float](), time.perf_counter() + seconds
    while time.perf_counter() < end:
        replay()
        replay()
        count += 2
        clocks.append(driver.mhz())
        torch.cuda.synchronize()
    return count, clocks


def rows(n: int, k: int, seconds: float, driver: Driver) -> Iterator[Row]:
    """Each kernel with normal numbers, and with zeros."""
    out = torch.empty(1, n, n, device="cuda", dtype=torch.bfloat16)
    sms = launcher.multiprocessors(out.device)
    for data in ("normal", "zeros"):
        a = torch.randn(1, n, k, device="cuda").bfloat16()
        a = a if data == "normal" else torch.zeros_like(a)
        runs = candidates(a, out)
        warm(next(iter(runs.values())))
        for name, run in runs.items():
            found = sustained(run, seconds, driver)
            yield {
                "n": n,
                "k": k,
                "data": data,
                "kernel": name,
                **{key: round(value, 4) for key, value in found.items()},
                "M cycles of an SM": round(found["ms"] * found["MHz"] / 1e3, 4),
                "least M cycles": round(_least(n, k, sms) / 1e6, 4),
            }


def _least(n: int, k: int, sms: int) -> float:
    """Cycles that the tensor cores of all SMs need for the triangle, its diagonal with it."""
    rate = float(read_machine("h200").value("product_flops"))
    return n * (n + 1) / 2 * k * 2 / (sms * rate)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help="keep the results")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each kernel")
    parser.add_argument("sizes", nargs="*", type=int, default=list(SIZES))
    options = parser.parse_args()
    driver = Driver()
    print(f"limit {driver.watts():.0f} W")
    found: list[Row] = []
    for n in options.sizes:
        for times in TIMES:
            for row in rows(n, times * n, options.seconds, driver):
                print(row, flush=True)
                found.append(row)
    print(table(found))
    keep("power", found)


if __name__ == "__main__":
    main()

"""Narrow products on Hopper whose rows of B lie along n: cycles of an iteration by how long these
rows are in memory, of which a tile loads the first 64 or 32 columns; and with half of the products.

    python benchmarks/micro/widths.py

One output tile, everything in L2. Cycles are those of the kernel with rows of B along k, as
`schedgen calibrate` measured it (results/predicted.json), times how much longer it takes. Results
of an H200 are in results/widths.txt.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from statistics import median

import torch

from schedgen.kernels import library
from schedgen.kernels.launcher import Launcher, launcher

RESULTS = Path(__file__).parents[1] / "results"
ALONG_K = "gemm tile_m=64 consumers=1 tile_n=64 tile_k=128"
LENGTHS = 32768, 98304
WIDTHS = 32, 64, 128, 256, 512, 1024, 2048, 4096, 16384
NARROW = "tile_m64_consumers1_tile_n"


def text_of(columns: int, depth: int, layout: str = "") -> str:
    name = f"gemm_sm_90a_bf16_{layout}{NARROW}{columns}_tile_k{depth}.py"
    return library.named(name).read_text("utf-8")


def loaded(folder: Path, name: str, text: str) -> Launcher:
    path = folder / f"{name}.py"
    path.write_text(text, "utf-8")
    return launcher(path, torch.device("cuda", 0))


def microseconds(kernel: Launcher, columns: int, k: int, width: int) -> float:
    """Of a launch: the least of 12 means of 20. ``width``: of the rows of B, 0: along k."""
    a = torch.randn(1, 64, k, device="cuda").bfloat16()
    b = torch.randn(1, k, width or 1, device="cuda").bfloat16()[:, :, :columns]
    if not width:
        b = torch.randn(1, columns, k, device="cuda").bfloat16()
    c = torch.zeros(1, 64, columns, device="cuda").bfloat16()
    d = torch.empty_like(c)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    taken: list[float] = []
    for _ in range(12):
        for _ in range(3):
            kernel.launch((a, b, c, d), (1.0, 0.0))
        torch.cuda._sleep(400_000)  # the host is ahead
        begin.record()
        for _ in range(20):
            kernel.launch((a, b, c, d), (1.0, 0.0))
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) / 20 * 1e3)
    return min(taken)


def iteration(kernel: Launcher, columns: int, depth: int, width: int = 0) -> float:
    """Microseconds that an iteration takes: the slope between two lengths, the middle of three."""
    short, long = LENGTHS
    slopes = [
        microseconds(kernel, columns, long, width) - microseconds(kernel, columns, short, width)
        for _ in range(3)
    ]
    return median(slopes) / ((long - short) / depth)


def known() -> float:
    """Cycles of an iteration of the kernel with rows of B along k."""
    rows = json.loads((RESULTS / "predicted.json").read_text("utf-8"))["rows"]
    return next(float(row["measured"]) for row in rows if row.get("kernel") == ALONG_K)


def main() -> None:
    cycles = known()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        along_k = iteration(loaded(folder, "along_k", text_of(64, 128)), 64, 128)
        for columns, depth in ((64, 128), (32, 256)):
            text = text_of(columns, depth, "kn_")
            steps = depth // 16
            half = text.replace(f"range_constexpr({steps})", f"range_constexpr({steps // 2})")
            assert half != text
            for what, written in (("", text), (", half of the products", half)):
                kernel = loaded(folder, f"tile{columns}{'half' * bool(what)}", written)
                for width in WIDTHS if not what else (64, 4096):
                    if width >= columns:
                        taken = iteration(kernel, columns, depth, width) / along_k * cycles
                        print(
                            f"64 x {columns} x {depth}, {width:5} columns in all{what}: "
                            f"{taken:.1f} cycles",
                            flush=True,
                        )


if __name__ == "__main__":
    main()

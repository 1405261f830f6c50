"""compute-sanitizer over every generated kernel for Hopper, and over peers' kernels beside them.

    python benchmarks/sanitize.py [--save] [--jobs N]

memcheck, racecheck and synccheck, each in a process of its own per kernel, on small ragged shapes.
racecheck knows neither tensor copies nor the asynchronous proxy in full, so what it says of a
peer's kernel of the same kind (TMA, mbarriers, wgmma) is printed beside it: cuBLAS,
FlashAttention-4, quack. Needs a GPU and the CUDA toolkit.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from emulate_shipped import cases, on_gpu
from report import keep, table

TRIANGLES = ("gemm_symmetric_parts",)
"""Kernels whose results are not whole: they have tiles on and below the diagonal only."""
TOOLS = ("memcheck", "racecheck", "synccheck")
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (.*)")
_REPORT = re.compile(r"=+ (?:Error|Warning|Invalid|Barrier error|Race|Uninit|Program hit)[^\n]*")
_TIMEOUT = 300


def _product(m: int = 256) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(m, m, generator=generator).bfloat16().cuda() for _ in range(2))
    return a, b


def _cublas() -> None:
    a, b = _product(1024)
    a @ b.mT


def _quack() -> None:
    from quack.gemm_interface import gemm  # pyright: ignore[reportMissingImports]

    gemm(*_product(), tuned=False)


def _fa4() -> None:
    from flash_attn.cute.interface import (  # pyright: ignore[reportMissingImports]
        flash_attn_func,
    )

    q = torch.randn(1, 256, 2, 128).bfloat16().cuda()
    flash_attn_func(q, q, q)


PEERS: dict[str, Callable[[], None]] = {"cuBLAS": _cublas, "quack": _quack, "FA4": _fa4}


def one(name: str) -> None:
    """Runs a kernel once, and says if it gave no number somewhere."""
    if name in PEERS:
        PEERS[name]()
        torch.cuda.synchronize()
        return
    case = next(case for case in cases() if case.name == name)
    for value in on_gpu(case).values():
        if (value.tril() if case.facts.kernel in TRIANGLES else value).isnan().any():
            raise SystemExit(f"{name}: something was not written")


def checked(tool: str, name: str) -> dict[str, object]:
    """What ``tool`` says of one kernel."""
    command = ["compute-sanitizer", "--tool", tool, "--print-limit", "3", "--target-processes"]
    command += ["application-only", sys.executable, __file__, "--one", name]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return {"kernel": name, "tool": tool, "summary": f"no end within {_TIMEOUT} s", "says": ""}
    text = run.stdout + run.stderr
    summary = _SUMMARY.search(text)
    says = "; ".join(dict.fromkeys(_REPORT.findall(text)))[:400]
    found = summary[1] if summary else "no summary"
    if run.returncode:
        found = f"exit {run.returncode}, {found}"
        says += f" {text.strip()[-300:]}"
    row = {"kernel": name, "tool": tool, "summary": found, "says": says}
    print(tool, name, found, flush=True)
    return row


def main() -> int:
    """The command line; 1 if a tool objects to a generated kernel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=int, default=8, help="kernels at a time")
    parser.add_argument("--save", action="store_true", help="keep the results")
    options = parser.parse_args()
    if options.one:
        one(options.one)
        return 0
    names = [*PEERS, *(case.name for case in cases())]
    todo = [(tool, name) for tool in TOOLS for name in names]
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(lambda each: checked(*each), todo))
    keep("sanitize", rows)
    print(table([{k: row[k] for k in ("kernel", "tool", "summary")} for row in rows]))
    ours = [r for r in rows if r["kernel"] not in PEERS]
    return 1 if any(not str(r["summary"]).startswith("0 ") for r in ours) else 0


if __name__ == "__main__":
    sys.exit(main())

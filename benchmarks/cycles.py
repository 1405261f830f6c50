"""Cycles that kernels take on Hopper, by hardware counters, beside those of the machine model.

    python benchmarks/cycles.py [--save] [BEGINNING_OF_A_PROBLEM ...]

Nsight Compute runs one launch of each kernel alone, at the clock that the GPU then has, so cycles
here do not depend on the power limit as times in the other benchmarks do. Elapsed cycles count to
the end of the last SM, active ones are an average over the SMs; *busiest unit* is the share of the
elapsed cycles in which the busiest pipeline of an SM works, here the tensor cores; *issue slots*
and *MUFU* are the shares of these; *no instruction* is the share of the time of warps in which the
next instruction is not there yet. Needs a GPU and ncu. FlashAttention-4, cuBLAS and quack are
measured in the same run.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from report import keep, table

from schedgen.benchmarks.shipped import work
from schedgen.codegen.facts import read_facts
from schedgen.kernels import attention, gemm, keys, symmetric_gemm
from schedgen.kernels.launcher import architecture, multiprocessors
from schedgen.kernels.library import path_of

METRICS = {
    "elapsed": "sm__cycles_elapsed.max",
    "active": "sm__cycles_active.avg",
    "busiest": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "clock": "sm__cycles_elapsed.avg.per_second",
    "fetching": "smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio",
    "warps": "smsp__average_warp_latency_per_inst_issued.ratio",
    "issue": "smsp__issue_active.avg.pct_of_peak_sustained_elapsed",
    "mufu": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed",
    "instructions": "smsp__inst_executed.sum",
}
_KERNELS = "regex:cutlass|nvjet|schedgen"
_WARM_UP = 2


@dataclass(frozen=True)
class Case:
    """A problem, with the iterations of the main loop that all SMs together make."""

    name: str
    path: Path
    """The file of our kernel."""
    iterations: float
    providers: dict[str, Callable[[], Any]]
    """Name -> makes the inputs and returns what is to be measured."""


def _other(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).bfloat16().cuda()


def _attention(seq: int, head_dim: int, causal: bool) -> Case:
    batch, heads = 16384 // seq, 16

    def ours() -> Callable[[], Any]:
        q, k, v = (_random(batch, seq, heads, head_dim) for _ in range(3))
        return lambda: attention(q, k, v, causal=causal)

    def fa4() -> Callable[[], Any]:
        run = _other("flash_attn.cute.interface", "flash_attn_func")
        q, k, v = (_random(batch, seq, heads, head_dim) for _ in range(3))
        return lambda: run(q, k, v, causal=causal)

    settings = {"head_dim": str(head_dim), "dtype": "bf16"}
    if causal:
        settings["causal"] = "true"
    settings |= keys.settings(_GPU, head_dim, causal, seq, seq)
    path = path_of("attention_fwd", architecture(_GPU), settings)
    made = dict(read_facts(path).settings)
    rows = int(made["tiles"]) * int(made["rows"])  # of queries, of a CTA
    iterations = batch * heads * keys.iterations(causal, seq, seq, int(made["keys"]), rows)
    name = f"attention {batch}x{seq}x{heads}x{head_dim}{' causal' * causal}"
    return Case(name, path, iterations, {"schedgen": ours, "FA4": fa4})


def _square(spec: str, n: int) -> Case:
    symmetric = spec == "gemm_symmetric"

    def candidate(function: Callable[[Any, Any], Any]) -> Callable[[], Any]:
        a = _random(n, n)
        b = a if symmetric else _random(n, n)
        return lambda: function(a, b.mT)

    def quack() -> Any:
        if symmetric:
            return candidate(_other("quack.gemm_interface", "gemm_symmetric"))
        run = _other("quack.gemm_interface", "gemm")
        return candidate(lambda a, b: run(a, b, tuned=False))

    ours = symmetric_gemm if symmetric else gemm
    providers = {
        "schedgen": lambda: candidate(ours),
        "cuBLAS": lambda: candidate(torch.matmul),
        "quack": quack,
    }
    tile, (path, iterations) = work(spec, n, n, n)
    return Case(f"{spec} {n} in {tile}", path, iterations, providers)


def cases() -> list[Case]:
    attentions = [
        _attention(seq, head_dim, causal)
        for head_dim, seqs in ((128, (4096, 16384)), (64, (4096,)))
        for seq in seqs
        for causal in (False, True)
    ]
    sizes = (1024, 4096, 8192)
    return attentions + [_square(spec, n) for spec in ("gemm", "gemm_symmetric") for n in sizes]


def one(name: str, provider: str) -> None:
    """What ncu watches: the last of three launches."""
    case = next(case for case in cases() if case.name == name)
    run = case.providers[provider]()
    for _ in range(_WARM_UP + 1):
        run()
    torch.cuda.synchronize()


def measured(case: Case, provider: str) -> dict[str, float]:
    """Metrics by name. Raises RuntimeError with what ncu says if it measures nothing."""
    command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "-k", _KERNELS]
    command += ["-s", str(_WARM_UP), "-c", "1", "--metrics", ",".join(METRICS.values())]
    command += [sys.executable, __file__, "--one", case.name, provider]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in run.stdout.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(lines))
    if len(rows) < 2:  # the first row holds units
        raise RuntimeError(f"{case.name}, {provider}: {(run.stdout + run.stderr)[-600:]}")
    units, values = rows[0], rows[-1]
    scale = {"Ghz": 1e3, "Mhz": 1.0, "hz": 1e-6, "cycle/nsecond": 1e3, "cycle/usecond": 1.0}
    found = {key: float(values[m].replace(",", "")) for key, m in METRICS.items()}
    found["clock"] *= scale.get(units[METRICS["clock"]], 1.0)
    return found


def row(case: Case, provider: str, sms: int) -> dict[str, object]:
    """One line of the table."""
    found = measured(case, provider)
    facts = read_facts(case.path)
    per_sm = case.iterations / sms
    return {
        "problem": case.name,
        "provider": provider,
        "model cycles/iteration": facts.cycles,
        "elapsed cycles/iteration": round(found["elapsed"] / per_sm),
        "active cycles/iteration": round(found["active"] / per_sm),
        "busiest unit %": round(found["busiest"], 1),
        "issue slots %": round(found["issue"], 1),
        "MUFU %": round(found["mufu"], 1),
        "warp instructions/iteration": round(found["instructions"] / case.iterations),
        "no instruction %": round(100 * found["fetching"] / found["warps"], 1),
        "MHz": round(found["clock"]),
    }


_GPU = torch.device("cuda", 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--save", action="store_true", help="keep the results")
    parser.add_argument("names", nargs="*", help="beginnings of problems; default: all")
    options = parser.parse_args()
    if options.one:
        one(*options.one)
        return
    sms = multiprocessors(_GPU)
    rows: list[dict[str, object]] = []
    for case in cases():
        if options.names and not case.name.startswith(tuple(options.names)):
            continue
        for provider in case.providers:
            try:
                rows.append(row(case, provider, sms))
                print(rows[-1], flush=True)
                keep("cycles", rows)
            except RuntimeError as nothing:  # a peer that is not installed
                print(nothing, flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()

"""Random masks of attention in the emulator, on both architectures, against float64.

    python benchmarks/masks.py [--count N] [--first N] [--seed S] [--jobs J] [--out FILE.jsonl]
                               [--full] [--show] [--save]

Each mask goes the way that a user's goes: `schedgen.kernels.attention` with an expression, whose
kernel is solved, proven, emitted and compiled; its PTX is executed by the emulator, with the race
checker, on a ragged problem of two heads or batches. Tiles are small: ``--full`` takes those of a
GPU. What it says of each row, the result and the logarithm of its sum, is compared with a mask that
torch makes of the same conditions in float64.
A case is right, wrong, or refused with an error; ``--show`` prints masks and runs nothing.
``--save`` keeps all cases in ``results/masks.json``. Exit status 1 if a case is wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from fuzzing.mask_expressions import Case, case
from report import RESULTS, environment, lines
from torch import Tensor

from schedgen.kernels.variants import calling

ARCHITECTURES = ("sm_90a", "sm_100a")
HEAD_DIM = 64
SMALL = {"tiles": "1", "keys": "32", "exp2_polynomial": "0"}
OF_LSE, OF_RESULT = 2e-3, 3e-2
"""Largest differences: one key more of 260 changes the logarithm of a sum by 4e-3."""
Row = dict[str, Any]
_KERNEL_OF = calling.kernel_of


def main() -> int:
    options = _options()
    numbers = range(options.first, options.first + options.count)
    if options.show:
        for number in numbers:
            one = case(options.seed, number)
            print(number, one.shape, one.numbers, one.mask.text)
        return 0
    rows: list[Row] = []
    if options.out and options.out.exists():
        rows = [json.loads(line) for line in options.out.read_text("utf-8").splitlines()]
    done = {(row["number"], row["arch"]) for row in rows if row["seed"] == options.seed}
    left = [
        (options.seed, n, a, options.full)
        for a in ARCHITECTURES
        for n in numbers
        if (n, a) not in done
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, context) as pool:
        for row in pool.map(outcome, left):
            rows.append(row)
            print(json.dumps(row), flush=True)
            if options.out:
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    rows.sort(key=lambda row: (row["number"], row["arch"]))
    print(json.dumps(summary(rows)))
    if options.save:
        (RESULTS / "masks.json").write_text(lines(environment(), rows), encoding="utf-8")
    return int(any(row["outcome"] == "wrong" for row in rows))


def summary(rows: list[Row]) -> Row:
    """Masks, how many of their kernels ended how, and the time of all."""
    counts = {
        word: sum(r["outcome"] == word for r in rows) for word in ("right", "wrong", "refused")
    }
    masks = len({row["number"] for row in rows})
    return {"masks": masks, **counts, "seconds": round(sum(row["seconds"] for row in rows))}


def outcome(which: tuple[int, int, str, bool]) -> Row:
    """What came of a mask on an architecture."""
    seed, number, arch, full = which
    one, begin = case(seed, number), time.monotonic()
    row: Row = {"seed": seed, "number": number, "arch": arch, "mask": one.mask.text}
    row |= {"shape": one.shape, "kept": round(one.kept().double().mean().item(), 3)}
    try:
        found = _run(one, arch, full)
    except Exception as error:  # each kind is an outcome
        text = str(error).split("\n")[0]
        found = {"outcome": "refused", "error": f"{type(error).__name__}: {text}"[:300]}
    return row | found | {"seconds": round(time.monotonic() - begin, 1)}


def _run(one: Case, arch: str, full: bool) -> Row:
    from schedgen.kernels import attention

    batch, seq_q, seq_k, heads, heads_k = one.shape
    generator = torch.Generator().manual_seed(one.number)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).bfloat16()

    q = normal(batch, seq_q, heads, HEAD_DIM)
    k, v = (normal(batch, seq_k, heads_k, HEAD_DIM) for _ in "kv")
    reports: list[Any] = []
    with emulated(arch, reports, full):
        out, lse = attention(q, k, v, mask=one.mask.text, return_lse=True, **one.given)
    wanted, sums = _reference(q, k, v, one.kept())
    off = (out.double() - wanted).abs().max().item()
    alike = torch.equal(lse == -math.inf, sums == -math.inf)
    finite = sums > -math.inf
    lse_off = (lse.double() - sums)[finite].abs().max().item() if finite.any() else 0.0
    clean = not any(report.errors for report in reports)
    right = alike and clean and off < OF_RESULT and lse_off < OF_LSE  # also false for NaN
    return {
        "outcome": "right" if right else "wrong",
        "result_off": float(f"{off:.2g}"),
        "lse_off": float(f"{lse_off:.2g}"),
        "clean": clean,
        "blind_rows": int((~finite).sum()),
    }


def _small(wanted: Any, target: str, settings: tuple[tuple[str, str], ...]) -> Any:
    """The kernel with small tiles, which is quickly made, and has more iterations to leave out."""
    return _KERNEL_OF(wanted, target, (*settings, *SMALL.items()))


def emulated(arch: str, reports: list[Any], full: bool) -> ExitStack:
    """A GPU of an architecture that is an emulator; ``reports`` gets one of each launch."""
    from schedgen.driver.emulating import launched
    from schedgen.kernels import checks, keys, layouts, of_file

    class Launcher:
        def __init__(self, path: Path, device: torch.device) -> None:
            self.text = path.read_text("utf-8")

        def launch(self, tensors: list[Tensor], scalars: list[float]) -> None:
            views = [t.as_strided(t.shape, (*layouts.strides(t), 1)) for t in tensors]
            reports.append(launched(self.text, arch, views, scalars))

    stack = ExitStack()
    stack.enter_context(patch.object(of_file, "launcher", Launcher))
    stack.enter_context(patch.object(checks, "devices", lambda **tensors: torch.device("cpu")))
    if not full:
        stack.enter_context(patch.object(calling, "kernel_of", _small))
    stack.enter_context(patch.object(keys, "architecture", lambda device: arch))
    return stack


def _reference(q: Tensor, k: Tensor, v: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    """Result and logarithms of sums in float64; rows that see nothing give 0 and -inf."""
    groups = q.shape[2] // k.shape[2]
    k, v = (x.double().repeat_interleave(groups, 2) for x in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q.double(), k) / math.sqrt(q.shape[3])
    scores = scores.masked_fill(~kept, -math.inf)
    out = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1).nan_to_num(0.0), v)
    return out, scores.logsumexp(-1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="random masks of attention in the emulator")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--save", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

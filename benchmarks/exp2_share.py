"""Attention on Hopper with a share of its exponentials as a polynomial, beside none.

    schedgen emit attention_fwd --target h200 --set head_dim=64 --set exp2_polynomial=1/4 -o DIR
    python benchmarks/exp2_share.py DIR [--save]

The shipped kernels compute all of them on the MUFU. DIR holds files with other shares, also causal
ones; the second command needs a GPU. Its machine model prices a quarter as faster for head_dim 64.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import torch
from report import keep, table

from schedgen.benchmarks.timing import in_turns
from schedgen.codegen.facts import read_facts
from schedgen.kernels import load
from schedgen.kernels.library import path_of

BATCH, SEQ, HEADS = 4, 4096, 32


def row(path: Path) -> dict[str, object]:
    """One file beside the shipped one with the same settings."""
    facts = read_facts(path)
    settings = dict(facts.settings)
    head_dim, causal = int(settings["head_dim"]), settings["causal"] == "true"
    same = {"head_dim": settings["head_dim"], "dtype": settings["dtype"]}
    shipped = path_of(facts.kernel, facts.target, same | ({"causal": "true"} if causal else {}))
    q, k, v = (torch.randn(BATCH, SEQ, HEADS, head_dim, device="cuda").bfloat16() for _ in range(3))
    out, lse = torch.empty_like(q), torch.empty(BATCH, HEADS, SEQ, device="cuda")
    kernels = {"none": load(shipped), "share": load(path)}
    runs = {
        name: partial(kernel, q, k, v, out, lse, head_dim**-0.5) for name, kernel in kernels.items()
    }
    for run in runs.values():
        run()
    flops = 4 * BATCH * HEADS * SEQ**2 * head_dim * (0.5 if causal else 1)
    speeds = {name: flops / t.milliseconds / 1e9 for name, t in in_turns(runs).items()}
    return {
        "kernel": shipped.stem,
        "share": settings["exp2_polynomial"],
        "TFLOP/s without": round(speeds["none"], 1),
        "TFLOP/s with": round(speeds["share"], 1),
        "ratio": round(speeds["share"] / speeds["none"], 3),
    }


def main() -> None:
    folder = next(Path(argument) for argument in sys.argv[1:] if not argument.startswith("--"))
    rows = [row(path) for path in sorted(folder.glob("*_exp2_polynomial*.py"))]
    print(table(rows))
    keep("exp2_share", rows)


if __name__ == "__main__":
    main()

"""Attention on Hopper with more and fewer keys in an iteration, for lengths of sequences.

    python benchmarks/keys.py [--save]

Cycles of an iteration, all SMs at work, are what `schedgen.kernels.keys` weighs kernels by.
"""

from __future__ import annotations

from functools import partial

import torch
from report import keep, table

from schedgen.benchmarks.timing import Run, in_turns, warm
from schedgen.kernels import keys, load
from schedgen.kernels.launcher import architecture
from schedgen.kernels.library import path_of

TOKENS, HEADS = 16384, 16
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)


def row(arch: str, head_dim: int, causal: bool, seq: int) -> dict[str, object]:
    """Milliseconds with each of the kernels that there are."""
    batch = TOKENS // seq
    shape = (batch, seq, HEADS, head_dim)
    q, k, v = (torch.randn(shape, device="cuda").bfloat16() for _ in range(3))
    out, lse = torch.empty_like(q), torch.empty(batch, HEADS, seq, device="cuda")
    settings = {"head_dim": str(head_dim), "dtype": "bf16"} | ({"causal": "true"} if causal else {})
    runs: dict[str, Run] = {}
    for one in keys.KEYS[arch, head_dim, causal]:
        more = {} if one == keys.OWN else {"keys": str(one)}
        kernel = load(path_of("attention_fwd", arch, settings | more))
        runs[str(one)] = partial(kernel, q, k, v, out, lse, head_dim**-0.5)
    warm(next(iter(runs.values())))
    times = {name: time.milliseconds for name, time in in_turns(runs).items()}
    own, other = times.values()
    return {
        "causal": causal,
        "seq": seq,
        "keys": " or ".join(times),
        "ms": round(own, 4),
        "with more": round(other, 4),
        "speed": round(own / other, 3),
    }


def main() -> None:
    arch = architecture(torch.device("cuda", 0))
    found = [
        row(arch, head_dim, causal, seq)
        for there, head_dim, causal in keys.KEYS
        if there == arch
        for seq in LENGTHS
    ]
    print(table(found))
    keep("keys", found)


if __name__ == "__main__":
    main()

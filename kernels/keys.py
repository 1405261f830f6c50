"""Which of the generated kernels of attention to take for a shape: keys of an iteration.

With more keys an iteration has less beside its products: waits, hand-offs, statistics of rows. With
fewer there is less beyond the last key and above the diagonal.
"""

from __future__ import annotations

from functools import lru_cache

import torch

from schedgen.kernels.launcher import architecture

OWN = 128
"""Keys of an iteration in the spec, with head_dim 64 and 128."""
ROWS = 128
"""Rows of q that a block computes at a time, with head_dim 128."""
KEYS = {("sm_90a", 128, False): (OWN, 160)}
"""Architecture, head_dim and causal -> what there are kernels for, where there are several. With a
causal mask 160 took 0 to 6 % longer from 1024 to 16384 tokens on an H200, once iterations without a
mask were a loop of their own (30 November, by hand, in graphs).
"""
BESIDE, FILL = 49, 1.1
"""What an iteration takes beside its products and exponentials, in keys; and what the first and the
last one of an output tile take longer than others, in iterations of keys alone. Fitted to times of
both kernels with 4096 and 16384 keys on an H200; what kernels take of each other is at most 2 %
off in `benchmarks/keys.py`."""


@lru_cache(4096)
def keys(arch: str, head_dim: int, causal: bool, seq_q: int, seq_k: int) -> int:
    """Keys of an iteration of the kernel that should be the fastest for these lengths."""
    there = KEYS.get((arch, head_dim, causal), (OWN,))

    def cost(each: int) -> float:
        """For a row of tiles, in keys."""
        all_of_them = iterations(causal, seq_q, seq_k, each)
        return (BESIDE + each) * all_of_them + FILL * each * -(-seq_q // ROWS)

    return min(there, key=cost)


def iterations(causal: bool, seq_q: int, seq_k: int, each: int, tile: int = ROWS) -> int:
    """Of all output tiles of a head, which have ``tile`` rows, with ``each`` keys at a time."""
    rows = range(tile, seq_q + tile, tile)
    if not causal:
        return len(rows) * -(-seq_k // each)
    seen = (min(seq_k, last + seq_k - seq_q) for last in rows)
    return sum(max(1, -(-some // each)) for some in seen)


def settings(
    device: torch.device, head_dim: int, causal: bool, seq_q: int, seq_k: int
) -> dict[str, str]:
    """The parameters of the spec that say so, none where it is the spec's own. Raises
    DeviceError.
    """
    found = keys(architecture(device), head_dim, causal, seq_q, seq_k)
    return {} if found == OWN else {"keys": str(found)}

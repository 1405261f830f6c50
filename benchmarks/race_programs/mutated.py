"""Kernels that `race_mutants` makes mutants of, at sizes that reuse every slot.

python mutated.py quack | flash-attn

Each is called three times: several output tiles, each with fewer iterations than rings have slots,
so that the rings do not order the tiles; fewer tiles with at least twice as many, so that all
phases come round; and sizes that fill no tile.
"""

# quack has no types that would say something here.
# pyright: reportMissingImports=false, reportUnknownVariableType=false

from __future__ import annotations

import sys
from typing import Any

import flash_attention
import quack_kernels
import torch

GEMMS = ((512, 512, 192), (256, 256, 1024), (264, 136, 200))
"""m, n and k."""
ATTENTIONS = ((512, 256), (256, 1024), (520, 584))
"""Queries and keys."""


def quack() -> None:
    from quack.gemm_interface import gemm

    for m, n, k in GEMMS:
        a, b = quack_kernels.matrix(m, k), quack_kernels.matrix(k, n)
        found: Any = gemm(a, b, tuned=False)
        quack_kernels.close(found, a.float() @ b.float())


def flash_attn() -> None:
    flash_attention.HEADS = 1
    for flash_attention.QUERIES, flash_attention.KEYS in ATTENTIONS:
        flash_attention.main({"dim=64"})


if __name__ == "__main__":
    torch.manual_seed(0)
    {"quack": quack, "flash-attn": flash_attn}[sys.argv[1]]()

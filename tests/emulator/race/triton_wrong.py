"""Kernels in Triton that are wrong: what `schedgen race` finds.

python triton_wrong.py NAME
"""

# pyright: reportMissingImports=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUntypedFunctionDecorator=false, reportIndexIssue=false
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def beyond(a, b, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(b + at, tl.load(a + at))  # no mask


@triton.jit
def sum_parts(a, total, COLUMNS: tl.constexpr):
    at = tl.arange(0, COLUMNS)
    part = tl.load(a + tl.program_id(0) * COLUMNS + at)
    before = tl.load(total + at)
    tl.store(total + at, before + part)  # every program, and no atomic


@triton.jit
def sum_locked(a, total, lock, COLUMNS: tl.constexpr):
    at = tl.arange(0, COLUMNS)
    part = tl.load(a + tl.program_id(0) * COLUMNS + at)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total + at, tl.load(total + at) + part)
    tl.atomic_xchg(lock, 0, sem="relaxed")  # hands nothing over


def main(name: str) -> None:
    a, total = torch.ones(4, 256, device="cuda"), torch.zeros(256, device="cuda")
    if name == "beyond":
        beyond[(4,)](torch.ones(1000, device="cuda"), torch.empty(1000, device="cuda"), BLOCK=256)
    elif name == "sum_parts":
        sum_parts[(4,)](a, total, COLUMNS=256)
    else:
        sum_locked[(4,)](a, total, torch.zeros(1, dtype=torch.int32, device="cuda"), COLUMNS=256)


if __name__ == "__main__":
    main(sys.argv[1])

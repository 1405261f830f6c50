"""Registers that schedules of shipped kernels leave beside tiles, more than the machine model says,
from the first attempt on (`schedgen.driver.variations`).

How many are needed is up to the assembler, and CUDA 13's needs other numbers than CUDA 12's: of the
kernels that had been chosen with one, some spilled with the other, and with the other one some more
would have been chosen otherwise (docs/kernels.md). With these neither spills, nor lets products
wait for each other, so that a lock does not depend on which one is installed. They are the smallest
by steps of 16, or of 8 where there is none: larger ones need not suffice, either, so that each was
compiled with both (`benchmarks/compiled.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedgen.kernels.styles import fits


@dataclass(frozen=True, slots=True)
class Budget:
    """Registers of each thread beside its tiles, more than the machine model says.

    Attributes:
        settings: of the kernels that begin with it; "" where there is no such setting.
        more_registers: in roles of warpgroups.
        more_narrow: in roles of single warps, which issue.
    """

    settings: Mapping[str, str]
    more_registers: int = 0
    more_narrow: int = 0


TARGET = "b200"
"""The machine model that they are for: Hopper's locks depend on machine code in other ways, too."""
BUDGETS: Mapping[str, Sequence[Budget]] = {
    "attention_bwd": [
        Budget({"head_dim": "64", "dtype": "bf16", "causal": ""}, more_registers=16),
        Budget({"head_dim": "64", "dtype": "bf16", "causal": "true"}, more_registers=24),
        Budget({"head_dim": "64", "dtype": "fp16"}, more_registers=16),
    ],
    "attention_bwd_kv": [Budget({"head_dim": "128"}, more_narrow=16)],
    "attention_bwd_q": [
        Budget({"head_dim": "128", "dtype": "bf16", "causal": ""}, more_narrow=16),
    ],
    "attention_fp8": [
        Budget({"head_dim": "64", "causal": "true"}, more_registers=48),
        Budget({"head_dim": "128", "causal": ""}, more_registers=32),
        Budget({"head_dim": "128", "causal": "true"}, more_registers=48),
    ],
    "attention_fwd": [
        Budget({"head_dim": "160", "causal": ""}, more_narrow=16),
        Budget({"head_dim": "160", "causal": "true"}, more_registers=8, more_narrow=16),
        Budget({"head_dim": "192", "head_dim_v": "", "causal": ""}, more_narrow=16),
        Budget({"head_dim": "192", "head_dim_v": "", "causal": "true"}, more_narrow=32),
        Budget({"head_dim": "192", "head_dim_v": "128", "causal": ""}, more_narrow=16),
        Budget({"head_dim": "224"}, more_narrow=16),
        # With a mask `styles.SUFFICING` would do alone; so they have one schedule.
        Budget({"head_dim": "256"}, more_narrow=16),
    ],
    "attention_kvcache_parts": [
        Budget({"dtype": "bf16", "causal": "", "page_size": ""}, more_narrow=16),
        Budget({"dtype": "fp16", "causal": "", "page_size": "256"}, more_narrow=16),
        Budget({"dtype": "fp16", "causal": "true", "page_size": ""}, more_narrow=16),
        Budget({"dtype": "fp16", "causal": "true", "page_size": "256"}, more_narrow=16),
    ],
    "gemm_mixed": [
        Budget({"tile_m": "", "factors": ""}, more_registers=40),
        Budget({"tile_m": "", "factors": "groups"}, more_registers=32),
    ],
}
"""By spec."""


def budget(spec: str, target: str, settings: Mapping[str, str]) -> tuple[int, int]:
    """``more_registers`` and ``more_narrow`` that the kernel of ``spec`` begins with; mostly 0."""
    for one in BUDGETS.get(spec, ()) if target == TARGET else ():
        if fits(settings, one.settings):
            return one.more_registers, one.more_narrow
    return 0, 0

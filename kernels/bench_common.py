"""What benchmarks of kernels share: how candidates are timed and compared.

All candidates run in one process and take turns, so that a change of the clock hits all of them;
the L2 cache is overwritten before each run; times are medians.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from statistics import median
from typing import Any

import torch
from torch import Tensor

Row = dict[str, object]
Run = Callable[[], Any]

_L2_BYTES = 1 << 28
_AHEAD = 400_000
"""Cycles for which the GPU waits, so that the host has launched a candidate before it begins."""
_ROUNDS = 40
_WARM_UP = 5


@dataclass(frozen=True)
class Timed:
    """Median milliseconds and SM clock in MHz (0 if unknown) while a candidate ran."""

    milliseconds: float
    clock: float


def medians(candidates: dict[str, Run], rounds: int = _ROUNDS) -> dict[str, Timed]:
    """Times of all candidates, which take turns."""
    flush = torch.empty(_L2_BYTES, dtype=torch.uint8, device="cuda")
    times: dict[str, list[tuple[Any, Any]]] = {name: [] for name in candidates}
    clocks: list[float] = []
    for number in range(rounds + _WARM_UP):
        for name, run in candidates.items():
            flush.zero_()
            torch.cuda._sleep(_AHEAD)  # pyright: ignore[reportPrivateUsage]
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run()
            end.record()
            if number >= _WARM_UP:
                times[name].append((begin, end))
        clocks.append(_clock())
    torch.cuda.synchronize()
    clock = median(clocks)
    return {
        name: Timed(median(begin.elapsed_time(end) for begin, end in pairs), clock)
        for name, pairs in times.items()
    }


def _clock() -> float:
    try:
        return float(torch.cuda.clock_rate())
    except Exception:  # NVML is missing, or may not be asked: a column stays empty
        return 0.0


def error(found: Tensor, reference: Tensor) -> float:
    """Distance from a float64 reference, relative, in the Frobenius norm."""
    norms = [x.square().sum().sqrt().item() for x in (found.double() - reference, reference)]
    return norms[0] / norms[1]


def imported(module: str, name: str) -> Any:
    """A function of another package; None if it is not installed, or has no such function."""
    try:
        return getattr(import_module(module), name, None)
    except Exception:  # also what fails while it is imported
        return None

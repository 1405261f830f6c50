"""What benchmarks of kernels share: how candidates are timed and compared.

All candidates run in one process and take turns, so that a change of the clock hits all of them, in
a random order: in a fixed one, one of two candidates was seen to take 0.7 us more in all of its
runs (H200, an experiment that is not in the repository), and a median is one value or the other. So
times are means of the middle half of all runs. The L2 cache is overwritten before each run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from random import Random
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor

Row = dict[str, object]
Run = Callable[[], Any]

_L2_BYTES = 1 << 28
_AHEAD = 400_000
"""Cycles for which the GPU waits, so that the host has launched a candidate before it begins."""
_ROUNDS = 40
_SHORT = 0.05
"""Milliseconds: if one candidate takes less, all run again, in `_MORE` times as many rounds."""
_MORE = 5
_LONG, _FEWER = 2.0, 3
"""Milliseconds: if all candidates take more, a part of the rounds is enough."""
_WARM_UP = 5
OURS = "schedgen"
"""The candidate that is compared with the others."""
_WARM = 0.4
"""Seconds until the clock of a GPU that did nothing has risen."""
_GRAPH = 2.0
"""About how many milliseconds of runs are in a graph."""


@dataclass(frozen=True)
class Timed:
    """Milliseconds, and the median SM clock in MHz (0 if unknown) while candidates ran."""

    milliseconds: float
    clock: float


def in_turns(candidates: dict[str, Run], rounds: int = _ROUNDS) -> dict[str, Timed]:
    """Times on the GPU of all candidates, which the host has launched before they begin; if one of
    them is short, in more than ``rounds`` rounds.
    """
    return _timed(_Turns(candidates), rounds)


def eagerly(candidates: dict[str, Run], rounds: int = _ROUNDS) -> dict[str, Timed]:
    """Times of all candidates as users call them: nothing is queued ahead, so that a GPU waits
    where the host takes longer than its kernel.
    """
    return _timed(_Turns(candidates, ahead=False), rounds)


def warm(run: Run, seconds: float = _WARM) -> None:
    """Keeps the GPU busy until its clock has risen."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        run()
        torch.cuda.synchronize()


def _timed(turns: _Turns, rounds: int) -> dict[str, Timed]:
    tried, _ = turns.run(_WARM_UP)
    if min(_middle(found) for found in tried.values()) > _LONG:
        rounds = max(1, rounds // _FEWER)
    times, clocks = turns.run(rounds)
    if min(_middle(found) for found in times.values()) < _SHORT:
        times, clocks = turns.run(_MORE * rounds)
    clock = median(clocks)
    return {name: Timed(_middle(found), clock) for name, found in times.items()}


class _Turns:
    """Candidates that take turns in a random order."""

    def __init__(self, candidates: dict[str, Run], ahead: bool = True) -> None:
        self._ahead = ahead
        self._names, self._order = list(candidates), list(candidates.items())
        self._random = Random(0)
        self._flush = torch.empty(_L2_BYTES, dtype=torch.uint8, device="cuda")

    def run(self, rounds: int) -> tuple[dict[str, list[float]], list[float]]:
        """Milliseconds of each candidate in each round, and the clock in each."""
        events: dict[str, list[tuple[Any, Any]]] = {name: [] for name in self._names}
        clocks: list[float] = []
        for _ in range(rounds):
            self._random.shuffle(self._order)
            for name, run in self._order:
                self._flush.zero_()
                if self._ahead:
                    torch.cuda._sleep(_AHEAD)  # pyright: ignore[reportPrivateUsage]
                else:
                    torch.cuda.synchronize()
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                run()
                end.record()
                events[name].append((begin, end))
            clocks.append(_clock())
        torch.cuda.synchronize()
        return {n: [b.elapsed_time(e) for b, e in pairs] for n, pairs in events.items()}, clocks


def _middle(values: list[float]) -> float:
    """The mean of the middle half."""
    cut = len(values) // 4
    return fmean(sorted(values)[cut : len(values) - cut])


def captured(run: Run, count: int = 1) -> tuple[Run, Any]:
    """``count`` runs one after the other as a CUDA graph, and the result of the last one."""
    for _ in range(2):
        run()
    torch.cuda.synchronize()
    graph, result = torch.cuda.CUDAGraph(), None
    with torch.cuda.graph(graph):
        for _ in range(count):
            result = run()
    return graph.replay, result


def in_graphs(candidates: dict[str, Run], times: dict[str, Timed]) -> dict[str, float]:
    """Milliseconds of a run that follows its like in a CUDA graph; ``times`` are of `in_turns`.

    Nothing is overwritten between them, and a kernel may begin to set up while the one before it
    still runs: that is what a run takes in a longer computation. A peer that cannot be captured is
    left out.
    """
    counts = {n: max(2, min(20, round(_GRAPH / times[n].milliseconds))) for n in candidates}
    graphs: dict[str, Run] = {}
    for name, run in candidates.items():
        try:
            graphs[name] = captured(run, counts[name])[0]
        except Exception:
            if name == OURS:
                raise
    return {n: t.milliseconds / counts[n] for n, t in in_turns(graphs).items()}


def in_graph(name: str, graphs: dict[str, float]) -> Row:
    """Columns of candidate ``name`` for the times of `in_graphs`; none if there are none."""
    if name not in graphs:
        return {}
    peer = best_peer(graphs)
    share = "" if name != OURS or math.isnan(peer) else round(peer / graphs[name], 3)
    return {"graph ms": round(graphs[name], 4), "of best peer in a graph": share}


def best_peer(milliseconds: dict[str, float]) -> float:
    """The time of the fastest candidate but ours; not a number if there is no other."""
    return min((t for name, t in milliseconds.items() if name != OURS), default=math.nan)


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

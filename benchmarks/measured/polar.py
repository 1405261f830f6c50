"""Speed of `polar` beside its peers, on the GPU at hand.

All iterate the same polynomials, Polar Express with five steps and safety 1.05, on the same inputs
in bf16, the Gram iterations with one restart at iteration 2; as CUDA graphs and as they are called.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from schedgen.benchmarks.timing import OURS, Row, Run, captured, error
from schedgen.kernels.newton_schulz import streams
from schedgen.kernels.newton_schulz.coefficients import resolve
from schedgen.kernels.newton_schulz.polar_op import polar

Times = Callable[[dict[str, Run]], dict[str, float]]
"""Milliseconds of candidates, which take turns."""

SHAPES = [
    *((1, 2048, 2048), (1, 2048, 7168), (4, 2048, 7168), (16, 2048, 7168), (1, 2048, 8192)),
    *((8, 1024, 4096), (16, 1024, 8192), (1, 4096, 4096), (1, 4096, 11008), (1, 7168, 18432)),
    *((24, 1024, 1024), (64, 768, 3072), (6, 1536, 1536)),
]
"""Batch, n and m."""
STEPS = 5
_DENSE = 8192
"""m, n and k of the product whose rate the floor is based on."""
SERIAL = "schedgen serial"
"""`polar` with its independent products one after the other; `OURS` is `polar` as it is."""
GRAM = "gram-quack"
"""gram-newton-schulz, which takes its products from quack."""
PEERS = ("torch standard", "torch gram", "torch.compile standard", GRAM)


def polar_rows(
    times: Times, called: Times, serial: bool = False, peers: Collection[str] = PEERS
) -> Iterator[Row]:
    """A row for each shape and provider.

    ``floor ms`` is the work of the iteration that `polar` takes, symmetric products halved, at the
    rate of torch.mm at 8192 in this run; ``error`` the distance from float64, in the norm, and
    ``defect`` ||X X^T - I|| / sqrt(n), both of the first matrix of the batch.

    Args:
        times: measures all candidates of a shape, as CUDA graphs.
        called: measures them as they are called, in the column ``eager ms``.
        serial: whether `SERIAL` is a candidate, too.
        peers: those that are measured.
    """
    rate = _rate(times)
    for batch, n, m in SHAPES:
        x = torch.randn(batch, n, m, device=_device()).to(torch.bfloat16)
        problem: Row = {"batch": batch, "n": n, "m": m}
        reference, runs, notes = _reference(x[:1]), dict[str, Run](), dict[str, Row]()
        plain: dict[str, Run] = {}
        for name, run in _candidates(x, serial, peers).items():
            try:
                runs[name], found = captured(run)
                runs[name]()
                apart = f"{error(found[:1], reference):.2e}"
                notes[name] = {"error": apart, "defect": f"{_defect(found[0]):.4f}"}
                plain[name] = run
            except Exception as refusal:  # a peer that cannot do this is no failure here
                if name in (OURS, SERIAL):
                    raise
                runs.pop(name, None)
                yield _refused(problem, name, refusal)
        eager = called(plain)
        for name, time in eager.items():
            notes[name]["eager ms"] = round(time, 3)
        notes[OURS]["of best peer eagerly"] = _of_best(eager)
        yield from _compared(problem, times(runs), notes, floor(batch, n, m) / rate * 1e3)
        del runs, plain
    if GRAM in peers and _peer() is None:
        note = "not installed: pip install gram-newton-schulz quack-kernels"
        yield {"batch": "all", "provider": GRAM, "note": note}


def floor(batch: int, n: int, m: int) -> float:
    """FLOP with one restart, n <= m; of the standard iteration where matrices are square."""
    if n == m:
        return batch * STEPS * (3 * m / n + 1) * n**3
    return batch * (4 * STEPS - 6 + 6 * m / n) * n**3


def _compared(
    problem: Row, milliseconds: dict[str, float], notes: dict[str, Row], least: float
) -> Iterator[Row]:
    for name, time in milliseconds.items():
        yield {
            **problem,
            "provider": name,
            "ms": round(time, 3),
            "of best peer": _of_best(milliseconds) if name == OURS else "",
            "floor ms": round(least, 3),
            **notes[name],
        }


def _of_best(milliseconds: dict[str, float]) -> float | str:
    """Of the fastest peer's time over ours; nothing if there is none."""
    peers = (t for name, t in milliseconds.items() if name not in (OURS, SERIAL))
    best = min(peers, default=math.nan)
    return "" if math.isnan(best) else round(best / milliseconds[OURS], 3)


def _refused(problem: Row, name: str, refusal: Exception) -> Row:
    return {**problem, "provider": name, "note": f"{type(refusal).__name__}: {refusal}"[:90]}


def _plain(x: Tensor) -> Tensor:
    """The standard iteration as one would write it with torch."""
    y: Any = x.float()
    y = (y / (y.norm(dim=(-2, -1), keepdim=True) + 1e-7)).half()
    for a, b, c in resolve("polar_express", STEPS):
        r = y @ y.mT
        z = torch.baddbmm(r, r, r, beta=b, alpha=c)
        y = torch.baddbmm(y, z, y, beta=a)
    return y.to(x.dtype)


def _serial(x: Tensor) -> Tensor:
    with streams.in_order():
        return polar(x)


def _candidates(x: Tensor, serial: bool, peers: Collection[str]) -> dict[str, Run]:
    compiled: Any = torch.compile(_plain, dynamic=False)
    found: dict[str, Run] = {
        "torch standard": lambda: polar(x, "standard", backend="torch"),
        "torch gram": lambda: polar(x, "gram", backend="torch"),
        "torch.compile standard": lambda: compiled(x),
    }
    peer = _peer()
    if peer is not None:
        options = {"fullgraph": True, "mode": "default"}
        gram = peer.GramNewtonSchulz(ns_epsilon=1e-7, compile_kwargs=options)
        found[GRAM] = lambda: gram(x)
    return {
        OURS: lambda: polar(x),
        **({SERIAL: lambda: _serial(x)} if serial else {}),
        **{name: run for name, run in found.items() if name in peers},
    }


def _peer() -> Any:
    """gram-newton-schulz, which takes its products from quack; None if it cannot be imported."""
    try:
        return import_module("gram_newton_schulz")
    except Exception:  # also what fails while it is imported
        return None


def _reference(x: Tensor) -> Tensor:
    """In float64."""
    y = x.double()
    y = y / y.square().sum((-2, -1), keepdim=True).sqrt()
    for a, b, c in resolve("polar_express", STEPS):
        r = y @ y.mT
        y = torch.baddbmm(y, torch.baddbmm(r, r, r, beta=b, alpha=c), y, beta=a)
    return y


def _defect(x: Tensor) -> float:
    """Of (n, m) with n <= m."""
    x = x.double()
    apart = x @ x.mT - torch.eye(x.shape[-2], device=x.device)
    return math.sqrt(apart.square().sum().item() / x.shape[-2])


def _device() -> str:
    return "cuda"


def _rate(times: Times) -> float:
    """FLOP/s of torch.mm."""
    a, b = (torch.randn(_DENSE, _DENSE, device=_device()).half() for _ in range(2))
    replay, _ = captured(lambda: a @ b)
    return 2 * _DENSE**3 / times({"mm": replay})["mm"] * 1e3

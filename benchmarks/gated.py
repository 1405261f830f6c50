"""Products with more in their epilogues on a GPU, beside quack and torch.compile.

    python benchmarks/gated.py [--kinds gated rms normed] [--tokens N ...] [--inner N ...]
                               [--tuned] [--seconds S] [--save]

Layers of models with 4096 columns and an inner width of 11008 or 14336: ``gated`` is the first half
of a feed-forward layer with SwiGLU (`gemm_gated`), ``rms`` its second half with the residual and
the factors of RMSNorm behind it (`gemm_rms`), ``normed`` the first half of rows with such factors.
The rows of both weights alternate in one matrix, as quack takes them; for torch they lie behind
each other. quack takes its default setting, or with ``--tuned`` the one that it finds best, which
takes long. All run in one process and take turns, as users call them (``eager us``) and launched
ahead (``us``), with a cold L2, and one after the other in a CUDA graph (``graph us``). Errors are
against float64, of the first rows. A case begins only before ``--seconds`` are over; ``--save``
keeps all rows in ``results/gated.json`` after each case. Nothing is solved; kernels are compiled on
their first call (``schedgen build gemm_gated gemm_rms rms_factors --target h200`` does so ahead).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import torch
from report import RESULTS, environment, lines
from torch import Tensor
from torch.nn import functional

from schedgen.benchmarks import timing
from schedgen.kernels import gemm_gated, gemm_rms

HIDDEN = 4096
EPS = 1e-6
CHECKED = 128
"""Rows that are compared with float64."""
KINDS = ("gated", "rms", "normed")
Row = dict[str, Any]


def main() -> int:
    options, begin = _options(), time.monotonic()
    rows: list[Row] = []
    for kind, tokens, inner in product(options.kinds, options.tokens, options.inner):
        named = {"kind": kind, "tokens": tokens, "hidden": HIDDEN, "inner": inner}
        if time.monotonic() - begin > options.seconds:
            print(json.dumps({"left out": named}), flush=True)
            continue
        try:
            found = list(measured(*cases(kind, tokens, inner, options.tuned)))
        except Exception as error:  # a case more or less: the others still count
            found = [{"failed": f"{type(error).__name__}: {error}"[:500]}]
        for row in found:
            rows.append({**named, **row})
            print(json.dumps(rows[-1]), flush=True)
        if options.save:
            (RESULTS / "gated.json").write_text(lines(environment(), rows), encoding="utf-8")
        torch.cuda.empty_cache()
    for line in means(rows):
        print(line)
    return int(any("failed" in row for row in rows))


def means(rows: list[Row]) -> Iterator[str]:
    """Geometric means of our speed over that of each peer, and of the best one of each case."""
    ours = {_case(row): row for row in rows if row.get("provider") == timing.OURS}
    peers = dict.fromkeys(str(row["provider"]) for row in rows if "provider" in row)
    for name in ("eager us", "us", "graph us"):
        found = {
            peer: [
                row[name] / ours[_case(row)][name]
                for row in rows
                if row.get("provider") == peer and name in row and name in ours.get(_case(row), {})
            ]
            for peer in peers
            if peer != timing.OURS
        }
        best = f"{name}, of best peer"
        found["the best peer"] = [row[best] for row in ours.values() if best in row]
        for peer, shares in found.items():
            if shares:
                mean = math.exp(sum(map(math.log, shares)) / len(shares))
                yield f"{name}: {mean:.3f} of {peer}, in geometric mean of {len(shares)} cases"


def _case(row: Row) -> tuple[Any, ...]:
    return tuple(row[key] for key in ("kind", "tokens", "inner"))


def cases(
    kind: str, tokens: int, inner: int, tuned: bool
) -> tuple[dict[str, Callable[[], Any]], Callable[[Any], float], float]:
    """Candidates by name, the error of what one returns, and floating-point operations."""
    make = torch.Generator("cuda").manual_seed(0)

    def normal(*shape: int) -> Tensor:
        found = torch.randn(shape, generator=make, device="cuda", dtype=torch.bfloat16)
        return found / shape[-1] ** 0.5 if len(shape) == 2 and shape[0] != tokens else found

    flops = 2.0 * tokens * HIDDEN * inner
    if kind == "rms":
        x, w, residual = normal(tokens, inner), normal(HIDDEN, inner), normal(tokens, HIDDEN)
        return _rms(x, w, residual, tuned), partial(_rms_error, x, w, residual), flops
    x, w = normal(tokens, HIDDEN), normal(2 * inner, HIDDEN)
    r = None
    if kind == "normed":
        r = (x.float().square().mean(-1) + EPS).rsqrt()
    return _gated(x, w, r, tuned), partial(_gated_error, x, w, r), 2 * flops


def _gated(x: Tensor, w: Tensor, r: Tensor | None, tuned: bool) -> dict[str, Callable[[], Any]]:
    """``w``: its rows alternate between the gate and what it gates."""
    halves = torch.cat([w[0::2], w[1::2]])

    def layer(x: Tensor, halves: Tensor, r: Tensor | None) -> Tensor:
        both = functional.linear(x, halves)
        both = both if r is None else (both.float() * r[:, None]).bfloat16()
        gate, up = both.chunk(2, -1)
        return functional.silu(gate) * up

    compiled = torch.compile(layer, dynamic=False)
    found = {
        timing.OURS: lambda: gemm_gated(x, w[0::2].mT, w[1::2].mT, row_scale=r),
        "torch.compile": lambda: compiled(x, halves, r),
    }
    name = "gemm_gated" if r is None else "gemm_norm_gated"
    quack, more = timing.imported("quack.gemm_interface", name), {} if r is None else {"rstd": r}
    if quack is not None:
        more |= {"activation": "swiglu", "store_preact": False, "tuned": tuned}
        found["quack"] = lambda: quack(x, w.mT, **more)[1]
    return found


def _gated_error(x: Tensor, w: Tensor, r: Tensor | None, found: Tensor) -> float:
    both = x[:CHECKED].double() @ w.double().mT
    both = both if r is None else both * r[:CHECKED, None].double()
    return timing.error(found[:CHECKED], functional.silu(both[:, 0::2]) * both[:, 1::2])


def _rms(x: Tensor, w: Tensor, residual: Tensor, tuned: bool) -> dict[str, Callable[[], Any]]:
    def layer(x: Tensor, w: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        d = functional.linear(x, w) + residual
        return d, (d.float().square().mean(-1) + EPS).rsqrt()

    compiled = torch.compile(layer, dynamic=False)
    found: dict[str, Callable[[], Any]] = {
        timing.OURS: lambda: gemm_rms(x, w.mT, residual, eps=EPS),
        "torch.compile": lambda: compiled(x, w, residual),
    }
    quack = timing.imported("quack.gemm_interface", "gemm_rms")
    if quack is not None:
        found["quack"] = lambda: quack(x, w.mT, C=residual, eps=EPS, tuned=tuned)
    return found


def _rms_error(x: Tensor, w: Tensor, residual: Tensor, found: tuple[Tensor, Tensor]) -> float:
    """The larger one of both results."""
    wanted = x[:CHECKED].double() @ w.double().mT + residual[:CHECKED].double()
    r = (wanted.square().mean(-1) + EPS).rsqrt()
    return max(timing.error(found[0][:CHECKED], wanted), timing.error(found[1][:CHECKED], r))


def measured(
    candidates: dict[str, Callable[[], Any]], error: Callable[[Any], float], flops: float
) -> Iterator[Row]:
    """A row for each candidate; one that cannot do this says why, unless it is ours."""
    errors: dict[str, float] = {}
    for name, run in list(candidates.items()):
        try:
            errors[name] = error(run())
        except Exception as refusal:
            if name == timing.OURS:
                raise
            yield {"provider": name, "note": f"{type(refusal).__name__}: {refusal}"[:200]}
            del candidates[name]
    timing.warm(candidates[timing.OURS])
    ahead = timing.in_turns(candidates)
    times = {
        "eager us": {n: t.milliseconds for n, t in timing.eagerly(candidates).items()},
        "us": {n: t.milliseconds for n, t in ahead.items()},
        "graph us": timing.in_graphs(candidates, ahead),
    }
    for name in candidates:
        row: Row = {"provider": name}
        for column, found in times.items():
            if name in found:
                row[column] = round(1e3 * found[name], 2)
                best = timing.best_peer(found)
                if name == timing.OURS and not math.isnan(best):
                    row[f"{column}, of best peer"] = round(best / found[name], 3)
        row |= {"TFLOP/s": round(flops / ahead[name].milliseconds / 1e9, 1)}
        yield row | {"error": f"{errors[name]:.2e}", "MHz": round(ahead[name].clock)}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--tokens", nargs="+", type=int, default=(512, 2048, 8192))
    parser.add_argument("--inner", nargs="+", type=int, default=(11008, 14336))
    parser.add_argument("--tuned", action="store_true", help="let quack look for settings")
    parser.add_argument("--seconds", type=float, default=100.0)
    parser.add_argument("--save", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""What the commands share that time functions of ours beside their peers, case by case.

A case has names, which its rows begin with, and makes its operands only when it is its turn. All
candidates run in one process and take turns: launched ahead (``ms``) and as users call them
(``eager ms``), both with a cold L2, and one after the other in a CUDA graph (``graph ms``), where
operands that fit stay in the L2.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from statistics import geometric_mean
from typing import Any

import torch
from report import RESULTS, environment, lines
from torch import Tensor

from schedgen.benchmarks import timing
from schedgen.driver import lock_file

Row = dict[str, Any]
SHARES = {
    "ms": "of best peer",
    "eager ms": "of best peer eagerly",
    "graph ms": "of best peer in a graph",
}
"""Columns of times, and of the best peer's over ours."""
WRONG = 0.05
"""Distance from float64 from which a result is wrong, not rounded: one output tile in 400."""
WARM = 0.1
"""Seconds before each case, until the clock of the GPU has risen."""
PEERS = ("quack-kernels", "sgl-deep-gemm")


@dataclass(frozen=True)
class Problem:
    """Candidates by name, those whose names begin with ours but the first are no peers; the
    distance from float64 of what one returns; floating-point operations.
    """

    candidates: dict[str, timing.Run]
    error: Callable[[Any], float]
    flops: float


@dataclass(frozen=True)
class Case:
    """``part``: of the command, which has a line of its own in the end."""

    part: str
    named: Row
    make: Callable[[], Problem]


def run(name: str, cases: Iterable[Case], options: argparse.Namespace) -> int:
    """Measures ``cases`` until ``options.seconds`` are over; the exit status of the command.

    With ``options.save`` all rows are in ``results/NAME.json`` after each case; with
    ``options.check`` results of ours have to be right, and the same bits twice.
    """
    begin, rows, wrong = time.monotonic(), list[Row](), 0
    where = _where()
    print(json.dumps(where), flush=True)
    for case in cases:
        named = {"part": case.part, **case.named}
        if time.monotonic() - begin > options.seconds:
            print(json.dumps({"left out": named}), flush=True)
            continue
        try:
            found = of_case(case, check=options.check)
        except Exception as error:  # a case more or less: the others still count
            found = [{"failed": f"{type(error).__name__}: {error}"[:500]}]
        wrong += any("failed" in row or row.get("right") is False for row in found)
        for row in found:
            rows.append({**named, **row})
            print(json.dumps(rows[-1]), flush=True)
        if options.save:
            (RESULTS / f"{name}.json").write_text(lines(where, rows), encoding="utf-8")
        torch.cuda.empty_cache()
    for line in summary(rows):
        print(json.dumps(line), flush=True)
    return int(bool(wrong))


def _where() -> dict[str, str]:
    """The GPU, and versions, those of peers among them."""
    found = environment()
    for package in PEERS:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def of_case(case: Case, *, check: bool) -> list[Row]:
    """A row for each candidate, ours first; one that cannot do this says why, unless it is ours."""
    problem = case.make()
    candidates, errors, notes = dict(problem.candidates), dict[str, float](), list[Row]()
    for name, call in problem.candidates.items():
        try:
            errors[name] = problem.error(call())
        except Exception as refusal:
            if name == timing.OURS:
                raise
            notes.append({"candidate": name, "note": f"{type(refusal).__name__}: {refusal}"[:200]})
            del candidates[name]
    checked = _checked(candidates[timing.OURS], errors[timing.OURS]) if check else {}
    rows = timed(candidates, errors, problem.flops)
    return [rows[0] | checked, *rows[1:], *notes]


def _checked(call: timing.Run, error: float) -> Row:
    """Of ours: whether results are the same bits twice, and right."""
    one, other = (found if isinstance(found, tuple) else (found,) for found in (call(), call()))
    same = all(map(_same_bits, one, other))
    return {"same bits": same, "right": same and error < WRONG}


def _same_bits(one: Tensor, other: Tensor) -> bool:
    return torch.equal(*(x.contiguous().view(torch.uint8) if x.dim() else x for x in (one, other)))


def timed(candidates: dict[str, timing.Run], errors: dict[str, float], flops: float) -> list[Row]:
    """Times of all candidates, ours over those of the best peer."""
    timing.warm(candidates[timing.OURS], WARM)
    ahead = timing.in_turns(candidates)
    times = {
        "ms": {n: t.milliseconds for n, t in ahead.items()},
        "eager ms": {n: t.milliseconds for n, t in timing.eagerly(candidates).items()},
        "graph ms": timing.in_graphs(candidates, ahead),
    }
    rows: list[Row] = []
    for name in candidates:
        row: Row = {"candidate": name}
        for column, found in times.items():
            if name in found:
                row[column] = round(found[name], 4)
                row |= share(column, found) if name == timing.OURS else {}
        row["TFLOP/s"] = round(flops / ahead[name].milliseconds / 1e9, 1)
        rows.append(row | {"error": f"{errors[name]:.2e}", "MHz": round(ahead[name].clock)})
    return rows


def share(column: str, times: Mapping[str, float]) -> Row:
    """The time of the best peer over ours; others whose names begin with ours are no peers."""
    peers = {n: t for n, t in times.items() if n == timing.OURS or not n.startswith(timing.OURS)}
    best = timing.best_peer(peers)
    return {} if math.isnan(best) else {SHARES[column]: round(best / times[timing.OURS], 3)}


def summary(rows: Sequence[Row]) -> list[Row]:
    """A line for each part and way to call: geometric mean and least of those over the best
    peer's, and cases below it.
    """
    found: list[Row] = []
    for part in dict.fromkeys(row["part"] for row in rows):
        for column, name in SHARES.items():
            shares = [row[name] for row in rows if row["part"] == part and name in row]
            if shares:
                line = {"summary": part, "called": column, "cases": len(shares)}
                line |= {"mean": round(geometric_mean(shares), 3), "least": min(shares)}
                found.append(line | {"slower": sum(one < 1 for one in shares)})
    return found


def parser(about: str, parts: Sequence[str]) -> argparse.ArgumentParser:
    """Options that these commands share."""
    made = argparse.ArgumentParser(description=about)
    made.add_argument("--only", nargs="+", choices=parts, default=list(parts), metavar="PART")
    made.add_argument("--seconds", type=float, default=100.0, help="no case begins later")
    made.add_argument("--check", action="store_true", help="right, and the same bits twice")
    made.add_argument("--save", action="store_true", help="keep all rows in benchmarks/results")
    made.add_argument("--kernels", action="store_true", help="names of the kernels that are needed")
    return made


def locked(*specs: str, arch: str) -> list[str]:
    """Names of all shipped kernels of these specs."""
    return [f.name for f in lock_file.every() if f.lock.spec in specs and f.lock.arch == arch]

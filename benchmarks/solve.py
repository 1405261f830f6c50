"""Time and memory of `schedgen solve`: every shipped spec on every target, and growth with the
number of instances.

    python benchmarks/solve.py [--save]

The whole command is timed as a process of its own, imports and certificate included; `search` is
the part inside. Every command runs three times and the median counts. Cycles are those of the
machine models, not measured ones.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter

from report import keep, table
from variants import options, variants

from schedgen.driver.found import OutOfTime
from schedgen.driver.solution import solve
from schedgen.machine import Machine
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec

RUNS = 3
# Seconds for one row of the growth table; a row that needs more says so by `proven`.


def command(arguments: list[str]) -> tuple[float, dict[str, object], float]:
    """Median seconds, the JSON object, and the largest resident size in MB of `schedgen solve`."""
    seconds: list[float] = []
    output = ""
    for _ in range(RUNS):
        begin = perf_counter()
        run = subprocess.run(
            [sys.executable, "-m", "schedgen.cli", "solve", *arguments, "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
        seconds.append(perf_counter() - begin)
        if run.returncode != 0:
            raise SystemExit(
                f"schedgen solve {' '.join(arguments)} ended with {run.returncode}: {run.stderr}"
            )
        output = run.stdout
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return statistics.median(seconds), json.loads(output), peak


def over_specs() -> list[dict[str, object]]:
    """One row per shipped spec and target."""
    rows: list[dict[str, object]] = []
    for label, name, target, settings in variants():
        seconds, found, peak = command([name, "--target", target, *options(settings)])
        operations = found["ops"]
        certificate = found["certificate"]
        assert isinstance(operations, list)
        assert isinstance(certificate, dict)
        rows.append(
            {
                "spec": label,
                "target": target,
                "operations": sum(op["phase"] == "body" for op in operations),
                "outside": sum(op["phase"] != "body" for op in operations),
                "II": found["ii_cycles"],
                "bound": found["lower_bound_cycles"],
                "proven": found["proven_optimal"],
                "certificate": certificate["kind"],
                "command s": round(seconds, 2),
                "search s": found["solve_seconds"],
                "peak MB": round(peak),
            }
        )
    return rows


def larger(machine: Machine, factor: int) -> Machine:
    """An imaginary SM with ``factor`` times the memory and registers, for graphs that no real one
    could hold.
    """
    return replace(
        machine,
        smem_bytes=machine.smem_bytes * factor,
        tmem_columns=machine.tmem_columns * factor,
        registers_per_thread_sum=machine.registers_per_thread_sum * factor,
        warpgroups=machine.warpgroups * factor,
    )


# Seconds after which the largest graphs are given up.
PATIENCE = 60.0


def growth() -> list[dict[str, object]]:
    """attention_fwd with 2, 4 and 8 query tiles; the units stay those of one SM."""
    rows: list[dict[str, object]] = []
    for target in ("b200", "h200"):
        for tiles in (2, 4, 8):
            settings: Mapping[str, str] = {"tiles": str(tiles)}
            begin = perf_counter()
            machine = larger(read_machine(target), tiles // 2)
            spec = read_spec("attention_fwd")
            try:
                found = solve(spec, machine, settings=settings, time_limit=PATIENCE)
            except OutOfTime:
                nothing = dict.fromkeys(("operations", "edges", "II", "bound"), "-")
                seconds = round(perf_counter() - begin, 2)
                rows.append(
                    {
                        "target": target,
                        "tiles": tiles,
                        **nothing,
                        "proven": False,
                        "seconds": seconds,
                    }
                )
                continue
            body = found.schedule.body
            rows.append(
                {
                    "target": target,
                    "tiles": tiles,
                    "operations": len(body),
                    "edges": len(found.schedule.edges),
                    "II": found.schedule.ii_cycles,
                    "bound": found.schedule.lower_bound_cycles,
                    "proven": found.schedule.proven_optimal,
                    "seconds": round(perf_counter() - begin, 2),
                }
            )
    return rows


if __name__ == "__main__":
    first = over_specs()
    print(table(first), "\n", flush=True)
    keep("solve", first)
    second = growth()
    print(table(second))
    keep("solve_growth", second)

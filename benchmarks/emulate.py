"""How fast the emulator is: generated kernels, with the race checker and without.

    python benchmarks/emulate.py [--save]

Attention forward with 512 queries and keys and head_dim 128, a product of 512 x 512 matrices: the
seconds of the first launch, and the least of five later ones, which find instructions decoded.
Products of 256 x 256 x k for the growth: the least seconds of five runs after a first one, and what
1024 more of k took. Seconds are processor time of the execution, without compilation; whether the
result is right is checked as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from time import process_time
from typing import Any
from unittest.mock import patch

from report import keep, table

from schedgen.codegen.emit import emit
from schedgen.codegen.errors import EmitError
from schedgen.driver.emulating import compiled
from schedgen.driver.proved import prove_solution
from schedgen.driver.solution import solve
from schedgen.kernel import Kernel
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec

Row = dict[str, Any]
TARGETS = ("h200", "b200")
ATTENTION = {"batch": 1, "seq_q": 512, "seq_k": 512, "heads": 1, "heads_k": 1, "head_dim": 128}
SIDE = 512
GROWTH = (512, 1024, 2048, 4096, 8192)
RUNS = 5


@cache
def emitted(spec: str, target: str) -> tuple[str, Kernel, str]:
    """Text, kernel and architecture of a shipped spec at its best schedule."""
    solution = solve(read_spec(spec), read_machine(target))
    proven, kernel = prove_solution(solution).proven, solution.problem.kernel
    return emit(proven, kernel), kernel, proven.program.arch


def row(spec: str, target: str, extents: Mapping[str, int], races: bool) -> Row:
    """The first launch and later ones."""
    text, kernel, arch = emitted(spec, target)
    # Of one thread, so that what else the computer does changes little.
    with (
        patch("schedgen.emulator.emulation.perf_counter", process_time),
        compiled(text, kernel, arch, races=races) as made,
    ):
        runs = [made.run(extents) for _ in range(RUNS + 1)]
    outcome, seconds = runs[0], runs[0].report.seconds
    again = min(run.report.seconds for run in runs[1:])
    count = outcome.report.statistics.instructions
    return {
        "kernel": spec,
        "arch": arch,
        "extents": " ".join(f"{name}={size}" for name, size in outcome.extents.items()),
        "race checker": "on" if races else "off",
        "correct": all(run.correct and run.clean for run in runs),
        "warp instructions": count,
        "CPU seconds": f"{seconds:.2f}",
        "instructions/s": int(round(count / seconds, -2)),
        "later launches/s": int(round(count / again, -2)),
    }


def measured(spec: str, extents: Mapping[str, int], modes: tuple[bool, ...]) -> list[Row]:
    """A spec on all targets that it can be emitted for."""
    rows: list[Row] = []
    for target in TARGETS:
        for races in modes:
            try:
                rows.append(row(spec, target, extents, races))
            except EmitError as error:
                print(f"{spec} on {target} cannot be emitted: {error}")
                break
            print(table(rows[-1:]).splitlines()[-1], flush=True)
    return rows


def grown(spec: str, target: str) -> list[Row]:
    """Rows for a main loop that gets longer."""
    text, kernel, arch = emitted(spec, target)
    rows: list[Row] = []
    with (
        patch("schedgen.emulator.emulation.perf_counter", process_time),
        compiled(text, kernel, arch) as made,
    ):
        for k in GROWTH:
            runs = [made.run({"m": 256, "n": 256, "k": k}) for _ in range(RUNS + 1)]
            seconds = min(run.report.seconds for run in runs[1:])
            before = rows[-1] if rows else None
            rows.append({
                "kernel": spec, "arch": arch, "m=n": 256, "k": k,
                "correct": all(run.correct and run.clean for run in runs),
                "warp instructions": runs[0].report.statistics.instructions,
                "asynchronous operations": runs[0].report.statistics.operations,
                "CPU seconds": round(seconds, 3),
                "per 1024 more of k": round(
                    (seconds - before["CPU seconds"]) * 1024 / (k - before["k"]), 3
                ) if before else "",
            })  # fmt: skip
            print(table(rows[-1:]).splitlines()[-1], flush=True)
    return rows


def main() -> None:
    rows = measured("attention_fwd", ATTENTION, (True, False))
    rows += measured("gemm", {"m": SIDE, "n": SIDE, "k": SIDE}, (True, False))
    keep("emulate", rows)
    growth: list[Row] = []
    for target in TARGETS:
        growth += grown("gemm", target)
    keep("emulate_growth", growth)
    print()
    print(table(rows))
    print()
    print(table(growth))


if __name__ == "__main__":
    main()

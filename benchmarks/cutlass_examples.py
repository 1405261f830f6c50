"""NVIDIA's own CuTe DSL examples in the emulator: results and races.

    python benchmarks/cutlass_examples.py FOLDER [NAME ...] [--save]

FOLDER is a checkout of https://github.com/NVIDIA/cutlass. Every example runs with the race checker
twice, round-robin and with an adversarial schedule, and its result is compared with torch. One
process per example, since CuTe DSL takes the architecture when it is imported.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from cutlass_drivers import NAMES, architecture, prepare
from report import keep, table

SEED = 3
"""Of the adversarial schedule: asynchronous operations execute as late as possible."""
COLUMNS = (
    *("kernel", "arch", "schedule", "correct", "findings", "advice"),
    *("warp instructions", "seconds"),
)


def rows_of(folder: Path, name: str) -> list[dict[str, object]]:
    """One row per schedule. ``report`` has the findings, or the error that ended the run."""
    from schedgen.emulator.emulation import device
    from schedgen.emulator.machine.policies import Adversarial, RoundRobin
    from schedgen.errors import SchedgenError

    rows: list[dict[str, object]] = []
    for schedule, policy in (("round-robin", RoundRobin()), ("adversarial", Adversarial(SEED))):
        begin = perf_counter()
        row: dict[str, object] = {
            "kernel": name, "arch": architecture(name), "schedule": schedule, "correct": False,
        }  # fmt: skip
        rows.append(row)
        with device(architecture(name), policy=policy, races="report", sms=2) as gpu:
            prepared = prepare(folder, name)
            try:
                prepared.run()
            except SchedgenError as error:
                row |= {
                    "findings": "error",
                    "advice": "",
                    "warp instructions": "",
                    "report": _relative(str(error), folder),
                }
            else:
                errors = sum(len(report.errors) for report in gpu.reports)
                every = sum(len(report.findings or ()) for report in gpu.reports)
                count = sum(report.statistics.instructions for report in gpu.reports)
                row |= {
                    "correct": True,
                    "findings": errors,
                    "advice": every - errors,
                    "warp instructions": count,
                    "report": _relative(
                        "\n".join(r.text for r in gpu.reports if r.findings), folder
                    ),
                    "warnings": sorted(
                        {_relative(w, folder) for r in gpu.reports for w in r.statistics.warnings}
                    ),
                }
                try:
                    prepared.check()
                except AssertionError as error:
                    row |= {"correct": False, "report": str(error)}
        executing = sum(report.seconds for report in gpu.reports)
        row |= {"seconds": f"{executing:.1f}", "all seconds": f"{perf_counter() - begin:.1f}"}
    return rows


def _relative(text: str, folder: Path) -> str:
    """With paths relative to the checkout, wherever that is."""
    return text.replace(f"{folder}/", "")


def measured(folder: Path, name: str) -> list[dict[str, object]]:
    """`rows_of` in a process of its own."""
    run = subprocess.run(
        [sys.executable, __file__, str(folder), name, "--one"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "CUTE_DSL_ARCH": architecture(name)},
    )
    if run.returncode:
        raise SystemExit(f"{name}: {run.stderr[-2000:]}")
    return json.loads(run.stdout)


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    if not words or not set(words[1:]) <= set(NAMES):
        usage = "usage: cutlass_examples.py FOLDER [NAME ...] [--save]"
        raise SystemExit(f"{usage}\nwith NAME one of {', '.join(NAMES)}")
    folder, names = Path(words[0]), words[1:] or NAMES
    if "--one" in sys.argv:
        with contextlib.redirect_stdout(io.StringIO()):
            rows = [row for name in names for row in rows_of(folder, name)]
        print(json.dumps(rows))
        return
    rows: list[dict[str, object]] = []
    for name in names:
        rows += measured(folder, name)
        print(_shown(rows[-2:]), flush=True)
    print()
    print(_shown(rows))
    keep("cutlass_examples", rows)


def _shown(rows: list[dict[str, object]]) -> str:
    return table([{column: row[column] for column in COLUMNS} for row in rows])


if __name__ == "__main__":
    main()

"""`emulate_kernels` from recorded launches: on many cores, where neither torch nor the DSL is.

    python benchmarks/emulate_captures.py MUTANTS --shapes=FOLDER    # first, where the DSL is
    python benchmarks/emulate_kernels_recorded.py FOLDER ROWS [--jobs=N] [--seconds=S]
                                                  [--known=FILE] [BEGINNING ...]
    python benchmarks/emulate_kernels_recorded.py FOLDER ROWS --merge --save

ROWS is a file of JSON lines, one per kernel, shape and schedule, which grows while the command
runs; what is there, or in FILE, is not computed again. ``--merge`` puts shapes of which all
schedules ran into the results of `emulate_kernels`.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from emulate_capture_file import Entry, entries
from emulated_mutants.pool import Task, judge
from emulated_mutants.run import Campaign
from report import RESULTS, keep

from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.policies import Adversarial

SCHEDULES = 20
NAME = "emulate_kernels"
Row = dict[str, Any]
Key = tuple[str, str, int]


def scheduled(campaign: Campaign, number: int) -> Row:
    """How one schedule of one shape ends; shapes are the quotients of ``number``."""
    capture = campaign.capture
    at, seed = divmod(number, SCHEDULES)
    run = capture.runs[at]
    row: Row = {
        "kernel": capture.name, "version": capture.version, "number": number, "shape": run.name,
        "arch": run.recording.target.name, "seed": seed,
        "extents": " ".join(f"{name}={size}" for name, size in run.extents.items()),
    }  # fmt: skip
    wrong: Row = {"correct": False, "clean": False, "of allowed": 0.0, "instructions": 0}
    try:
        report, memory = campaign.run(at, Adversarial(seed))
    except EmulationError as error:
        return row | wrong | {"notes": f"seed {seed}: {error}"}
    mistakes = run.errors(memory)
    notes = f"seed {seed}: {report.text or mistakes}" if mistakes or report.errors else ""
    return row | {
        "correct": not mistakes,
        "clean": not report.errors,
        "of allowed": max(one.error(memory) / one.allowed for one in run.wanted),
        "instructions": report.statistics.instructions,
        "notes": notes,
    }


def known(files: Iterable[Path], found: Sequence[Entry]) -> dict[Key, Row]:
    """The rows about captures as they are."""
    versions = {one.name: one.version for one in found}
    rows: dict[Key, Row] = {}
    for line in (line for file in files if file.exists() for line in file.open("rb")):
        try:
            row = json.loads(line)
        except json.JSONDecodeError:  # the last line, where a process was ended
            continue
        if versions.get(row["kernel"]) == row["version"]:
            rows[row["kernel"], row["version"], row["number"]] = row
    return rows


def merged(rows: Iterable[Row]) -> list[Row]:
    """One row per kernel and shape all of whose schedules ran, as `emulate_kernels` has them."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["number"]):
        groups[row["kernel"], row["shape"]].append(row)
    return [
        {
            "kernel": kernel, "arch": group[0]["arch"], "file": group[0]["version"],
            "shape": shape, "extents": group[0]["extents"], "schedules": SCHEDULES,
            "correct": sum(row["correct"] for row in group),
            "clean": sum(row["clean"] for row in group),
            "error of allowed": round(max(row["of allowed"] for row in group), 3),
            "warp instructions": sum(row["instructions"] for row in group),
            "seconds": round(sum(row["seconds"] for row in group), 1),
            "notes": next((row["notes"] for row in group if row["notes"]), ""),
        }
        for (kernel, shape), group in groups.items()
        if len(group) == SCHEDULES
    ]  # fmt: skip


def merge(rows: Iterable[Row]) -> None:
    """Replaces rows of the results, which stay in the order of `schedgen.kernels.regenerate`."""
    from schedgen.kernels.regenerate import shipped

    order = {one.name.removesuffix(".py"): place for place, one in enumerate(shipped())}
    path = RESULTS / f"{NAME}.json"
    old: list[Row] = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []
    new = merged(rows)
    all_ = {(row["kernel"], row["shape"]): row for row in (*old, *new)}
    kept = [row for row in all_.values() if row["kernel"] in order]
    kept.sort(key=lambda row: order[row["kernel"]])
    keep(NAME, kept)
    wrong = [row for row in kept if min(row["correct"], row["clean"]) < row["schedules"]]
    for row in wrong:
        print(row["kernel"], row["shape"], row["notes"][:2000])
    missing = sorted(set(order) - {row["kernel"] for row in kept})
    print(f"{len(new)} new shapes, {len(kept)} in all, {len(wrong)} with faults")
    print(f"kernels without a row: {', '.join(missing) or 'none'}")
    raise SystemExit(bool(wrong))


def main() -> None:
    options = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:] if "=" in word)
    names = [word for word in sys.argv[1:] if not word.startswith("--")]
    folder, file = Path(names[0]), Path(names[1])
    found = entries(folder, names[2:])
    files = [file, *(Path(options[key]) for key in ("known",) if key in options)]
    if "--merge" in sys.argv:
        merge(known(files, found).values())
    done = known(files, found)
    tasks = [
        Task(entry, [
            number for number in range(entry.mutants)
            if (entry.name, entry.version, number) not in done
        ])
        for entry in found
    ]  # fmt: skip
    jobs = int(options.get("jobs", str(os.cpu_count())))
    until = monotonic() + float(options.get("seconds", "1e9"))
    judge(folder, tasks, file, scheduled, jobs, until - monotonic())
    rows = known(files, found).values()
    left = sum(entry.mutants for entry in found) - len(rows)
    wrong = [row for row in rows if not (row["correct"] and row["clean"])]
    for row in wrong:
        print(row["kernel"], row["shape"], row["notes"][:400])
    spent = sum(row["seconds"] for row in rows)
    print(f"{len(rows)} runs of {spent:.0f} CPU seconds, {len(wrong)} with faults, {left} left")


if __name__ == "__main__":
    main()

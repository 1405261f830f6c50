"""Compiled kernels that are wrong on purpose: does the emulator notice?

    python benchmarks/emulate_captures.py CAPTURES ...         # first, where the DSL is installed
    python benchmarks/emulate_mutants.py CAPTURES ROWS [--jobs=N] [--seconds=S] [--each=N]
                                         [--known=FILE] [BEGINNING ...]
    python benchmarks/emulate_mutants.py CAPTURES ROWS --merge [--save]

Every synchronization instruction of the PTX is removed, weakened or changed, one at a time
(`schedgen.benchmarks.mutants.kernels`), and the kernel runs with the race checker under adversarial
schedules until one shows a fault: a race, an error (undefined behaviour, or no end), a deadlock or
another result than that of the kernel itself; waits that wait for something else also under
schedules in which their warps come to them as late, and as early, as they can. What no schedule
shows in the first launch of the kernel is tried in the next ones. What is never shown is examined
(`emulated_mutants.why`) as soon as all are judged, and listed with the reason why it is equivalent,
or without one. Both stop after S seconds and go on where they stopped when they are called again.

ROWS is a file of JSON lines, one per mutant, which grows while the command runs; mutants that are
there, or in FILE, are not judged again unless their kernel has changed. This needs numpy, lark and
no compiler. ``--each=N`` takes at most N mutants of every operator and kernel, spread over the
kernel; ``BEGINNING`` picks kernels by how their names begin. ``--merge`` makes the tables.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from emulate_capture_file import Entry, entries, read
from emulated_mutants.pool import Task, judge
from emulated_mutants.run import ENDS, TRIES, UNCHANGED, Campaign
from emulated_mutants.why import HOLDS, VERSION, explained
from report import keep, table

Row = dict[str, Any]
NAME = "emulate_mutants"
_OPEN = ("undetected", "not executed")
Key = tuple[str, str, int]


def judged(campaign: Campaign, number: int) -> Row:
    """How one mutant ends."""
    mutant = campaign.mutants[number]
    end = campaign.end(mutant)
    one = mutant.instruction
    place = one.location
    return {
        "kernel": campaign.capture.name, "version": campaign.capture.version, "number": number,
        "operator": mutant.operator, "line": one.line, "instruction": one.name,
        "source": f"{Path(place.file).name}:{place.line}" if place else "",
        **end.__dict__, "tries": TRIES,
    }  # fmt: skip


def known(files: Iterable[Path], found: Sequence[Entry]) -> dict[Key, Row]:
    """The rows about mutants of the captures as they are; reasons are in the row of the mutant.
    Rows of mutants that would be tried in more ways now are left out, and reasons that earlier
    versions gave."""
    versions = {one.name: one.version for one in found}
    rows: dict[Key, Row] = {}
    reasons: dict[Key, str] = {}
    for line in (line for file in files if file.exists() for line in file.open("rb")):
        try:
            row = json.loads(line)
        except json.JSONDecodeError:  # the last line, where a process was ended
            continue
        if versions.get(row["kernel"]) != row["version"]:
            continue
        key = row["kernel"], row["version"], row["number"]
        if "reason" in row:
            why = row.get("why", 0)
            if why == VERSION or (row["reason"] and why >= HOLDS):
                reasons[key] = row["reason"]
        elif row["end"] not in _OPEN or row.get("tries") == TRIES:
            rows[key] = row
    for key, reason in reasons.items():
        if key in rows:
            rows[key]["reason"] = reason
    return rows


def chosen(folder: Path, entry: Entry, each: int | None) -> Sequence[int]:
    """The numbers of the mutants of a kernel, or of some of every operator."""
    if each is None:
        return range(entry.mutants)
    groups: dict[str, list[int]] = defaultdict(list)
    for number, mutant in enumerate(Campaign(read(folder, entry.name)).mutants):
        groups[mutant.operator].append(number)
    return sorted(n for group in groups.values() for n in group[:: -(-len(group) // each)])


def merged(rows: Iterable[Row], found: Sequence[Entry]) -> list[Row]:
    """One row per kernel and operator."""
    totals = {one.name: one.mutants for one in found}
    order = {name: place for place, name in enumerate(totals)}
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    unchanged: Counter[str] = Counter()
    for row in rows:
        if row["operator"] == UNCHANGED:
            unchanged[row["kernel"]] += 1
            if row["end"] != "undetected":
                raise SystemExit(f"{row['kernel']} itself is not silent: {row}")
            continue
        groups[row["kernel"], row["operator"]].append(row)
    return [
        {
            "kernel": kernel, "version": group[0]["version"],
            "of kernel": totals[kernel] - unchanged[kernel],
            "operator": operator, "mutants": len(group), **_counts(group),
            "seconds": round(sum(row["seconds"] for row in group), 1),
            "equivalent": sum(bool(row.get("reason")) for row in group),
            "reasons": _reasons(group),
            "missed": [
                {"where": _place(row), "examined": "reason" in row}
                for row in _undetected(group) if not row.get("reason")
            ],
        }
        for (kernel, operator), group in sorted(
            groups.items(), key=lambda item: (order[item[0][0]], item[0][1])
        )
    ]  # fmt: skip


def _counts(group: Sequence[Row]) -> dict[str, int]:
    ends = Counter(row["end"] for row in group)
    return {end: ends[end] for end in ENDS}


def _undetected(group: Sequence[Row]) -> list[Row]:
    found = (row for row in group if row["end"] == "undetected")
    return sorted(found, key=lambda row: row["number"])


def _reasons(group: Sequence[Row]) -> dict[str, Row]:
    """Why mutants are equivalent: how many for each kind of reason, and where the first one is."""
    found: dict[str, Row] = {}
    for row in _undetected(group):
        if row.get("reason"):
            first = {"mutants": 0, "such as": _place(row)}
            found.setdefault(kind_of(row["reason"]), first)["mutants"] += 1
    return found


def kind_of(reason: str) -> str:
    """A reason without what differs between mutants."""
    if "does the same" in reason:
        return (
            "another instruction of the kind does the same: each of the two may go, without both "
            "there is a fault"
        )
    reason = re.sub(r"line [\d, ]+ tells it", "another wait or barrier tells it", reason)
    return re.sub(r" \(strict in [^)]*\)|; reported with S\d+(, S\d+)+", "", reason)


def _place(row: Row) -> str:
    return f"line {row['line']}: {row['instruction']}"


def main() -> None:
    options = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:] if "=" in word)
    names = [word for word in sys.argv[1:] if not word.startswith("--")]
    folder, file = Path(names[0]), Path(names[1])
    found = entries(folder, names[2:])
    files = [file, *(Path(options[key]) for key in ("known",) if key in options)]
    if "--merge" not in sys.argv:
        until = monotonic() + float(options.get("seconds", "1e9"))
        jobs = int(options.get("jobs", str(os.cpu_count())))
        each = int(options["each"]) if "each" in options else None
        done = known(files, found)
        tasks = [
            Task(entry, [
                number for number in chosen(folder, entry, each)
                if (entry.name, entry.version, number) not in done
            ])
            for entry in found
        ]  # fmt: skip
        judge(folder, tasks, file, judged, jobs, until - monotonic())
        open_ = defaultdict[str, list[Row]](list)
        for row in known(files, found).values():
            open_[row["kernel"]].append(row)
        tasks = [
            Task(entry, [
                row["number"] for row in open_[entry.name]
                if row["end"] == "undetected" and "reason" not in row
                and row["operator"] != UNCHANGED
            ])
            for entry in found
        ]  # fmt: skip
        judge(folder, tasks, file, explained(open_), jobs, until - monotonic())
    rows = merged(known(files, found).values(), found)
    _show(rows)
    keep(NAME, rows)


def _show(rows: Sequence[Row]) -> None:
    for key in ("kernel", "operator"):
        lines: list[dict[str, object]] = []
        for name in (*dict.fromkeys(row[key] for row in rows), "all"):
            own = [row for row in rows if name in ("all", row[key])]
            sums = {end: sum(row[end] for row in own) for end in ("mutants", *ENDS, "equivalent")}
            spent = f"{sum(row['seconds'] for row in own):.0f}"
            lines.append({key: name, **sums, "CPU seconds": spent})
        print(table(lines), end="\n\n")
    for row in rows:
        for missed in row["missed"]:
            if not missed["reason"]:
                print(f"{row['kernel']}: {row['operator']}, {missed['where']}: NO REASON")


if __name__ == "__main__":
    main()

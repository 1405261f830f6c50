"""Seconds of `schedgen solve` by stage beside those of another version, in the same run.

    python benchmarks/solve_against.py OTHER [--save] [--runs N]

``OTHER`` is the command of the other version, such as ``../old/.venv/bin/schedgen``. Each shipped
spec is solved, synchronized and proven on each of its targets by both, in turns of random order;
least times of the runs count, since whatever else the machine does only adds to them. Cycles are
those of the machine model of each version, not measured ones.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

from report import keep, table

from schedgen.spec.reader import read_spec, shipped_specs

NAME = "solve_against"
OWN = str(Path(sys.executable).with_name("schedgen"))
Row = dict[str, Any]


def solved(command: str, spec: str, target: str) -> Row:
    """What one version prints for a spec."""
    line = [command, "solve", spec, "--target", target, "--json"]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def compare(spec: str, target: str, other: str, runs: int, random: Random) -> Row:
    """One spec on one target."""
    turns = [OWN, other] * runs
    random.shuffle(turns)
    found: dict[str, list[Row]] = defaultdict(list)
    for command in turns:
        found[command].append(solved(command, spec, target))
    now, before = found[OWN][0], found[other][0]
    same = all(
        now[key] == before[key]
        for key in ("ii_cycles", "lower_bound_cycles", "proven_optimal", "stages")
    )
    row: Row = {"spec": spec, "target": target, "II": now["ii_cycles"], "same": same}
    if not same:
        row["II before"] = before["ii_cycles"]
    for what, command in (("before", other), ("now", OWN)):
        row[f"solve {what}"] = min(one["solve_seconds"] for one in found[command])
        row[f"synchronize {what}"] = min(one["synchronize_seconds"] for one in found[command])
        row[f"prove {what}"] = round(
            min(sum(one["proof"]["seconds"].values()) for one in found[command]), 3
        )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("other")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    rows: list[Row] = []
    for spec in shipped_specs():
        for target in read_spec(spec).file.targets:
            row = compare(spec, target, options.other, options.runs, Random(f"{spec} {target}"))
            rows.append(row)
            print(json.dumps(row), flush=True)
    keep(NAME, rows)
    print(table(rows))
    for stage in ("solve", "synchronize", "prove"):
        before, now = (sum(row[f"{stage} {what}"] for row in rows) for what in ("before", "now"))
        most = max(row[f"{stage} now"] / row[f"{stage} before"] for row in rows)
        print(f"{stage}: {now:.1f} s, before {before:.1f} s ({now / before:.2f}); "
              f"at most {most:.2f} of a spec")  # fmt: skip


if __name__ == "__main__":
    main()

"""Random specs through solver, proof, emitter, compiler and emulator, compared with two references.

    python benchmarks/fuzz.py [--seconds N] [--count N] [--seed S] [--jobs J] [--out FILE.jsonl]
                              [--json] [--save] [--shrink] [--no-conform]
                              [--replay INDEX|FILE ...]

Each spec ends right and clean, refused with a fix, or as a failure. A row about it is appended to
``--out``, and a run with the same file goes on after the last one. ``--shrink`` makes the first
failure of each kind small and writes it to ``fuzz-failures/``. ``--replay`` runs single specs of
the seed, or files that ``--shrink`` wrote, and says everything about them. ``--save`` keeps the
tables in ``results/fuzz.json``. ``--no-conform`` leaves the validation of the PTX away. Exit status
1 if there are failures but those that ``fuzzing/known.json`` lists with what is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import takewhile
from pathlib import Path
from time import monotonic
from typing import Any

import fuzzing.run
from fuzzing.cases import read_case, write_case
from fuzzing.grammar import case
from fuzzing.pool import endings
from fuzzing.run import Ending
from fuzzing.shrink import shrunk
from fuzzing.sketch import Case
from fuzzing.tables import failures, known, summary, tables
from report import RESULTS, environment

Row = dict[str, Any]
FAILURES = Path("fuzz-failures")
KNOWN = Path(__file__).parent / "fuzzing" / "known.json"
CASE_SECONDS = 120.0
"""By the clock, for a spec; of these two thirds are for solving and executing."""


def main() -> int:
    options = _options()
    fuzzing.run.VALIDATE = not options.no_conform  # processes are forked, so that they have it
    if options.replay:
        return _replay(options)
    rows = _read(options.out, options.seed)
    begin, old = monotonic(), len(rows)
    first = max((row["number"] for row in rows), default=-1) + 1
    numbers = range(first, first + options.count if options.count else sys.maxsize)
    left = takewhile(lambda _: monotonic() - begin < options.seconds, numbers)
    cases = (case(options.seed, n) for n in left)
    for one, outcome in endings(cases, options.jobs, CASE_SECONDS):
        row = {"seed": options.seed, "number": one.number, "target": one.target}
        rows.append({**row, "family": one.family, "inputs": one.inputs, **outcome.row()})
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[-1]) + "\n")
        if not options.json:
            _progress(rows, old, monotonic() - begin)
    if not options.json:
        print()
    bad, listed = failures(rows), json.loads(KNOWN.read_text("utf-8"))
    if options.json:
        print(json.dumps(summary(rows), indent=1))
    else:
        print(tables(rows))
    if options.save:
        found = {"environment": environment(), "seed": options.seed, **summary(rows)}
        (RESULTS / "fuzz.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.shrink:
        for row in {(r["ending"], r["stage"], r["reason"]): r for r in reversed(bad)}.values():
            _shrink(case(options.seed, row["number"]))
    return 1 if any(not known(row, listed) for row in bad) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--no-conform", action="store_true")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--replay", nargs="+", default=[])
    options = parser.parse_args()
    if not options.replay and not options.count and options.seconds == float("inf"):
        parser.error("say how long: --seconds N or --count N")
    return options


def _read(path: Path | None, seed: int) -> list[Row]:
    """The rows of a run that goes on."""
    if path is None or not path.exists():
        return []
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    if any(row["seed"] != seed for row in rows):
        raise SystemExit(
            f"{path} is of another seed; fix: --seed {rows[0]['seed']}, or another file"
        )
    return rows


def _progress(rows: list[Row], old: int, seconds: float) -> None:
    bad, new = len(failures(rows)), len(rows) - old
    text = f"{len(rows)} specs, {bad} failures, {seconds / max(new, 1):.1f} s each"
    last = rows[-1]
    if Ending(last["ending"]).failure:
        print(f"\r{last['number']} {last['family']} {last['target']}: {last['ending']} at "
              f"{last['stage']}: {last['reason']}{' ' * 20}")  # fmt: skip
    print(f"\r{text}", end="", flush=True)


def _replay(options: argparse.Namespace) -> int:
    """Run single cases; say everything about them."""
    status = 0
    for which in options.replay:
        one = case(options.seed, int(which)) if which.isdecimal() else read_case(Path(which))
        for _, outcome in endings(iter([one]), 1, CASE_SECONDS):
            print(f"{which}: {one.family} on {one.target}: {outcome.ending}"
                  f" at {outcome.stage} {outcome.reason}\n{outcome.detail}")  # fmt: skip
            status = 1 if outcome.ending.failure else status
        if options.shrink and status:
            _shrink(one)
    return status


def _shrink(one: Case) -> None:
    small, outcome = shrunk(one, CASE_SECONDS)
    if outcome.ending.failure:
        print(f"\n{write_case(FAILURES, small, outcome)}")


if __name__ == "__main__":
    sys.exit(main())

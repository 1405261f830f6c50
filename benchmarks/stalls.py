"""Where the warps of a kernel's loops with products are, from what Nsight Compute sampled.

    ncu -o FILE -k regex:NAME -c 1 --section SourceCounters --section SpeedOfLight python SCRIPT
    ncu -i FILE.ncu-rep --page source --csv > SOURCE
    ncu -i FILE.ncu-rep --page details --csv > DETAILS
    python benchmarks/stalls.py SOURCE DETAILS --iterations N [--save NAME]

``N``: iterations of all output tiles of an SM, which took all cycles of the kernel. A loop is a
run of instructions, products of Hopper among them, that were executed as often as these; each
warpgroup has its own. Of its samples the shares are cycles of an iteration: of waits for barriers
(the question and the branch behind it), of fences of the async proxy with the arrivals behind them,
of waits for products, of issuing these, of instructions that wait for numbers from shared memory,
and of all others. ``--save`` keeps them in ``results/stalls.json`` under a name, with the GPU.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from report import RESULTS

Row = dict[str, str]
KINDS = {
    "waits for barriers": ("SYNCS.PHASECHK", "NANOSLEEP.SYNCS"),
    "fences and arrivals": ("FENCE.", "MEMBAR.", "SYNCS.ARRIVE"),
    "waits for products": ("WARPGROUP.DEPBAR",),
    "products": ("HGMMA", "QGMMA", "WARPGROUP.ARRIVE"),
}
SHARED, OTHER = "numbers from shared memory", "others"
PRODUCTS = ("HGMMA", "QGMMA")
GAP = 16
"""Instructions between those of a loop that only some of its iterations execute."""


def main() -> int:
    options = _options()
    period = _elapsed(options.details) / options.iterations
    found = [_shares(loop, period) for loop in loops(_instructions(options.source))]
    for shares in found:
        print(json.dumps(shares))
    if options.save:
        path = RESULTS / "stalls.json"
        kept = json.loads(path.read_text("utf-8")) if path.exists() else {}
        where = {"gpu": options.gpu, "date": str(date.today())}
        kept[options.save] = {**where, "loops": found}
        path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0


def _instructions(path: Path) -> list[Row]:
    """Of the first kernel of a file."""
    with path.open(encoding="utf-8") as file:
        lines = list(csv.reader(file))
    head = next(line for line in lines if "Source" in line)
    return [dict(zip(head, line, strict=True)) for line in lines if len(line) == len(head)][1:]


def _elapsed(path: Path) -> float:
    with path.open(encoding="utf-8") as file:
        rows = csv.DictReader(file)
        found = next(row for row in rows if row["Metric Name"] == "Elapsed Cycles")
    return float(found["Metric Value"].replace(",", ""))


def loops(instructions: list[Row]) -> Iterator[list[Row]]:
    """Instructions that were executed as often as products are, with what is between them."""
    times = [int(row["Instructions Executed"]) for row in instructions]
    most = max((n for n, r in zip(times, instructions, strict=True) if _is(r, PRODUCTS)), default=0)
    often = [at for at, number in enumerate(times) if number >= most > 0]
    for first, last in _runs(often):
        loop = instructions[first : last + 1]
        if any(_is(row, PRODUCTS) for row in loop):
            yield loop


def _runs(places: list[int]) -> Iterator[tuple[int, int]]:
    """Ends of runs of places with gaps of a few at most."""
    begin = 0
    for at in range(1, len(places) + 1):
        if at == len(places) or places[at] - places[at - 1] > GAP:
            yield places[begin], places[at - 1]
            begin = at


def _is(row: Row, words: tuple[str, ...]) -> bool:
    return any(word in row["Source"] for word in words)


def _shares(loop: list[Row], period: float) -> dict[str, float]:
    samples = sum(int(row["# Samples"]) for row in loop)
    found = dict.fromkeys([*KINDS, SHARED, OTHER], 0)
    before = ""
    for row in loop:
        kind = next((kind for kind, words in KINDS.items() if _is(row, words)), OTHER)
        if "BRA" in row["Source"] and before == "waits for barriers":
            kind = before
        count, short = int(row["# Samples"]), int(row["stall_short_sb"])
        found[SHARED] += short if kind == OTHER else 0
        found[kind] += count - (short if kind == OTHER else 0)
        before = kind
    cycles = {kind: round(period * count / samples) for kind, count in found.items()}
    return {"instructions": len(loop), "cycles": round(period), **cycles}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="ncu --page source --csv")
    parser.add_argument("details", type=Path, help="ncu --page details --csv")
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--save", metavar="NAME", help="keep shares in benchmarks/results")
    parser.add_argument("--gpu", default="", help="what it was measured on")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

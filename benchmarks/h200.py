"""All that is claimed about speed on an H200: every shape beside its peers, in one run.

    python benchmarks/h200.py [FAMILY ...] [--save]

FAMILY is attention, gemm, symmetric or polar; all of them if none is named. Each shape is measured
as it is called (eagerly, nothing queued ahead, L2 overwritten) and in CUDA graphs, with its error
against float64. --save keeps the rows, those of other families as they were, in
`results/h200.json` after every shape. In the end there is a line for each family: the geometric
mean and the least of our speed over the best peer's, beside what is aimed at.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from math import isnan, nan
from statistics import geometric_mean

from report import RESULTS, keep, require_gpu, table

from schedgen.benchmarks import shipped
from schedgen.benchmarks.polar import GRAM
from schedgen.benchmarks.timing import OURS, Row

NAME = "h200"
EAGERLY, GRAPHS = "of best peer eagerly", "of best peer in a graph"
_HOW = ("eager", "graph")


@dataclass(frozen=True, slots=True)
class Family:
    """What is measured, and the geometric mean and the least share of the best peer aimed at."""

    rows: Callable[[], Iterator[Row]]
    shape: tuple[str, ...]
    mean: float
    least: float


def _polar() -> Iterator[Row]:
    for row in shipped.polar_rows(peers=(GRAM,)):
        if "ms" in row:  # of a graph, which is what `polar` is measured as
            yield row | {"graph ms": row["ms"], GRAPHS: row["of best peer"]}


FAMILIES = {
    "attention": Family(
        shipped.attention_rows,
        ("batch", "seq", "heads", "heads_k", "head_dim", "causal"),
        *(1.05, 1.00),
    ),
    "gemm": Family(shipped.gemm_rows, ("m", "n", "k"), 1.00, 0.95),
    "symmetric": Family(shipped.symmetric_rows, ("n", "k"), 1.15, 1.00),
    "polar": Family(_polar, ("batch", "n", "m"), 1.35, 0.0),
}


def measured(name: str) -> Iterator[list[Row]]:
    """Rows of a family, all providers of a shape at a time."""
    family = FAMILIES[name]
    for _, rows in groupby(family.rows(), lambda row: [row.get(key) for key in family.shape]):
        yield [{"family": name} | row | shipped.where() for row in rows]


def line(rows: Iterable[Row]) -> Row:
    """What is printed of a shape."""
    found = {str(row["provider"]): row for row in rows if "ms" in row}
    ours, name = found[OURS], str(found[OURS]["family"])
    shape: Row = {key: ours[key] for key in FAMILIES[name].shape}
    times = {f"{p} {how}": r.get(f"{how} ms", "") for p, r in found.items() for how in _HOW}
    return shape | times | {EAGERLY: ours[EAGERLY], GRAPHS: ours[GRAPHS], "error": ours["error"]}


def summary(rows: Iterable[Mapping[str, object]]) -> list[Row]:
    """A row for each family and way to call it."""
    found: dict[str, list[Mapping[str, object]]] = {}
    for row in rows:
        if row["provider"] == OURS:
            found.setdefault(str(row["family"]), []).append(row)
    return [
        _summed(name, how, [float(str(row.get(column) or nan)) for row in ours])
        for name, ours in found.items()
        for how, column in (("eager", EAGERLY), ("graphs", GRAPHS))
    ]


def _summed(name: str, how: str, shares: list[float]) -> Row:
    family = FAMILIES[name]
    known = [share for share in shares if not isnan(share)]
    return {
        "family": name,
        "called": how,
        "shapes": len(known),
        "mean": round(geometric_mean(known), 3) if known else "",
        "aim": family.mean,
        "least": min(known, default=""),
        "at least": family.least,
        "below": sum(share < family.least for share in known),
    }


def main() -> None:
    names = [word for word in sys.argv[1:] if not word.startswith("--")] or list(FAMILIES)
    unknown = [name for name in names if name not in FAMILIES]
    if unknown:
        raise SystemExit(f"no family {unknown[0]}; fix: one of {', '.join(FAMILIES)}")
    require_gpu()
    rows = [row for row in _kept() if row["family"] not in names]
    print(shipped.where(), flush=True)
    for name in names:
        for found in measured(name):
            rows += found
            print(json.dumps(line(found)), flush=True)
            keep(NAME, rows)
    print(table(summary(rows)))


def _kept() -> list[Row]:
    path = RESULTS / f"{NAME}.json"
    if "--save" not in sys.argv or not path.exists():
        return []
    return json.loads(path.read_text("utf-8"))["rows"]


if __name__ == "__main__":
    main()

"""`polar` on the GPU at hand, beside torch and gram-newton-schulz with quack's kernels.

    python benchmarks/polar.py [--serial] [--save]

What `schedgen bench polar` measures, with a line for each shape: ms as CUDA graphs; its
floor; gram-quack's time over ours, in graphs and eagerly; error and defect of ours. --serial
measures `polar` also with independent products one after the other, instead of side by side.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from statistics import geometric_mean

from report import keep, table

from schedgen.benchmarks.polar import GRAM, PEERS, SERIAL
from schedgen.benchmarks.shipped import polar_rows, where
from schedgen.benchmarks.timing import OURS, Row


def by_shape(rows: Iterable[Row]) -> list[Row]:
    """Rows for each provider, as `polar_rows` has them, as one row for each shape."""
    found: dict[tuple[object, ...], dict[str, Row]] = {}
    for row in rows:
        print(row, flush=True)
        if "ms" in row:
            found.setdefault((row["batch"], row["n"], row["m"]), {})[str(row["provider"])] = row
    return [_line(dict(zip(("batch", "n", "m"), k, strict=True)), v) for k, v in found.items()]


def _line(shape: Row, providers: dict[str, Row]) -> Row:
    ours = providers[OURS]
    times = {name: row["ms"] for name, row in providers.items()}
    line = shape | {OURS: times[OURS]}
    if SERIAL in times:
        line |= {SERIAL: times[SERIAL], "of serial": _ratio(times[SERIAL], times[OURS])}
    line |= {name: times.get(name, "") for name in PEERS}
    line |= {"floor": ours["floor ms"], "eager": ours["eager ms"]}
    line |= {"of gram-quack": "", "of gram-quack eagerly": ""}
    if GRAM in times:
        line["of gram-quack"] = _ratio(times[GRAM], times[OURS])
        line["of gram-quack eagerly"] = _ratio(providers[GRAM]["eager ms"], ours["eager ms"])
    return line | {"error": ours["error"], "defect": ours["defect"]}


def _ratio(theirs: object, ours: object) -> float:
    return round(float(str(theirs)) / float(str(ours)), 3)


def main() -> None:
    found = by_shape(polar_rows(serial="--serial" in sys.argv))
    print(where())
    print(table(found))
    for column in ("of gram-quack", "of gram-quack eagerly", "of serial"):
        ratios = [float(str(row[column])) for row in found if row.get(column)]
        if ratios:
            print(f"geometric mean {column}: {geometric_mean(ratios):.3f}")
    keep("polar", found)


if __name__ == "__main__":
    main()

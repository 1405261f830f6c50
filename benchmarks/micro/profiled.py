"""Passes of shared memory that Nsight Compute counted, by the patterns of `banks.cu`.

    python benchmarks/micro/profiled.py CSV [--gpu NAME] > benchmarks/results/banks_profiled.json

CSV is what ``ncu --csv`` prints of that program, whose list of patterns is read from its source:
the launches are in the order of the list, a load and a store of each.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from pathlib import Path

SOURCE = Path(__file__).with_name("banks.cu")
METRIC = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
ALL = 31
_SOME = re.compile(r"SOME\(KIND,PITCH,0,0,(\d+)\)")
_CASE = re.compile(r"(BOTH|MASKS)\(([\d,]+)\)")


def patterns() -> Iterator[dict[str, int | bool]]:
    """Those of the program, in its order."""
    head, main = SOURCE.read_text("utf-8").split("int main()")
    masks = [int(mask) for mask in _SOME.findall(head)]
    for macro, numbers in _CASE.findall(main):
        kind, pitch, *more = map(int, numbers.split(","))
        swap, flip = more or (0, 0)
        for mask in masks if macro == "MASKS" else [ALL]:
            for store in (False, True):
                found = {"bytes": kind, "store": store, "pitch": pitch, "swap": swap}
                yield found | {"flip": flip, "mask": mask}


def counted(path: Path) -> list[dict[str, int]]:
    """Metrics of each launch."""
    with path.open(encoding="utf-8") as file:
        lines = csv.DictReader(line for line in file if line.startswith('"'))
        found: dict[int, dict[str, int]] = defaultdict(dict)
        for line in lines:
            found[int(line["ID"])][line["Metric Name"]] = int(line["Metric Value"])
    return [found[number] for number in sorted(found)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("csv", type=Path)
    parser.add_argument("--gpu", default="")
    options = parser.parse_args()
    rows = [
        one | {"passes": launch[METRIC.format("st" if one["store"] else "ld")]}
        for one, launch in zip(patterns(), counted(options.csv), strict=True)
    ]
    where = {
        "date": str(date.today()),
        "gpu": options.gpu,
        "counted by": "ncu, l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld and _st",
        "kernels": "benchmarks/micro/banks.cu; bytes of a lane, "
        "1 for ldmatrix and stmatrix of four matrices",
    }
    lines = ",\n".join(f" {json.dumps(row)}" for row in rows)
    print(f'{{"environment": {json.dumps(where)},\n"rows": [\n{lines}\n]}}')


if __name__ == "__main__":
    main()

"""Where main loops take longer on a GPU than by their machine code: instruction by instruction.

    python benchmarks/sampled.py [--gpu GPU] [--date DATE] [--least N] [--save] SOURCE NAME:CYCLES
        [NAME:CYCLES ...]

``SOURCE`` is what Nsight Compute sampled of the kernels NAME, in this order (`stall_reasons.py`
says how), CYCLES what an iteration of each was measured to take: samples are scaled to that. Beside
them is from when the instruction before was issued until this one is, as `schedgen.cycles` predicts
it, the mean of roles that begin together and half an II after each other. There are rows for
instructions that differ by at least N cycles, 30 if nothing is said, of the role that multiplies or
else has most of them, and one for all others; *mostly* is a reason that more than half of the
samples have, or *products* for one that none has, before a product. Kernels are compiled again:
with the assembler that made what was sampled.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from assembled import listing, same_code
from report import RESULTS, environment, lines, table
from stall_reasons import PRODUCTS, Row, kernels_of, number, opcode

from schedgen.calibration.shipped import program_of_lock, shipped_experiments
from schedgen.cycles.matching import matched
from schedgen.cycles.predict import of_code
from schedgen.execution.issuing import issued
from schedgen.machine import Machine
from schedgen.machine_constants import middles
from schedgen.machine_file import read_machine

NAME = "sampled"
TARGET = "h200"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path)
    parser.add_argument("--gpu", default="", help="where it was sampled")
    parser.add_argument("--date", default=str(date.today()), help="when")
    parser.add_argument("--least", type=float, default=30.0, help="cycles that a row differs by")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("names", nargs="+", metavar="NAME:CYCLES")
    options = parser.parse_args()
    sampled = list(kernels_of(options.source))
    if len(sampled) != len(options.names):
        raise SystemExit(f"{options.source} has {len(sampled)} kernels, named: {options.names}")
    where = {"table": NAME, "device": options.gpu, "measured on": options.date}
    machine = middles(read_machine(TARGET))
    rows: list[dict[str, Any]] = []
    for text, kernel in zip(options.names, sampled, strict=True):
        name, _, cycles = text.rpartition(":")
        found = _compared(kernel, name, float(cycles), options.least, machine)
        rows += [{**where, "kernel": name, **row} for row in found]
    print(table(rows))
    if options.save:
        there = environment() | {"gpu": options.gpu, "date": options.date}
        (RESULTS / f"{NAME}.json").write_text(lines(there, rows), encoding="utf-8")


def _compared(
    kernel: Sequence[Row], name: str, cycles: float, least: float, machine: Machine
) -> Iterator[dict[str, Any]]:
    assembled = listing(name, machine)
    same_code([opcode(row) for row in kernel], assembled)
    (one,) = shipped_experiments(TARGET, [name])
    program = issued(*program_of_lock(one, machine), machine)
    code = matched(program, assembled.turns())
    multiplying = (n for n, one in code.items() if any(i.opcode in PRODUCTS for i in one.turn))
    role = next(multiplying, max(code, key=lambda name: len(code[name].turn)))
    each = of_code(program, code, machine).each[role]
    predicted = [cycles for _, cycles in each]
    at = {one.address: n for n, one in enumerate(assembled.body)}
    places = [at[one.address] for one in code[role].turn]
    inside = kernel[min(places) : max(places) + 1]  # with what only some turns execute
    scale = cycles / sum(number(row, "# Samples") for row in inside)
    others = sum(number(row, "# Samples") for row in inside) * scale - sum(predicted)
    for place, expected in zip(places, predicted, strict=True):
        row = kernel[place]
        found = number(row, "# Samples") * scale
        if abs(found - expected) >= least:
            others -= found - expected
            text = " ".join(row["Source"].split())
            yield _row(text, round(found), round(expected), found - expected, row, scale)
    blank = dict.fromkeys(("sampled", "predicted"), "")
    yield {"instruction": "all others", **blank, "more": round(others), "mostly": ""}


def _row(
    text: str, sampled: int, predicted: int, more: float, row: Row, scale: float
) -> dict[str, Any]:
    reasons = {n: number(row, n) * scale for n in row if n.startswith("stall_") and "(" not in n}
    most = max(reasons, key=reasons.__getitem__)
    why = most.removeprefix("stall_") if 2 * reasons[most] > sampled else ""
    found = {"instruction": text, "sampled": sampled, "predicted": predicted, "more": round(more)}
    return found | {"mostly": why or ("products" if opcode(row) in PRODUCTS else "")}


if __name__ == "__main__":
    main()

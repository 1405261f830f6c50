"""How long stalls that the assembler wrote take on a GPU, from what Nsight Compute sampled.

    python benchmarks/stretched.py [--gpu GPU] [--date DATE] [--save] SOURCE NAME ...

``SOURCE`` and ``NAME`` are those of `stall_reasons.py`, sampled with ``--warp-sampling-interval
0``. The kernels are compiled again, without a GPU, for what the assembler wrote of each instruction
of their main loop; that has to be the assembler which compiled what was sampled. An instruction
that was issued is one cycle of its warp, so samples are cycles; *written* are the cycles of stalls
behind instructions that compute, *taken* what warps were sampled in them, *stretched* how many
times as long that is, and *dispatch* the share of samples of warps whose next instruction the
scheduler did not take although nothing else kept it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

from assembled import listing, same_code
from report import RESULTS, environment, lines, table
from stall_reasons import Row, kernels_of, loop_of, number, opcode

from schedgen.conform.listing import Listing
from schedgen.conform.listing import Machine as Instruction
from schedgen.machine_file import read_machine

NAME = "stretched"
TARGET = "h200"
COMPUTES = ("FADD", "FFMA", "FMNMX", "FMUL", "F2FP", "MUFU", "FSEL", "FSETP", "UIADD3", "ULOP3")
LONGEST = 9
"""Longer stalls are of what waits for something else."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path)
    parser.add_argument("--gpu", default="", help="where it was sampled")
    parser.add_argument("--date", default=str(date.today()), help="when")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("names", nargs="+")
    options = parser.parse_args()
    machine = read_machine(TARGET)
    where = {"table": NAME, "device": options.gpu, "measured on": options.date}
    sampled = list(kernels_of(options.source))
    if len(sampled) != len(options.names):
        raise SystemExit(f"{options.source} has {len(sampled)} kernels, named: {options.names}")
    rows = [
        {**where, "kernel": name, **_stretched(kernel, listing(name, machine))}
        for name, kernel in zip(options.names, sampled, strict=True)
    ]
    print(table(rows))
    if options.save:
        there = environment() | {"gpu": options.gpu, "date": options.date}
        (RESULTS / f"{NAME}.json").write_text(lines(there, rows), encoding="utf-8")


def _stretched(kernel: Sequence[Row], code: Listing) -> dict[str, Any]:
    same_code([opcode(row) for row in kernel], code)
    loop = loop_of(kernel)
    cycle = sum(number(row, "stall_selected") for row in loop) / len(loop)
    found = list(_stalls(kernel, code.body, {id(row) for row in loop}))
    written = sum(stall for stall, _ in found)
    taken = sum(samples for _, samples in found) / cycle
    samples = sum(number(row, "# Samples") for row in loop)
    return {
        "instructions": len(loop),
        "written": written,
        "taken": round(taken),
        "stretched": f"{taken / written:.2f}",
        "dispatch": f"{sum(number(row, 'stall_dispatch') for row in loop) / samples:.0%}",
    }


def _stalls(
    kernel: Sequence[Row], code: Sequence[Instruction], loop: set[int]
) -> Iterator[tuple[int, float]]:
    """Stalls behind instructions of a loop, less the cycle of issuing, and samples in them."""
    for (one, row), (after, then) in pairwise(zip(code, kernel, strict=True)):
        assert one.control is not None
        inside = id(row) in loop and id(then) in loop
        computes = one.opcode in COMPUTES and after.opcode in COMPUTES
        if inside and computes and 1 < one.control.stall <= LONGEST:
            yield one.control.stall - 1, number(then, "stall_wait")


if __name__ == "__main__":
    main()

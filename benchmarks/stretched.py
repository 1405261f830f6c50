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
from tempfile import TemporaryDirectory
from typing import Any

from report import RESULTS, environment, lines, table
from stall_reasons import Row, kernels_of, loop_of, number, opcode

from schedgen.calibration.shipped import of_lock, shipped_experiments
from schedgen.codegen.report import compile_report
from schedgen.conform.assembly import disassembler
from schedgen.conform.listing import Listing, disassembled
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
    where = {"table": NAME, "device": options.gpu, "measured on": options.date}
    sampled = list(kernels_of(options.source))
    if len(sampled) != len(options.names):
        raise SystemExit(f"{options.source} has {len(sampled)} kernels, named: {options.names}")
    rows = [
        {**where, "kernel": name, **_stretched(kernel, _compiled(name))}
        for name, kernel in zip(options.names, sampled, strict=True)
    ]
    print(table(rows))
    if options.save:
        there = environment() | {"gpu": options.gpu, "date": options.date}
        (RESULTS / f"{NAME}.json").write_text(lines(there, rows), encoding="utf-8")


def _compiled(name: str) -> list[Instruction]:
    """The instructions of a shipped kernel, as the assembler of this machine writes them."""
    machine, tool = read_machine(TARGET), disassembler()
    (one,) = shipped_experiments(TARGET, [name])
    file, text, _ = of_lock(one, machine)
    if tool is None:
        raise SystemExit("there is no nvdisasm; fix: pip install nvidia-cuda-nvdisasm")
    with TemporaryDirectory() as folder:
        path = Path(folder) / file
        path.write_text(text, encoding="utf-8")
        cubin = compile_report(path, Path(folder)).built.cubin
        return Listing(disassembled(tool, cubin, encodings=True)).body


def _stretched(kernel: Sequence[Row], code: Sequence[Instruction]) -> dict[str, Any]:
    if [opcode(row) for row in kernel] != [one.opcode for one in code]:
        raise SystemExit(
            "what was sampled was compiled by another assembler; fix: install the "
            "nvidia-cutlass-dsl-libs package that the GPU's machine has, and no other"
        )
    loop = loop_of(kernel)
    cycle = sum(number(row, "stall_selected") for row in loop) / len(loop)
    found = list(_stalls(kernel, code, {id(row) for row in loop}))
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

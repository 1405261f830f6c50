"""Every shipped kernel beside its program, and mutants of it, without executing anything.

    python benchmarks/conform.py [--save] [--each N] [--seed S] [--jobs J] [BEGINNING ...]

Compiles each generated kernel, derives its program again and compares the PTX with it
(`schedgen.conform`). Then synchronization instructions of the PTX are removed, weakened or changed,
one at a time (`schedgen.benchmarks.mutants.kernels`): each mutant has to be refused. ``--each N``
takes at most N mutants of every operator and kernel, chosen by the seed; 0 is all, which takes some
hours of a processor. ``BEGINNING`` picks kernels by how their names begin. Mutants that are
accepted are listed.
"""

from __future__ import annotations

import argparse
import json
import pickle
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from report import RESULTS, keep, table

from schedgen.benchmarks.mutants.kernels import Mutant, mutants
from schedgen.codegen.report import compile_report
from schedgen.conform.check import conform
from schedgen.driver.deriving import derived
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Kernel as Code
from schedgen.emulator.ptx.tree import Module
from schedgen.kernel import Kernel
from schedgen.kernels.library import named
from schedgen.kernels.regenerate import shipped
from schedgen.program.model import Program

NAME = "conform"
_PART = 12
"""Mutants that a process tries at a time."""
Row = dict[str, Any]


def compare(name: str, each: int, seed: int, folder: Path) -> tuple[Row, list[int]]:
    """One kernel beside its program, with the numbers of the mutants to try.

    What mutants need is left in ``folder``.
    """
    file, here = named(f"{name}.py"), folder / name
    here.mkdir()
    report = compile_report(file, here)
    program, kernel = derived(report.facts, None, str(file))
    (folder / f"{name}.program").write_bytes(pickle.dumps((report.built.ptx, program, kernel)))
    begin = process_time()
    module = parse(report.built.ptx.read_text("utf-8"))
    parsed = process_time()
    found = conform(module, program, kernel)
    compared = process_time()
    (code,) = module.kernels.values()
    row = {
        "kernel": name,
        "arch": program.arch,
        "instructions": len(code.body),
        "compared": sum(role.instructions for role in found.roles),
        "steps": sum(role.steps for role in found.roles),
        "conforms": found.holds,
        "findings": [finding.text for finding in found.findings],
        "seconds": round(compared - begin, 2),
        "of them parsing": round(parsed - begin, 2),
        "mutants": 0,
        "refused": 0,
        "accepted": [],
    }
    return row, chosen(code, each, Random(f"{seed} {name}"))


@cache
def read(name: str, folder: Path) -> tuple[Module, list[Mutant], Program, Kernel]:
    """What `compare` left."""
    ptx, program, kernel = pickle.loads((folder / f"{name}.program").read_bytes())
    module = parse(ptx.read_text("utf-8"))
    (code,) = module.kernels.values()
    return module, list(mutants(code)), program, kernel


def refuse(name: str, numbers: Sequence[int], folder: Path) -> tuple[str, int, list[str]]:
    """Tries mutants of a kernel: its name, how many, and those that are accepted."""
    module, every, program, kernel = read(name, folder)
    accepted = [
        f"{one.operator}, line {one.instruction.line}"
        for one in (every[number] for number in numbers)
        if conform(one.module(module), program, kernel).holds
    ]
    return name, len(numbers), accepted


def chosen(code: Code, each: int, random: Random) -> list[int]:
    """Numbers of at most ``each`` mutants of every operator, of all if it is 0."""
    groups: dict[str, list[int]] = defaultdict(list)
    for number, mutant in enumerate(mutants(code)):
        groups[mutant.operator].append(number)
    if not each:
        return sorted(number for group in groups.values() for number in group)
    return [n for group in groups.values() for n in random.sample(group, min(each, len(group)))]


def summary(rows: list[Row]) -> list[Row]:
    """One row for each spec and architecture."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for one in rows:
        groups[one["kernel"].partition("_sm_")[0], one["arch"]].append(one)
    return [
        {
            "spec": spec,
            "arch": arch,
            "kernels": len(group),
            "conform": sum(one["conforms"] for one in group),
            "instructions compared": sum(one["compared"] for one in group),
            "most seconds": max(one["seconds"] for one in group),
            "mutants": sum(one["mutants"] for one in group),
            "refused": sum(one["refused"] for one in group),
        }
        for (spec, arch), group in groups.items()
    ]


def main() -> None:
    options = _options()
    path = RESULTS / f"{NAME}.json"
    old: list[Row] = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []
    rows = {one["kernel"]: one for one in old if one["seconds"] is not None}
    names = [Path(kernel.name).stem for kernel in shipped()]
    names = [name for name in names if name.startswith(tuple(options.beginnings) or ("",))]
    context = get_context("spawn")  # a compiler's threads do not survive a fork
    with TemporaryDirectory() as scratch, ProcessPoolExecutor(options.jobs, context) as pool:
        folder = Path(scratch)
        compared = [pool.submit(compare, n, options.each, options.seed, folder) for n in names]
        tried: list[Future[tuple[str, int, list[str]]]] = []
        for one in as_completed(compared):
            row, numbers = one.result()
            rows[row["kernel"]] = row
            print(row["kernel"], "conforms" if row["conforms"] else "does not conform",
                  f"{row['seconds']} s", *row["findings"], sep="  ", flush=True)  # fmt: skip
            parts = [numbers[first : first + _PART] for first in range(0, len(numbers), _PART)]
            tried += [pool.submit(refuse, row["kernel"], part, folder) for part in parts]
        for done in as_completed(tried):
            name, count, accepted = done.result()
            rows[name]["mutants"] += count
            rows[name]["refused"] += count - len(accepted)
            rows[name]["accepted"] += accepted
            for text in accepted:
                print(name, "accepted", text, sep="  ", flush=True)
    if options.save:
        keep(NAME, [rows[name] for name in sorted(rows)])
    print(table(summary(list(rows.values()))))
    wrong = [one for one in rows.values() if not one["conforms"] or one["accepted"]]
    raise SystemExit(bool(wrong))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("beginnings", nargs="*", help="of the names of kernels; all without one")
    parser.add_argument("--each", type=int, default=2, help="mutants of an operator; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--save", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()

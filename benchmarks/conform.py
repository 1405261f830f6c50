"""Every shipped kernel beside its program, and mutants of it, without executing anything.

    python benchmarks/conform.py [--save] [--each=N] [--seed=S] [BEGINNING ...]

Compiles each generated kernel, derives its program again and compares the PTX with it
(`schedgen.conform`). Then synchronization instructions of the PTX are removed, weakened or changed,
one at a time (`schedgen.emulator.mutate`): each mutant has to be refused. ``--each=N`` takes at
most N mutants of every operator and kernel, chosen by the seed; 0 is all, which takes some hours.
``BEGINNING`` picks kernels by how their names begin. Rows are saved as they are found, and
mutants that are accepted are listed.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from report import RESULTS, keep, table

from schedgen.codegen.report import compile_report
from schedgen.conform.check import conform
from schedgen.conform.derive import derived
from schedgen.emulator.mutate import Mutant, mutants
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Kernel as Code
from schedgen.kernel import Kernel
from schedgen.kernels.regenerate import FOLDER, shipped
from schedgen.program.model import Program

NAME = "conform"
EACH = 2
Row = dict[str, Any]


def row(name: str, ptx: Path, program: Program, kernel: Kernel, each: int, seed: int) -> Row:
    """One kernel and its mutants."""
    begin = process_time()
    module = parse(ptx.read_text("utf-8"))
    parsed = process_time()
    found = conform(module, program, kernel)
    compared = process_time()
    (code,) = module.kernels.values()
    tried = chosen(code, each, Random(f"{seed} {name}"))
    accepted = [one for one in tried if conform(one.module(module), program, kernel).holds]
    return {
        "kernel": name,
        "arch": program.arch,
        "instructions": len(code.body),
        "compared": sum(role.instructions for role in found.roles),
        "steps": sum(role.steps for role in found.roles),
        "conforms": found.holds,
        "findings": [finding.text for finding in found.findings],
        "seconds": round(compared - begin, 2),
        "of them parsing": round(parsed - begin, 2),
        "mutants": len(tried),
        "refused": len(tried) - len(accepted),
        "accepted": [f"{one.operator}, line {one.instruction.line}" for one in accepted],
    }


def chosen(code: Code, each: int, random: Random) -> list[Mutant]:
    """At most ``each`` mutants of every operator, all if it is 0."""
    groups: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants(code):
        groups[mutant.operator].append(mutant)
    if not each:
        return [mutant for group in groups.values() for mutant in group]
    return [m for group in groups.values() for m in random.sample(group, min(each, len(group)))]


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
    options = dict(word[2:].split("=") for word in sys.argv[1:] if "=" in word)
    beginnings = tuple(word for word in sys.argv[1:] if not word.startswith("--"))
    each, seed = int(options.get("each", EACH)), int(options.get("seed", 0))
    path = RESULTS / f"{NAME}.json"
    old: list[Row] = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []
    rows = {one["kernel"]: one for one in old}
    for kernel in shipped():
        file = FOLDER / kernel.name
        if beginnings and not file.stem.startswith(beginnings):
            continue
        with TemporaryDirectory() as folder:
            report = compile_report(file, Path(folder))
            program, bound = derived(report.facts, None, str(file))
            one = row(file.stem, report.built.ptx, program, bound, each, seed)
        rows[file.stem] = one
        print(*(one[key] for key in ("kernel", "conforms", "seconds", "mutants", "refused")))
        print(*one["findings"], *one["accepted"], sep="\n", end="", flush=True)
        keep(NAME, list(rows.values()))
    print(table(summary(list(rows.values()))))
    wrong = [one for one in rows.values() if not one["conforms"] or one["accepted"]]
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()

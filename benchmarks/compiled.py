"""What every committed kernel takes of a GPU, as the assembler says; no GPU is needed.

    python benchmarks/compiled.py [--save] [NAME ...]

Registers per thread when a kernel starts, and the budgets that its warps then set by setmaxnreg;
bytes of local memory, where spilled registers go; shared memory; columns of tensor memory; and what
is wrong, such as products of Hopper that the assembler serializes. By the assembler that is
installed: what CUDA 13's says is kept beside that of CUDA 12, in `results/compiled_cu13.json`.

With names of kernels, or beginnings of names, only these are compiled. In what is saved, other rows
stay as they are, and those that are new say of which day they are.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from report import ASSEMBLERS, RESULTS, environment, keep, lines, table

from schedgen.codegen.report import compile_report
from schedgen.kernels.library import named
from schedgen.kernels.regenerate import shipped

Row = Mapping[str, Any]


def row(path: Path) -> dict[str, Any]:
    """One kernel."""
    begin = perf_counter()
    with TemporaryDirectory() as folder:
        report = compile_report(path, Path(folder))
    facts = report.facts
    return {
        "kernel": path.stem,
        "lines": len(path.read_text("utf-8").splitlines()),
        "registers": report.registers,
        "budgets": " or ".join(map(str, report.budgets)),
        "roles": " ".join(f"{role.name}:{role.registers}" for role in facts.roles),
        "local bytes": report.local_bytes,
        "shared bytes": facts.shared_bytes,
        "tensor columns": facts.tensor_columns,
        "problems": "; ".join(report.problems),
        "seconds": round(perf_counter() - begin, 1),
    }


def merged(old: Iterable[Row], new: Iterable[Row], names: Iterable[str], day: str) -> list[Row]:
    """``old`` rows with those of ``new``, which are of ``day``, in their places, in the order of
    ``names``; kernels that are not among these are left out.
    """
    rows = {one["kernel"]: one for one in old}
    rows |= {one["kernel"]: {**one, "date": day} for one in new}
    return [rows[name] for name in names if name in rows]


def again(file: str, new: Iterable[Row]) -> None:
    """Replaces rows of ``results/<file>.json``, whose head stays: what it says of others is true.

    Raises SystemExit: those are by another assembler.
    """
    path, today = RESULTS / f"{file}.json", environment()
    kept = json.loads(path.read_text("utf-8"))
    of = ("nvidia-cutlass-dsl", *ASSEMBLERS)
    different = [p for p in of if kept["environment"].get(p) not in (None, today.get(p))]
    if different:
        raise SystemExit(
            f"{path.name} is by another {', '.join(different)}; fix: measure all kernels"
        )
    names = (kernel.name.removesuffix(".py") for kernel in shipped())
    rows = merged(kept["rows"], new, names, today["date"])
    path.write_text(lines(kept["environment"], rows), encoding="utf-8")


def main() -> None:
    """The command line."""
    wanted = tuple(word for word in sys.argv[1:] if word != "--save")
    names = [one.name for one in shipped() if not wanted or one.name.startswith(wanted)]
    if not names:
        raise SystemExit(f"no shipped kernel is called {' or '.join(wanted)}, or begins so")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = list(pool.map(row, [named(name) for name in names]))
    print(table(rows))
    file = "compiled_cu13" if "nvidia-cutlass-dsl-libs-cu13" in environment() else "compiled"
    if not wanted:
        keep(file, rows)
    elif "--save" in sys.argv:
        again(file, rows)


if __name__ == "__main__":
    main()

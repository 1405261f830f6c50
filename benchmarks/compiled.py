"""What every committed kernel takes of a GPU, as the assembler says; no GPU is needed.

    python benchmarks/compiled.py [--save]

Registers per thread when a kernel starts, and the budgets that its warps then set by setmaxnreg;
bytes of local memory, where spilled registers go; shared memory; columns of tensor memory; and what
is wrong, such as products of Hopper that the assembler serializes. By the assembler that is
installed: what CUDA 13's says is kept beside that of CUDA 12, in `results/compiled_cu13.json`.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from report import environment, keep, table

from schedgen.codegen.report import compile_report
from schedgen.kernels.library import named
from schedgen.kernels.regenerate import shipped


def row(path: Path) -> dict[str, object]:
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


def main() -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = list(pool.map(row, [named(kernel.name) for kernel in shipped()]))
    print(table(rows))
    newer = "nvidia-cutlass-dsl-libs-cu13" in environment()
    keep("compiled_cu13" if newer else "compiled", rows)


if __name__ == "__main__":
    main()

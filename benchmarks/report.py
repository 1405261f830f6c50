"""What the benchmarks share: where they ran, tables, and keeping the raw results."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("schedgen", "ortools", "z3-solver", "numpy", "torch", "nvidia-cutlass-dsl")
ASSEMBLERS = ("nvidia-cutlass-dsl-libs-cu12", "nvidia-cutlass-dsl-libs-cu13")
"""Packages that bring the DSL's assembler, of which there is one: machine code differs with it."""


def require_gpu() -> None:
    """Ends the command with what is missing, unless torch has a GPU."""
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("there is no GPU to measure on; fix: a machine with one, and its torch")


def environment() -> dict[str, str]:
    """Date, Python, processor count, GPU and package versions."""
    import os

    found = {
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "cores": str(os.cpu_count()),
    }
    for package in (*PACKAGES, *ASSEMBLERS):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            if package in PACKAGES:
                found[package] = "not installed"
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        found["gpu"] = sys.modules["torch"].cuda.get_device_name()
    return found


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as a Markdown table; the keys of the first row are the columns."""
    columns = list(rows[0])
    cells = [[str(row.get(column, "")) for column in columns] for row in rows]
    widths = [
        max(len(column), *(len(line[n]) for line in cells)) for n, column in enumerate(columns)
    ]
    lines = [columns, ["-" * width for width in widths], *cells]
    return "\n".join(
        "| " + " | ".join(f"{text:{w}}" for text, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


def lines(where: Mapping[str, str], rows: Sequence[Mapping[str, object]]) -> str:
    """JSON with a line for each row, so that files are small and differences are rows."""
    body = ",\n".join(f" {json.dumps(row)}" for row in rows)
    return f'{{"environment": {json.dumps(where)},\n"rows": [\n{body}\n]}}\n'


def kept(name: str, here: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of ``results/<name>.json``, if they are of the day, the GPU and the versions of
    ``here``, which is an `environment`; otherwise none.
    """
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        return []
    found = json.loads(path.read_text("utf-8"))
    return found["rows"] if found["environment"] == {**here} else []


def keep(name: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Writes ``results/<name>.json`` if the command line says ``--save``."""
    if "--save" in sys.argv:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.json").write_text(lines(environment(), rows), encoding="utf-8")

"""The table of what shipped kernels take of a GPU."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results" / "compiled.json"
NEWER = RESULTS.with_name("compiled_cu13.json")
"""By the assembler of CUDA 13."""
COLUMNS = ("registers", "local bytes", "shared bytes", "tensor columns")


def compiled(path: Path = RESULTS) -> str:
    """A row for each spec and architecture: how many kernels, the least and the most of each."""
    lines = [
        (
            *(spec, arch, str(len(rows))),
            *(_range(row[column] for row in rows) for column in COLUMNS),
            str(sum(bool(row["problems"]) for row in rows)),
        )
        for (spec, arch), rows in _groups(path)
    ]
    return _table(("spec", "for", "kernels", *COLUMNS, "with a problem"), lines, path)


def problems(path: Path = NEWER) -> str:
    """How many kernels of each spec and architecture something is wrong with, and their spills; a
    sentence if there is none.
    """
    lines = [
        (spec, arch, str(len(wrong)), _range(row["local bytes"] for row in wrong))
        for (spec, arch), rows in _groups(path)
        if (wrong := [row for row in rows if row["problems"]])
    ]
    if not lines:
        return f"No kernel has a problem.\n\n{_where(path)}"
    return _table(("spec", "for", "with a problem", "local bytes"), lines, path)


def _groups(path: Path) -> list[tuple[tuple[str, str], list[dict[str, Any]]]]:
    """The kernels of a file by spec and architecture."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in json.loads(path.read_text("utf-8"))["rows"]:
        spec, _, rest = row["kernel"].partition("_sm_")
        groups.setdefault((spec, f"sm_{rest.partition('_')[0]}"), []).append(row)
    return sorted(groups.items())


def _table(head: Sequence[str], lines: Sequence[Sequence[str]], path: Path) -> str:
    every = [head, ["---"] * len(head), *lines]
    table = "\n".join("| " + " | ".join(line) + " |" for line in every)
    return f"{table}\n\n{_where(path)}"


def _where(path: Path) -> str:
    """Of which day a file is, and how many of its kernels were compiled again, and when."""
    found = json.loads(path.read_text("utf-8"))
    again = Counter(row["date"] for row in found["rows"] if "date" in row)
    later = "".join(f", {count} of them again on {day}" for day, count in sorted(again.items()))
    where = f"{found['environment']['date']}, {len(found['rows'])} kernels{later}"
    return f"*{where}; `benchmarks/results/{path.name}`*"


def _range(values: Iterable[int]) -> str:
    every = [*values]
    least, most = min(every), max(every)
    return f"{least}" if least == most else f"{least} to {most}"

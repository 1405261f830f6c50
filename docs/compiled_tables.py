"""The table of what shipped kernels take of a GPU."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results" / "compiled.json"
COLUMNS = ("registers", "local bytes", "shared bytes", "tensor columns")


def compiled(path: Path = RESULTS) -> str:
    """A row for each spec and architecture: how many kernels, the least and the most of each."""
    found = json.loads(path.read_text("utf-8"))
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in found["rows"]:
        spec, _, rest = row["kernel"].partition("_sm_")
        groups.setdefault((spec, f"sm_{rest.partition('_')[0]}"), []).append(row)
    lines = [
        ("spec", "for", "kernels", *COLUMNS, "with a problem"),
        ["---"] * (len(COLUMNS) + 4),
        *(
            (
                spec,
                arch,
                str(len(rows)),
                *(_range(row[column] for row in rows) for column in COLUMNS),
                str(sum(bool(row["problems"]) for row in rows)),
            )
            for (spec, arch), rows in sorted(groups.items())
        ),
    ]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    where = f"{found['environment']['date']}, {len(found['rows'])} kernels"
    return f"{table}\n\n*{where}; `benchmarks/results/{path.name}`*"


def _range(values: Iterable[int]) -> str:
    every = [*values]
    least, most = min(every), max(every)
    return f"{least}" if least == most else f"{least} to {most}"

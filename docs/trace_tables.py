"""Tables of docs/kernels.md from what `benchmarks/trace.py` kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

RESULT = Path(__file__).parent.parent / "benchmarks" / "results" / "trace.json"

_Row = Mapping[str, object]


def _rows(table: str) -> tuple[list[_Row], str]:
    """Rows of a table, and where they come from."""
    found = json.loads(RESULT.read_text("utf-8"))
    rows: list[_Row] = [row for row in found["rows"] if row["table"] == table]
    first = next(row for row in found["rows"] if row["table"] == "shares")
    software = ", ".join(str(first["software"]).split(", ")[:2])
    date = first["recorded"] or found["environment"]["date"]
    where = f"{date}, {first['device']}, {software}"
    return rows, f"*{where}; `benchmarks/results/{RESULT.name}`*"


def _table(columns: Sequence[str], rows: Sequence[_Row]) -> str:
    lines = [columns, ["---"] * len(columns)]
    lines += [[str(row[column]) for column in columns] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def shares() -> str:
    """Iterations and what is between loops, of all recorded blocks."""
    rows, source = _rows("shares")
    columns = ("kernel", "block", "role", "time", "planned", "measured")
    columns += ("operations", "waits", "clocks", "rest", "longest wait")
    return f"{_table(columns, rows)}\n\n{source}"


def events(kernel: str, role: str) -> str:
    """Operations and waits of a role, of the first block that was recorded."""
    rows, source = _rows("events")
    mine = [row for row in rows if (row["kernel"], row["role"]) == (kernel, role)]
    first = [row for row in mine if row["block"] == mine[0]["block"]]
    columns = ("event", "planned", "measured", "difference", "low", "high", "count", "mostly")
    return f"{_table(columns, first)}\n\n{source}"


def parts() -> dict[str, Callable[[], str]]:
    """For `docs/fill.py`."""
    return {
        "trace-shares": shares,
        "trace-gemm": lambda: events("gemm", "epilogue0"),
        "trace-attention": lambda: events("attention_fwd", "softmax0"),
    }

"""The table of what shipped kernels take of a GPU."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def test_a_row_for_each_spec_and_architecture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(DOCS)
    tables: Any = importlib.import_module("compiled_tables")

    def row(kernel: str, registers: int, problems: str = "") -> dict[str, object]:
        of = {"registers": registers, "local bytes": 0, "shared bytes": 9, "tensor columns": 0}
        return {"kernel": kernel, **of, "problems": problems}

    rows = [
        row("gemm_sm_90a_bf16", 128),
        row("gemm_sm_90a_fp16", 168, "serialized"),
        row("gemm_sm_100a_bf16", 64),
    ]
    path = tmp_path / "compiled.json"
    path.write_text(json.dumps({"environment": {"date": "today"}, "rows": rows}), "utf-8")
    lines = tables.compiled(path).splitlines()
    assert lines[2:4] == [
        "| gemm | sm_100a | 1 | 64 | 0 | 9 | 0 | 0 |",
        "| gemm | sm_90a | 2 | 128 to 168 | 0 | 9 | 0 | 1 |",
    ]
    assert tables.problems(path).splitlines()[2] == "| gemm | sm_90a | 1 | 0 |"
    assert lines[-1] == "*today, 3 kernels; `benchmarks/results/compiled.json`*"
    again = {**row("gemm_sm_90a_fp16", 168), "date": "tomorrow"}
    path.write_text(json.dumps({"environment": {"date": "today"}, "rows": [again]}), "utf-8")
    where = "*today, 1 kernels, 1 of them again on tomorrow; `benchmarks/results/compiled.json`*"
    assert tables.problems(path).splitlines() == ["No kernel has a problem.", "", where]

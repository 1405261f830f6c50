"""What benchmarks share."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_rows_are_kept_of_one_day_and_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = runpy.run_path(str(BENCHMARKS / "report.py"))
    kept, lines = report["kept"], report["lines"]
    monkeypatch.setitem(kept.__globals__, "RESULTS", tmp_path)
    here, rows = {"date": "2026-01-02", "gpu": "one"}, [{"case": 1}, {"case": 2}]
    (tmp_path / "some.json").write_text(lines(here, rows), encoding="utf-8")
    assert kept("some", here) == rows
    assert kept("some", {**here, "gpu": "other"}) == []
    assert kept("none", here) == []

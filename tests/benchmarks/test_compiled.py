"""Results of single kernels among those of all."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return runpy.run_path(str(BENCHMARKS / "compiled.py"))


def test_new_rows_say_their_day_and_others_stay(command: dict[str, Any]) -> None:
    old = [{"kernel": "a", "registers": 1}, {"kernel": "b", "registers": 2}, {"kernel": "gone"}]
    new = [{"kernel": "b", "registers": 3}, {"kernel": "between", "registers": 4}]
    assert command["merged"](old, new, ["a", "between", "b", "not measured"], "today") == [
        {"kernel": "a", "registers": 1},
        {"kernel": "between", "registers": 4, "date": "today"},
        {"kernel": "b", "registers": 3, "date": "today"},
    ]


def test_results_of_two_assemblers_are_not_mixed(
    command: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by = {"nvidia-cutlass-dsl": "0.1", "nvidia-cutlass-dsl-libs-cu13": "0.1"}
    path = tmp_path / "compiled_cu13.json"
    path.write_text(json.dumps({"environment": by, "rows": []}), "utf-8")
    again = command["again"]
    monkeypatch.setitem(again.__globals__, "RESULTS", tmp_path)
    with pytest.raises(SystemExit, match="by another nvidia-cutlass-dsl"):
        again("compiled_cu13", [])
    now = {**by, "date": "today"}
    monkeypatch.setitem(again.__globals__, "environment", lambda: now)
    again("compiled_cu13", [{"kernel": "gemm_sm_90a_bf16", "registers": 1}])
    kept = json.loads(path.read_text("utf-8"))
    assert kept["environment"] == by
    assert kept["rows"] == [{"kernel": "gemm_sm_90a_bf16", "registers": 1, "date": "today"}]

"""Tables of products, from results that were made by hand."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WHERE = {"date": "a day", "gpu": "a GPU", "torch": "2", "quack-kernels": "3"}


def row(part: str, candidate: str, ms: float, **more: Any) -> dict[str, Any]:
    times = {"ms": ms, "eager ms": 2 * ms, "graph ms": ms / 2}
    return {"part": part, "m": 1, "n": 2, "k": 3, "candidate": candidate} | times | more


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.syspath_prepend(ROOT / "docs")
    found = importlib.import_module("product_tables")
    monkeypatch.setattr(found, "RESULTS", tmp_path)
    yield found
    sys.modules.pop("product_tables")


def keep(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    text = json.dumps({"environment": WHERE, "rows": rows})
    (folder / f"{name}.json").write_text(text, "utf-8")


def test_without_results_there_is_nothing_to_fill_in(tables: Any) -> None:
    assert tables.parts() == {}


def test_products_of_8_bits(tables: Any, tmp_path: Path) -> None:
    numbers: dict[str, Any] = {"TFLOP/s": 5.0, "error": "1.00e-03"}
    shares = {"of best peer": 2.0, "of best peer in a graph": 0.5, "of best peer eagerly": 0.8}
    rows = [
        row("rows", "schedgen", 0.01, **numbers, **shares),
        row("rows", "torch", 0.02, **numbers),
        row("rows", "schedgen bf16", 0.03, **numbers | {"TFLOP/s": 3.0}),
        row("blocks", "schedgen", 0.01, **numbers),
        {"part": "blocks", "m": 1, "n": 2, "k": 3, "candidate": "DeepGEMM", "note": "not here"},
    ]
    keep(tmp_path, "low_precision", rows)
    assert set(tables.parts()) == {
        *(f"low-precision-{part}" for part in ("rows", "whole", "blocks", "means"))
    }
    head, _, line, _, source = tables.parts()["low-precision-rows"]().splitlines()
    assert head.count("of torch") == 3
    assert line == (
        "| 1 | 2 | 3 | 5.0 | 2.00 | 10.0 | 2.00 | 20.0 | 2.00 | 5.0 | 3.0 | 1.00e-03 | 1.00e-03 |"
    )
    assert source == "*a day, a GPU, torch 2, quack 3; `benchmarks/results/low_precision.json`*"
    alone = tables.low_precision("blocks").splitlines()
    assert "DeepGEMM" not in alone[0]
    assert alone[2] == "| 1 | 2 | 3 | 5.0 | 10.0 | 20.0 | 5.0 |  | 1.00e-03 |"
    means = tables.means("low_precision").splitlines()
    assert means[2] == "| rows | 1 | 0.50 | 0.50 | 1 | 2.00 | 2.00 | 0 | 0.80 | 0.80 | 1 |"
    assert means[3] == "| blocks | 1 |  |  | 0 |  |  | 0 |  |  | 0 |"


def test_products_of_experts(tables: Any, tmp_path: Path) -> None:
    more: dict[str, Any] = {"groups": 8, "rows": 64, "rows of experts": "skewed"}
    more |= {"TFLOP/s": 5.0, "error": "1.00e-03"}
    rows = [row("experts", name, ms, **more) for name, ms in (("schedgen", 0.01), ("quack", 0.005))]
    rows.append(row("gradients", "schedgen", 0.02, **more))  # of the same sizes
    keep(tmp_path, "experts", rows)
    assert set(tables.parts()) == {"experts", "experts-gradients", "experts-means"}
    assert (
        tables.experts("gradients").splitlines()[2].startswith("| 8 | 64 | skewed | 2 | 3 | 10.0 |")
    )
    line = tables.experts("experts").splitlines()[2]
    assert line.startswith("| 8 | 64 | skewed | 2 | 3 | 5.0 | 0.50 | 10.0 | 0.50 |")

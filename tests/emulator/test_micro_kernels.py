"""Micro-kernels give the bits that an H200 gave: digests of `benchmarks/emulate_hardware.py`."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RESULTS = json.loads((BENCHMARKS / "results/emulate_hardware.json").read_text("utf-8"))["rows"]
ROWS = [row for row in RESULTS if "digest" in row and row["of"] != "generated kernel"]


@pytest.fixture(scope="module")
def hardware() -> Any:
    """The benchmark as a module; its imports are beside it."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield import_module("emulate_hardware")
    finally:
        sys.path.remove(str(BENCHMARKS))


def check(hardware: Any, row: dict[str, Any]) -> None:
    found, races = hardware.in_emulator(row["kernel"])
    assert not races
    assert hardware.digest(found) == row["digest"]


@pytest.mark.parametrize("row", ROWS[::8], ids=lambda row: row["kernel"])
def test_same_bits_as_an_h200(hardware: Any, row: dict[str, Any]) -> None:
    check(hardware, row)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["kernel"])
def test_all_same_bits_as_an_h200(hardware: Any, row: dict[str, Any]) -> None:
    check(hardware, row)


def test_what_was_compared() -> None:
    """At least twenty kernels, and none that differs."""
    assert len(ROWS) >= 20
    assert all(row["equal"] for row in RESULTS)

"""Modules of the fuzzer, which are benchmarks: they are imported from their folder."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SPECS = Path(__file__).parent / "specs"


def fuzzer(name: str) -> Any:
    """A module of the folder ``benchmarks``."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))

"""Passes of shared memory are those that a profiler counts on a GPU."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedgen.emulator.race.banks import LANES, passes

PROFILED = Path(__file__).parents[3] / "benchmarks" / "results" / "banks_profiled.json"
_MATRIX = 1
"""In place of bytes of a lane: matrices, of which each lane has a row of 16 bytes."""


def profiled() -> Iterator[dict[str, Any]]:
    yield from json.loads(PROFILED.read_text("utf-8"))["rows"]


def offsets(pitch: int, swap: int, flip: int, mask: int) -> tuple[int, ...]:
    """As `benchmarks/micro/banks.cu` has them."""
    return tuple(((lane & mask) * pitch) ^ (flip if lane & swap else 0) for lane in range(LANES))


def counted(one: dict[str, Any]) -> int:
    matrix = one["bytes"] == _MATRIX
    lanes = offsets(one["pitch"], one["swap"], one["flip"], one["mask"])
    size = 16 if matrix else one["bytes"]
    return passes(lanes, size, load=not one["store"] and not matrix).taken


def test_all_patterns_that_were_profiled() -> None:
    every = list(profiled())
    assert len(every) == 264
    assert [one for one in every if counted(one) != one["passes"]] == []


@pytest.mark.parametrize(
    ("mask", "load", "wanted"),
    [
        (0b00011, True, 4),  # neighbours differ: quarters are served by themselves
        (0b10101, True, 2),  # all want what their second neighbour wants: halves are
        (0b10101, False, 4),
    ],
)
def test_neighbours_that_agree(mask: int, load: bool, wanted: int) -> None:
    assert passes(offsets(16, 0, 0, mask), 16, load).taken == wanted


def test_lanes_that_do_not_access_agree_with_all() -> None:
    some = tuple(-1 if lane % 2 else 0 for lane in range(LANES))
    assert passes(some, 16, load=True).taken == 2

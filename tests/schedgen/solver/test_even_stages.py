"""Operands that the same products wait for have as many slots as each other, if that can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedgen.driver.found import Solution
from schedgen.driver.solution import solve
from schedgen.machine_file import read_machine
from schedgen.schedule import Schedule
from schedgen.spec.reader import read_spec
from schedgen.synchronize.synthesize import synthesize

UNEVEN = """
schedgen: 1
kernel: uneven
targets: [h200]
arguments:
  a: {{shape: [m, k], dtype: bf16}}
  b: {{shape: [n, k], dtype: bf16}}
  d: {{shape: [m, n], dtype: bf16}}
buffers:
  sA: {{space: smem, shape: [64, 64], dtype: bf16, depth: {left}}}
  sB: {{space: smem, shape: [128, 64], dtype: bf16, depth: {right}}}
  acc: {{space: registers, shape: [64, 128], lives: tile, initial: 0}}
  sD: {{space: smem, shape: [64, 128], dtype: bf16, lives: tile}}
loops: {{trips: ceil(k / 64)}}
parameters:
  k: {{default: 1024}}
operations:
  body:
    - {{id: LA, kind: load, from: a, to: sA}}
    - {{id: LB, kind: load, from: b, to: sB}}
    - {{id: MMA, kind: mma, a: sA, b: sB, transpose_b: true, d: acc, accumulate: true}}
  after:
    - {{id: EPI, kind: map, to: {{sD: acc}}}}
    - {{id: STD, kind: store, from: sD, to: d}}
"""


def solved(spec: str, **settings: str) -> Solution:
    return solve(read_spec(spec), read_machine("h200"), settings=settings)


def depths(schedule: Schedule) -> tuple[int, int]:
    found = {buffer.name.partition("[")[0]: buffer.depth for buffer in schedule.buffers}
    return found["sA"], found["sB"]


def uneven(schedule: Schedule) -> int:
    return next(o.value for o in schedule.objectives if o.name == "uneven stages")


@pytest.mark.medium
@pytest.mark.parametrize(("spec", "layout"), [("gemm", "nk"), ("gemm_symmetric", "kn")])
@pytest.mark.parametrize("tile_n", ["64", "128", "192", "256"])
def test_products(spec: str, layout: str, tile_n: str) -> None:
    """One barrier for both: as many arrivals as operands, and the bytes of both."""
    found = solved(spec, tile_n=tile_n, b_layout=layout)
    left, right = depths(found.schedule)
    assert left == right > 1
    assert uneven(found.schedule) == 0
    problem = found.problem
    program = synthesize(problem.kernel, found.schedule, problem.machine)
    barrier = program.barrier["sA full sB full"]
    assert (barrier.slots, barrier.arrivals) == (left, 2)
    assert barrier.bytes == (128 + int(tile_n)) * 64 * 2


@pytest.mark.parametrize(
    ("left", "right", "wanted"), [("4", "5", 1), ("4", "4", 0), ("auto", "4", 0), ("auto", "3", 1)]
)
def test_given_numbers(left: str, right: str, wanted: int, tmp_path: Path) -> None:
    """What a spec says is not changed; what it leaves open follows, unless that costs cycles: with
    three slots of both the II is 330 instead of 314.
    """
    path = tmp_path / "uneven.yaml"
    path.write_text(UNEVEN.format(left=left, right=right), encoding="utf-8")
    schedule = solved(str(path)).schedule
    assert uneven(schedule) == wanted
    assert depths(schedule) == (4 if left == "auto" else int(left), int(right))

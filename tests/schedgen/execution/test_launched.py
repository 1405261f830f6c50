"""Whole launches: each constant counts where it says, and a model may lack all of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from schedgen.driver.binding import kernels_of
from schedgen.driver.solution import solve
from schedgen.execution.contended import cycles_of_tiles, cycles_per_iteration
from schedgen.execution.launched import (
    BUSY,
    FAR,
    LOADED,
    SHARED,
    Tiles,
    Work,
    alone,
    launched,
)
from schedgen.kernel import Kernel
from schedgen.machine import Constant, Machine
from schedgen.machine_file import read_machine
from schedgen.program.model import Program
from schedgen.spec.reader import read_spec
from schedgen.synchronize.synthesize import synthesize

TILES = Tiles(1000.0, 300.0, 100.0)
LOADS = (128 + 256) * 64 * 2
"""Bytes of an iteration of gemm."""


def model(**numbers: float) -> Machine:
    """A model with these constants of launches and no others."""
    machine = read_machine("h200")
    kept = [c for c in machine.constants if c.name not in (*SHARED, FAR, BUSY)]
    for name, number in numbers.items():
        kept.append(Constant(name, Fraction(number), Fraction(number), "", "", "estimate"))
    return replace(machine, constants=tuple(kept))


def kernel(**settings: str) -> Kernel:
    return kernels_of(read_spec("gemm"), read_machine("h200"), settings)[0]


@pytest.fixture(scope="module")
def program() -> Program:
    machine = read_machine("h200")
    found = solve(
        read_spec("gemm"), machine, settings={"tile_m": "64", "tile_n": "128"}, advise=False
    )
    return synthesize(found.problem.kernel, found.schedule, machine)


def test_a_model_that_lacks_all_of_it() -> None:
    """Turns of the SM that has most; what an SM loads has a bound nevertheless."""
    work = Work(tiles=10, trips=8, sms=4)
    assert (work.turns, work.active) == (3, 4)
    assert launched(TILES, kernel(), model(), work) == 3 * 8 * 1024 + 300 + 2 * 100
    assert LOADS / LOADED == 1024
    quick = Tiles(100.0, 0.0, 0.0)
    assert launched(quick, kernel(), model(), Work(2, 8, 4)) == 8 * 1024 * 2 / 4


@pytest.mark.parametrize(
    ("constant", "more"),
    [("launch", 7), ("first_tile", 7), ("next_tile", 2 * 7), ("tail", 7), ("load_far", 0)],
)
def test_each_constant_counts_where_it_says(constant: str, more: float) -> None:
    work = Work(tiles=10, trips=8, sms=4)
    before = launched(TILES, kernel(), model(), work)
    assert launched(TILES, kernel(), model(**{constant: 7}), work) == before + more


def test_some_of_the_sms_have_a_part_of_the_tail() -> None:
    work = Work(tiles=2, trips=8, sms=4)
    assert launched(TILES, kernel(), model(tail=600, l2_rate=1e6), work) == 8 * 1000 + 300 + 200


def test_one_sm_has_no_tail_and_its_first_tile_only() -> None:
    work = Work(tiles=1, trips=8, sms=4)
    numbers = {"tail": 1e6, "next_tile": 1e6, "l2_rate": 1e6}
    assert launched(TILES, kernel(), model(**numbers), work) == 8 * 1000 + 300


@pytest.mark.medium
def test_what_all_sms_share() -> None:
    wide = model(l2_rate=1e6, memory_rate=100, l2_bytes=1000)
    alone = 8 * 1000 + 300
    assert launched(TILES, kernel(), wide, Work(4, 8, 4, bytes=1000)) == alone
    assert launched(TILES, kernel(), wide, Work(4, 8, 4, bytes=1000, cold=True)) == alone
    assert launched(TILES, kernel(), wide, Work(4, 8, 4, bytes=2e6)) == 2e6 / 100
    assert launched(TILES, kernel(), wide, Work(4, 8, 4, bytes=2e6, cold=True)) == 2e6 / 100
    narrow = model(l2_rate=LOADS)  # an iteration of one SM in a cycle
    assert launched(Tiles(1, 0, 0), kernel(), narrow, Work(4, 8, 4)) == 8 * 4


def test_teams_take_tiles_in_turn() -> None:
    """What is around the iterations of a tile goes on under those of the next one."""
    turns, machine = kernel(tile_n="192", teams="2"), model(l2_rate=1e6)
    assert launched(TILES, turns, machine, Work(3, 8, 1)) == 8 * 1000 + 300 + 2 * 8 * 1000
    long = Tiles(1000.0, 300.0, 18_000.0)
    assert launched(long, turns, machine, Work(2, 8, 1)) == 8 * 1000 + 300 + (8 + 18) * 1000 / 2


def test_tiles_on_one_sm(program: Program) -> None:
    machine = read_machine("h200")
    found = alone(program, machine, "in turn")
    assert found.iteration == pytest.approx(cycles_per_iteration(program, machine, "in turn"))
    one = cycles_of_tiles(program, machine, "in turn", [40])
    assert 40 * found.iteration + found.first == pytest.approx(one, rel=0.01)
    assert 0 < found.next < found.first


def test_loads_from_far_take_longer(program: Program) -> None:
    """Slots hide what they can; what a loop waits for first is not hidden."""
    machine = model(load_far=500, load_busy=5000)
    near, far, busy = (
        alone(program, machine, "in turn", loads=loads) for loads in ("near", "far", "busy")
    )
    assert far.first == pytest.approx(near.first + 500, abs=60)
    assert near.iteration <= far.iteration < busy.iteration

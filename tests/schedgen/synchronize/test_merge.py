"""Signals of one store become rings: one for each fill of its slots, and one for each band."""

from __future__ import annotations

from functools import cache

import pytest

from schedgen.driver.solution import solve
from schedgen.machine_file import read_machine
from schedgen.program.model import Barrier, Program
from schedgen.spec.reader import read_spec
from schedgen.synchronize.synthesize import synthesize

WIDE: dict[str, tuple[tuple[str, str], ...]] = {"h200": (("tile_n", "192"),), "b200": ()}
"""Settings with more slices than slots that do not go round in step, so that nothing is shared."""
KINDS = ("full", "empty")
SLICES = 3
"""Of Hopper's."""


@cache
def program(spec: str, target: str, *settings: tuple[str, str]) -> Program:
    solution = solve(read_spec(spec), read_machine(target), settings=dict(settings))
    return synthesize(solution.problem.kernel, solution.schedule, solution.problem.machine)


def rings(found: Program, allocation: str) -> dict[str, Barrier]:
    return {
        barrier.name: barrier for barrier in found.barriers if barrier.name.startswith(allocation)
    }


def fillers(barrier: Barrier) -> set[str]:
    """Operations whose ends the barrier tells, without their indices."""
    return {line.rpartition(" after ")[2].partition("[")[0] for line in barrier.protects}


def depth(found: Program, allocation: str) -> int:
    return next(s.slots for s in found.allocations if s.name == allocation)


@pytest.mark.medium
@pytest.mark.parametrize("target", ["h200", "b200"])
@pytest.mark.parametrize(("spec", "second"), [("gemm", "EPI"), ("gemm_symmetric", "PUT")])
def test_a_slot_that_is_filled_twice(spec: str, second: str, target: str) -> None:
    """C is loaded, D is written over it: a ring for each, and one that says that D is stored."""
    made = program(spec, target, *WIDE[target])
    found = rings(made, "c_stages")
    assert [fillers(one) for one in found.values()] == [{"LC"}, {second}, {"STD"}]
    who = ("epilogue_load", "epilogue0") if target == "b200" else ("LC", second)
    wanted = [*(f"c_stages full by {one}" for one in who), "c_stages empty"]
    assert [*found] == wanted  # roles say it where each is a single one
    assert {one.slots for one in found.values()} == {depth(made, "c_stages")}
    bands, columns = (2, 64) if target == "h200" else (1, 32)
    assert [(one.arrivals, one.bytes) for one in found.values()] == [
        (1, 128 * columns * 2),
        (128 * bands, 0),
        (1, 0),
    ]


def test_bands_that_different_roles_fill_and_different_steps_store() -> None:
    """Each of two warpgroups has its part of the transposed slices, and barriers of its own."""
    made = program("gemm_symmetric", "h200", *WIDE["h200"])
    found = rings(made, "t_stages")
    bands = [(f"by epilogue{band}", f"for epilogue{band}") for band in range(2)]
    assert {*found} == {
        f"t_stages {kind} {who}" for pair in bands for kind, who in zip(KINDS, pair, strict=True)
    }
    for band, (full, empty) in enumerate(
        (f"t_stages full {full}", f"t_stages empty {empty}") for full, empty in bands
    ):
        assert set(found[full].protects) == {
            f"STT[{n},{band}] uses t_stages after PUTT[{n},{band}]" for n in range(SLICES)
        }
        assert all(line.endswith(f",{band}]") for line in found[empty].protects)
    assert {one.slots for one in found.values()} == {depth(made, "t_stages")}


@pytest.mark.medium
@pytest.mark.parametrize(("target", "barriers", "words"), [("h200", 15, 25), ("b200", 9, 26)])
def test_barriers_of_a_symmetric_product(target: str, barriers: int, words: int) -> None:
    """Slices that fill a slot twice, or that roles share, do not need one barrier for each; on h200
    four slices take turns in three slots, and not all of their barriers can be shared.
    """
    made = program("gemm_symmetric", target)
    assert len(made.barriers) <= barriers
    assert sum(barrier.slots for barrier in made.barriers) <= words


def test_one_consumer_needs_one_ring() -> None:
    """Where one role fills and one stores, nothing is kept apart."""
    made = program("gemm_symmetric", "b200")
    assert [*rings(made, "t_stages")] == ["t_stages full", "t_stages empty"]

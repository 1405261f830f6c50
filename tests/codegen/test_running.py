"""Running numbers in generated files: divided by slots, or carried from turn to turn."""

from __future__ import annotations

import pytest

from schedgen.codegen.library import COMMON
from schedgen.codegen.running import STEADY, carried_in, number, phase_of, slot_of
from schedgen.program.model import Number
from tests.codegen.dsl import library, run, value


@pytest.mark.parametrize("offset", [-5, -1, 0, 3])
@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("scale", [1, 2])
def test_number(offset: int, slots: int, scale: int) -> None:
    """Never negative, in the same slot, in a phase of the same parity."""
    text = number(Number(scale, offset), slots, "first + turn")
    for first in range(6):
        found = value(text, {"first": first, "turn": 1})
        wanted = scale * (first + 1) + offset
        assert found >= 0
        assert (found - wanted) % (2 * slots) == 0


def test_number_of_a_tile() -> None:
    assert number(Number(1, 2, per_tile=True), 3, "first") == "t + 2"
    assert slot_of(Number(2, 1, per_tile=True), 3, STEADY) == "slot(2 * t + 1, 3)"


@pytest.mark.parametrize("offset", [-4, -1, 0, 1, 5])
@pytest.mark.parametrize("slots", [1, 2, 3, 5])
@pytest.mark.parametrize("scale", [1, 2, 3])
@pytest.mark.parametrize("shift", [0, 1, 2])
def test_loop(offset: int, slots: int, scale: int, shift: int) -> None:
    """In each turn the slot and the parity of the number, whatever came before the loop."""
    ring, iteration = Number(scale, offset), STEADY + (f" - {shift}" if shift else "")
    both = [slot_of(ring, slots, iteration), phase_of(ring, slots, iteration)]
    rings = carried_in(both)
    assert len(rings) == (1 < slots >= scale)
    for first in range(4):
        scope = library(COMMON) | {"first": first}
        for carried in rings:
            scope = run(carried.begin(shift), scope)
        for turn in range(shift, shift + 2 * slots + 3):
            wanted = scale * (first + turn - shift) + offset
            found = [value(text, scope | {"turn": turn}) for text in both]
            assert found == [wanted % slots, wanted // slots % 2]
            for carried in rings:
                scope = run(carried.advance, scope)


def test_one_pair_for_a_ring() -> None:
    """A turn of the ring later the slot is the same, and the phase the other one."""
    assert slot_of(Number(1, 3), 3, STEADY) == "slot_3"
    assert phase_of(Number(1, 3), 3, STEADY) == "1 - phase_3"
    assert phase_of(Number(2, -5), 3, STEADY) == "phase_3_1_by_2"
    assert not carried_in(["cute.arch.mbarrier_arrive(bar_phase_0_full + x_slot_3)"])
    [ring] = carried_in(["wait(bar + slot_3_1_by_2, 1 - phase_3_1_by_2)  # not slot_7"])
    assert ring.begin(0) == (
        "slot_3_1_by_2, phase_3_1_by_2 = slot(2 * first + 1, 3), phase(2 * first + 1, 3)"
    )
    assert ring.begin(2).startswith("slot_3_1_by_2, phase_3_1_by_2 = slot(2 * first + 5, 3)")
    assert ring.advance == (
        "slot_3_1_by_2, phase_3_1_by_2 = advance(slot_3_1_by_2, phase_3_1_by_2, 3, 2)"
    )

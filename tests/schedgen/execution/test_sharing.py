"""Shares of units by hand: two that want the same unit, one that wants another, engines first."""

from __future__ import annotations

from math import inf

import pytest

from schedgen.execution.sharing import Sharing


def ends(sharing: Sharing) -> dict[int, float]:
    """When each job is done, if nothing else comes."""
    found: dict[int, float] = {}
    while (end := sharing.next())[0] < inf:
        time, number = end
        sharing.advance(time)
        sharing.remove(number)
        found[number] = time
    return found


def test_alone_a_job_takes_the_most_of_its_units() -> None:
    sharing = Sharing()
    sharing.add(1, {"ALU": 128, "ISSUE": 64}, ahead=False)
    assert ends(sharing) == {1: 128}


def test_equals_share_a_unit() -> None:
    sharing = Sharing()
    sharing.add(1, {"MUFU": 100}, ahead=False)
    sharing.add(2, {"MUFU": 100}, ahead=False)
    assert ends(sharing) == pytest.approx({1: 200, 2: 200})


def test_who_comes_later_takes_a_half_from_then_on() -> None:
    sharing = Sharing()
    sharing.add(1, {"MUFU": 100}, ahead=False)
    sharing.advance(50)
    sharing.add(2, {"MUFU": 100}, ahead=False)
    assert ends(sharing) == pytest.approx({1: 150, 2: 200})


def test_other_units_are_not_waited_for() -> None:
    sharing = Sharing()
    for number, unit in enumerate(("MUFU", "MUFU", "FMA")):
        sharing.add(number, {unit: 100, "ISSUE": 10}, ahead=False)
    assert ends(sharing) == pytest.approx({0: 200, 1: 200, 2: 100})


def test_what_is_left_of_a_unit_goes_to_who_can_use_it() -> None:
    """Three want issue slots; one of them is held back by another unit and leaves its rest."""
    sharing = Sharing()
    sharing.add(1, {"MUFU": 100, "ISSUE": 10}, ahead=False)
    sharing.add(2, {"ISSUE": 45}, ahead=False)
    sharing.add(3, {"ISSUE": 45}, ahead=False)
    found = ends(sharing)
    assert found[1] == pytest.approx(100)
    assert found[2] == found[3] == pytest.approx(100)


def test_engines_come_first() -> None:
    """A product takes a half of the FMA units while it runs, and is not slowed down by others."""
    sharing = Sharing()
    sharing.add(1, {"FMA": 100}, ahead=False)
    sharing.add(2, {"TENSOR": 200, "FMA": 100}, ahead=True)
    assert ends(sharing) == pytest.approx({1: 200, 2: 200})


def test_in_turn() -> None:
    sharing = Sharing(["TENSOR"])
    sharing.add(1, {"TENSOR": 100}, ahead=True)
    sharing.add(2, {"TENSOR": 100}, ahead=True)
    assert ends(sharing) == pytest.approx({1: 100, 2: 200})


def test_nothing_to_do() -> None:
    assert Sharing().next() == (inf, -1)

"""Unordered writes that leave the same bytes: S30."""

from __future__ import annotations

import pytest

from schedgen.emulator.machine.switches import Verdict
from tests.emulator.order.kernel import Kernel

WORD = (512, 4)


@pytest.mark.parametrize("verdict", [Verdict.WARNING, Verdict.ERROR, Verdict.OFF])
def test_s29_writes_of_the_same_bytes(verdict: Verdict) -> None:
    k = Kernel(same_value=verdict)
    k.write(3, WORD)
    k.write(4, WORD, same=True)
    k.write(5, WORD, same=True)
    k.sync(3, 4, 5)
    k.read(5, WORD)
    if verdict is Verdict.OFF:
        assert k.clean()
        return
    races = k.races()
    assert {(race.severity.value, race.switch) for race in races} == {
        (verdict.value, "S30 same_value")
    }
    assert {(race.earlier.warp, race.later.warp) for race in races} == {(3, 4), (4, 5)}


def test_s29_is_not_about_other_accesses() -> None:
    k = Kernel()
    k.write(3, WORD)
    k.read(4, WORD)
    k.write(4, WORD, same=True)
    assert [race.severity.value for race in k.races()] == ["error", "warning"]


def test_s29_both_writes_count_for_what_follows() -> None:
    k = Kernel(same_value=Verdict.OFF)
    k.write(3, WORD)
    k.write(4, WORD, same=True)
    k.sync(4, 5)
    k.write(5, WORD)
    assert [(race.earlier.warp, race.later.warp) for race in k.races()] == [(3, 5)]
    k = Kernel(same_value=Verdict.OFF)
    k.write(3, WORD)
    k.write(4, WORD, same=True)
    k.sync(3, 5)
    k.write(5, WORD)
    assert [(race.earlier.warp, race.later.warp) for race in k.races()] == [(4, 5)]

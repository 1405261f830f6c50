"""Tensor memory: allocated, freed, not yet written (C13, C14, K9)."""

from __future__ import annotations

import pytest

from schedgen.emulator.machine.switches import (
    Verdict,
)
from schedgen.emulator.order.findings import Flaw, Missing, Race, Severity
from tests.emulator.order.kernel import Kernel, tensor
from tests.emulator.order.test_tensor import ACC, start


def freed(*, wait: bool = True, barrier: bool = True) -> Kernel:
    k = Kernel()
    k.checker.allocate(0, tensor((0, 64)), k.at())
    k.sync(0, 4)
    k.st(4, ACC)
    if wait:
        k.wait_st(4)
    if barrier:
        k.sync(0, 4)
    k.checker.deallocate(0, tensor((0, 64)), k.at())
    return k


def test_c14_m3_deallocation_after_all_accesses() -> None:
    assert freed().clean()
    race = freed(wait=False).race()
    assert (race.missing, race.later.action) == (Missing.TENSOR_WAIT, "deallocates")
    assert freed(barrier=False).race().missing is Missing.HAND_OFF


def test_c14_m19_use_after_deallocation() -> None:
    k = freed()
    k.sync(0, 4)
    k.ld(4, ACC)
    defect = k.defect()
    assert defect.flaw is Flaw.FREED
    assert defect.other is not None
    assert defect.other.action == "deallocates"


def released_pair(*, told: tuple[int, ...]) -> Kernel:
    """Warp 4 of each CTA of a pair stores to its tensor memory; warps 0 of both give it back.
    ``told``: the CTAs whose warp 0 knows of the peer's accesses."""
    k = Kernel(cluster=2)
    cells = [tensor((0, 64), cta=cta) for cta in (0, 1)]
    for cta in (0, 1):
        k.checker.allocate(8 * cta, cells[cta], k.at())
    k.checker.join((0, 4, 8, 12), (0, 4, 8, 12), cluster=True)
    for cta in (0, 1):
        k.st(8 * cta + 4, ACC, cta)
        k.wait_st(8 * cta + 4)
        k.sync(8 * cta, 8 * cta + 4)
    for cta in told:
        k.checker.join((8 * (1 - cta),), (8 * cta,), cluster=True)
    for cta in (0, 1):
        k.checker.deallocate(8 * cta, cells[cta], k.at(), cells[1 - cta])
    return k


def test_c14_both_ctas_of_a_pair_synchronize_before_it_is_released() -> None:
    assert released_pair(told=(0, 1)).clean()


@pytest.mark.parametrize("told", [(), (0,), (1,)])
def test_c14_release_of_a_pair_without_the_peer(told: tuple[int, ...]) -> None:
    k = released_pair(told=told)
    races = [f for f in k.checker.findings if isinstance(f, Race)]
    assert {(race.cta, race.missing) for race in races} == {
        (1 - cta, Missing.HAND_OFF) for cta in (0, 1) if cta not in told
    }
    assert all((r.later.action, r.rule) == ("deallocates", "C14") for r in races)


def test_allocated_again() -> None:
    k = freed()
    k.checker.allocate(1, tensor((0, 64)), k.at())
    k.sync(1, 4)
    k.st(4, ACC)
    k.wait_st(4)
    k.ld(4, ACC)
    assert k.clean()


def test_k9_uninitialized() -> None:
    k = Kernel(uninitialized=Verdict.ERROR)
    k.st(4, (0, 32))
    k.wait_st(4)
    k.ld(4, (0, 32))
    assert k.clean()
    k.ld(4, (0, 64))
    defect = k.defect()
    assert (defect.flaw, defect.cells, defect.low, defect.high) == (
        Flaw.UNINITIALIZED, 32 * 32, 32, 31 * 512 + 63,
    )  # fmt: skip
    k = Kernel(uninitialized=Verdict.WARNING)
    k.read(4, (0, 4))
    assert k.defect().severity is Severity.WARNING
    assert not k.checker.errors


def test_k9_tensor_memory_is_uninitialized_again() -> None:
    k = Kernel(uninitialized=Verdict.ERROR)
    k.checker.allocate(0, tensor(ACC), k.at())
    k.st(4, ACC)
    k.wait_st(4)
    k.sync(0, 4)
    k.checker.deallocate(0, tensor(ACC), k.at())
    k.checker.allocate(0, tensor(ACC), k.at())
    k.sync(0, 4)
    k.ld(4, ACC)
    assert k.defect().flaw is Flaw.UNINITIALIZED


def test_lanes_and_columns() -> None:
    """Warps 4 and 5 write the same columns of different lanes."""
    k = start()
    k.st(4, ACC)
    k.st(5, ACC)
    assert k.clean()
    k.st(0, ACC)
    race = k.race()
    assert (race.earlier.warp, race.low, race.high, race.cells) == (4, 0, 31 * 512 + 63, 32 * 64)


@pytest.mark.parametrize("barrier", [True, False])
def test_c13_p20_p21_m19_the_address_is_published_like_any_word(barrier: bool) -> None:
    """tcgen05.alloc writes it with a weak store."""
    k = Kernel()
    k.write(0, (0, 4))
    if barrier:
        k.sync(0, 4)
    k.read(4, (0, 4))
    assert k.clean() is barrier

"""mbarrier objects: X10, S11 (P5, P25, M5), B2, B7 with S15, life."""

from __future__ import annotations

from typing import Any

import pytest

from schedgen.emulator.machine.switches import InitFence, Verdict
from schedgen.emulator.order.findings import Flaw, Severity
from tests.emulator.order.kernel import Kernel

TILE = (1024, 64)
ALL = tuple(range(16))


def initialized(
    user: int,
    use: str,
    *,
    fence: int | None = 0,
    sync: str = "join",
    fence_first: bool = False,
    **switches: Any,
) -> Kernel:
    """Warp 0 of CTA 0 initializes; ``user`` uses after some synchronization."""
    k = Kernel(cluster=2, **switches)
    if fence_first and fence is not None:
        k.checker.barrier_init_fence(fence)
    k.checker.barrier_init(0, (0, 0), k.at())
    if fence is not None and not fence_first:
        k.checker.barrier_init_fence(fence)
    if sync == "join":
        k.checker.join(ALL, ALL, cluster=True)
    elif sync == "relaxed":
        for warp in ALL:
            k.checker.signal(warp, (0, -1), 0, line=k.at(), cluster=True, relaxed=True)
        for warp in ALL:
            k.checker.leave(warp, (0, -1), 0, line=k.at(), cluster=True)
    match use:
        case "arrive":
            k.arrive(user, 0)
        case "wait":
            k.wait(user, 0, -1)
        case "commit":
            k.mma(user, (0, 32))
            k.commit(user, 0)
        case _:
            k.load(user, TILE, 0)
    return k


USES = ("arrive", "wait", "commit", "load")


@pytest.mark.parametrize("use", USES)
def test_m5_p5_init_then_use(use: str) -> None:
    assert initialized(4, use).clean()
    defect = initialized(4, use, sync="").defect()
    assert (defect.flaw, defect.rule) == (Flaw.UNPUBLISHED, "K1")
    assert "bar.sync between warp 0 and warp 4" in defect.needs
    assert initialized(0, use, sync="").clean()


@pytest.mark.parametrize("use", USES)
def test_s11_inside_the_cta_the_fence_is_not_needed(use: str) -> None:
    assert initialized(4, use, fence=None).clean()


@pytest.mark.parametrize("use", ["commit", "load"])
def test_s11_always(use: str) -> None:
    always = InitFence.ALWAYS
    assert initialized(4, use, init_fence=always).clean()
    defect = initialized(4, use, fence=None, init_fence=always).defect()
    assert (defect.rule, defect.switch) == ("X10", "S11 init_fence")
    assert initialized(0, use, sync="", init_fence=always).clean()
    assert not initialized(0, use, fence=None, sync="", init_fence=always).clean()


@pytest.mark.parametrize("sync", ["join", "relaxed"])
@pytest.mark.parametrize("use", ["arrive", "commit", "load"])
def test_x10_m5_p25_another_cta_needs_the_fence_of_who_initialized(use: str, sync: str) -> None:
    assert initialized(12, use, sync=sync).clean()
    defect = initialized(12, use, sync=sync, fence=None).defect()
    assert defect.rule == "X10"
    assert defect.needs.startswith("fence.mbarrier_init.release.cluster in warp 0 after line 1")
    assert not initialized(12, use, sync=sync, fence=1).clean()
    assert not initialized(12, use, sync=sync, fence_first=True).clean()
    assert not initialized(12, use, sync="").clean()


def test_x10_relaxed_in_the_cta() -> None:
    assert initialized(4, "load", sync="relaxed").clean()
    assert not initialized(4, "load", sync="relaxed", fence=None).clean()


def test_b2_life() -> None:
    def run(*, told: bool, again: bool = False) -> Kernel:
        k = Kernel()
        k.barrier(0)
        k.arrive(4, 0)
        k.wait(5, 0)
        if told:
            k.sync(*range(8))
        if again:
            k.checker.barrier_init(0, (0, 0), k.at())
        else:
            k.checker.barrier_invalidate(0, (0, 0), k.at())
        return k

    for again in (False, True):
        assert run(told=True, again=again).clean()
        found = run(told=False, again=again)
        assert {f.flaw for f in found.defects()} == {Flaw.IN_USE}
        assert {f.other.warp for f in found.defects() if f.other} == {4, 5}


def test_b2_copy_under_way() -> None:
    def run(*, wait: bool) -> Kernel:
        k = Kernel()
        k.barrier(0)
        k.load(1, TILE, 0)
        if wait:
            k.wait(0, 0)
        k.checker.barrier_invalidate(0, (0, 0), k.at())
        return k

    assert run(wait=True).clean()
    assert run(wait=False).defect().flaw is Flaw.IN_USE


def test_phases_begin_again_after_init() -> None:
    """Knowledge of the old object's phases is none of the new one's."""
    k = Kernel()
    k.barrier(0)
    for phase in range(3):
        k.load(1, (1024 * (phase + 1), 64), 0, phase)
        k.wait(1, 0, phase)
    k.checker.barrier_invalidate(1, (0, 0), k.at())
    k.checker.barrier_init(1, (0, 0), k.at())
    k.load(1, TILE, 0, 0)
    k.read(1, TILE)
    assert k.race().needs.startswith("a wait for phase 0")


def consumed(*, wait: bool = True, told: bool = True, phase: int = 1, **switches: Any) -> Kernel:
    """Warp 3 arrives for phase 0, warp 4 waits and tells warp 5, which arrives for phase 1."""
    k = Kernel(**switches)
    k.barrier(0, 8)
    k.arrive(3, 0, 0)
    if wait:
        k.wait(4, 0, 0)
    k.arrive(4, 8, 0)
    if told:
        k.wait(5, 8, 0)
    k.arrive(5, 0, phase)
    return k


def test_b7_s15_every_phase_is_observed() -> None:
    assert consumed().clean()
    for found in (consumed(wait=False), consumed(told=False)):
        defect = found.defect()
        assert (defect.flaw, defect.rule) == (Flaw.UNOBSERVED, "B7")
        assert defect.needs.startswith("a wait for phase 0 that is ordered before")
    assert consumed(wait=False, consumption=Verdict.WARNING).defect().severity is Severity.WARNING
    assert consumed(wait=False, consumption=Verdict.OFF).clean()


def test_b7_first_phase_and_phase_before_the_first() -> None:
    assert consumed(wait=False, phase=0).clean()
    k = Kernel()
    k.barrier(0)
    k.wait(1, 0, -1)
    k.arrive(1, 0, 0)
    assert k.clean()


def test_b7_skipping_a_phase() -> None:
    assert consumed(phase=2).defect().needs.startswith("a wait for phase 1")


def test_b7_known_through_a_copy() -> None:
    """Its issuer observed the phase before it began, so who waits for the copy may go on."""

    def run(*, wait: bool) -> Kernel:
        k = Kernel()
        k.barrier(0, 8)
        k.arrive(4, 0, 0)
        if wait:
            k.wait(1, 0, 0)
        k.load(1, TILE, 8)
        k.wait(4, 8, 0)
        k.arrive(4, 0, 1)
        return k

    assert run(wait=True).clean()
    assert run(wait=False).defect().flaw is Flaw.UNOBSERVED


def test_b7_commit() -> None:
    def run(*, wait: bool) -> Kernel:
        k = Kernel()
        k.barrier(0)
        k.mma(2, (0, 32))
        k.commit(2, 0, 0)
        if wait:
            k.wait(2, 0, 0)
        k.commit(2, 0, 1)
        return k

    assert run(wait=True).clean()
    assert run(wait=False).defect().flaw is Flaw.UNOBSERVED

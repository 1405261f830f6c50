"""wgmma: W3, W4, W6, W7 (bug P22, operators M4, M7)."""

from __future__ import annotations

import pytest

from schedgen.emulator.order.findings import Missing
from schedgen.emulator.order.tracker import Queue
from tests.emulator.order.kernel import Kernel

GROUP, OTHER = (0, 1, 2, 3), (4, 5, 6, 7)
TILE = (1024, 256)
FULL, EMPTY = 0, 8


def mainloop(rounds: int = 4, *, pending: int = 0, waiter: int = 0, wait: bool = True) -> Kernel:
    """Warp 4 loads one stage again and again, a warpgroup multiplies; ``waiter`` releases."""
    k = Kernel()
    k.barrier(FULL, EMPTY)
    for i in range(rounds):
        k.wait(4, EMPTY, i - 1)
        k.arrive(4, FULL, i)
        k.load(4, TILE, FULL, i)
        for warp in GROUP:
            k.wait(warp, FULL, i)
        k.wgmma(GROUP, TILE)
        if wait:
            k.checker.group_wait(waiter, Queue.WGMMA, pending)
        k.arrive(waiter, EMPTY, i)
    return k


@pytest.mark.parametrize("waiter", GROUP)
def test_w7_refill_after_the_wait_of_any_warp_of_the_group(waiter: int) -> None:
    assert mainloop(waiter=waiter).clean()


def test_w7_refill_without_wait() -> None:
    race = mainloop(wait=False).races()[0]
    assert (race.missing, race.kind) == (Missing.GROUP_WAIT, "write after read")
    assert race.needs.startswith("wgmma.commit_group and wgmma.wait_group in warp 0 after line")


def test_w7_one_group_too_many_left_pending() -> None:
    assert mainloop(pending=1).races()[0].missing is Missing.GROUP_WAIT


def test_w7_p22_the_wait_of_one_warpgroup_does_not_cover_the_other() -> None:
    def run(*, both: bool) -> Kernel:
        k = Kernel()
        k.barrier(FULL)
        k.load(4, TILE, FULL)
        for warp in (*GROUP, *OTHER):
            k.wait(warp, FULL)
        k.wgmma(GROUP, TILE)
        k.wgmma(OTHER, TILE)
        k.checker.group_wait(0, Queue.WGMMA, 0)
        if both:
            k.checker.group_wait(4, Queue.WGMMA, 0)
            k.sync(0, 4)
        k.load(0, TILE, FULL, 1)
        return k

    assert run(both=True).clean()
    race = run(both=False).race()
    assert (race.earlier.warp, race.missing) == (4, Missing.GROUP_WAIT)


def test_w6_all_warps_must_know_that_the_operand_is_there() -> None:
    """Only one of the four warps waited for the copy."""

    def run(*, waiters: tuple[int, ...]) -> Kernel:
        k = Kernel()
        k.barrier(FULL)
        k.load(4, TILE, FULL)
        for warp in waiters:
            k.wait(warp, FULL)
        k.wgmma(GROUP, TILE)
        return k

    assert run(waiters=GROUP).clean()
    assert run(waiters=(0,)).race().missing is Missing.PHASE_WAIT
    assert run(waiters=(0, 1, 3)).race().missing is Missing.PHASE_WAIT


def test_w4_one_operation_per_warp() -> None:
    """The machine may also issue a part of the product for each warp."""
    k = Kernel()
    k.barrier(FULL)
    k.load(4, TILE, FULL)
    for warp in GROUP:
        k.wait(warp, FULL)
        k.wgmma((warp,), TILE)
    for warp in GROUP[:3]:
        k.checker.group_wait(warp, Queue.WGMMA, 0)
    k.checker.group_wait(3, Queue.WGMMA, 0)
    k.sync(*GROUP, 4)
    k.load(4, TILE, FULL, 1)
    assert k.clean()


def test_groups_are_counted_in_the_cta() -> None:
    """Six warps per CTA: warps 6 to 9 are the first group of CTA 1."""

    def run(waiter: int) -> Kernel:
        k = Kernel(warps=6)
        k.wgmma((6, 7, 8, 9), TILE)
        k.checker.group_wait(waiter, Queue.WGMMA, 0)
        k.checker.join((6, waiter), (6, waiter), cluster=False)
        k.write(6, TILE)
        return k

    assert run(9).clean()
    assert run(10).race().missing is Missing.GROUP_WAIT

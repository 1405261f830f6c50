"""Generic and async proxy: X6 to X9, S5, S12, S13, S17 (bugs P1 to P6, operators M2, M4, M6)."""

from typing import Any

from schedgen.emulator.machine.switches import CopyProxy, FencePosition, ReadRead, StoreProxy
from schedgen.emulator.order.findings import Missing
from schedgen.emulator.order.tracker import Queue, Space
from tests.emulator.order.kernel import Kernel, memory, shared

TILE = (1024, 256)
FULL, EMPTY = 0, 8


def stores(fence_in: int | None, *, late: bool = False, **switches: Any) -> Kernel:
    """Warp 4 writes a tile, warp 1 stores it by bulk copy."""
    k = Kernel(**switches)
    k.write(4, TILE)
    if fence_in is not None and not late:
        k.fence(fence_in)
    k.sync(1, 4)
    if fence_in is not None and late:
        k.fence(fence_in)
    k.store(1, TILE)
    return k


def test_x6_write_then_bulk_store_with_fence() -> None:
    assert stores(fence_in=4).clean()


def test_x6_m4_write_then_bulk_store_without_fence() -> None:
    race = stores(fence_in=None).race()
    assert race.missing is Missing.PROXY_FENCE
    assert race.needs == (
        "fence.proxy.async in warp 4 after line 1 and before its barrier in line 2"
    )
    assert (race.earlier.warp, race.later.warp, race.rule) == (4, 1, "X6")
    assert (race.low, race.high, race.cells) == (1024, 1279, 256)
    assert race.kind == "read after write"


def test_x6_the_fence_of_another_warp_does_not_help() -> None:
    assert stores(fence_in=1).race().missing is Missing.PROXY_FENCE


def test_x8_a_fence_for_global_memory_does_not_help() -> None:
    k = Kernel()
    k.write(4, TILE)
    k.fence(4, Space.GLOBAL)
    k.sync(1, 4)
    k.store(1, TILE)
    assert k.race().missing is Missing.PROXY_FENCE


def test_x8_a_fence_for_everything_does() -> None:
    k = Kernel()
    k.write(4, TILE)
    k.fence(4, None)
    k.sync(1, 4)
    k.store(1, TILE)
    assert k.clean()


def test_x6_without_hand_off_both_are_needed() -> None:
    k = Kernel()
    k.write(4, TILE)
    k.store(1, TILE)
    race = k.race()
    assert race.missing is Missing.HAND_OFF
    assert race.needs.startswith("fence.proxy.async in warp 4 after line 1, then")


def test_x6_fence_before_the_write_is_too_early() -> None:
    k = Kernel()
    k.fence(4)
    k.write(4, TILE)
    k.sync(1, 4)
    k.store(1, TILE)
    assert k.race().missing is Missing.PROXY_FENCE


def test_x6_second_write_after_the_fence() -> None:
    k = Kernel()
    k.write(4, (0, 64))
    k.fence(4)
    k.write(4, (64, 64))
    k.sync(1, 4)
    k.store(1, (0, 128))
    race = k.race()
    assert (race.low, race.high) == (64, 127)


def test_x9_m6_p4_barrier_then_fence() -> None:
    race = stores(fence_in=4, late=True).race()
    assert race.missing is Missing.PROXY_FENCE
    assert race.switch is None


def test_s5_fence_of_the_issuer_behind_the_barrier() -> None:
    race = stores(fence_in=1, late=True).race()
    assert race.switch == "S5 fence_position"
    assert stores(fence_in=1, late=True, fence_position=FencePosition.ANYWHERE).clean()


def test_s5_anywhere_still_needs_a_fence_on_the_way() -> None:
    anywhere = FencePosition.ANYWHERE
    assert stores(fence_in=4, fence_position=anywhere).clean()
    assert not stores(fence_in=None, fence_position=anywhere).clean()
    assert not stores(fence_in=4, late=True, fence_position=anywhere).clean()


def refill(*, fence: bool, wait: bool = True) -> Kernel:
    """Warp 4 reads a tile that warp 1 loads again."""
    k = Kernel()
    k.barrier(FULL, EMPTY)
    k.arrive(1, FULL)
    k.load(1, TILE, FULL)
    k.wait(4, FULL)
    k.read(4, TILE)
    if fence:
        k.fence(4)
    k.arrive(4, EMPTY)
    if wait:
        k.wait(1, EMPTY)
    k.arrive(1, FULL, 1)
    k.load(1, TILE, FULL, 1)
    return k


def test_x6_x7_read_then_refill() -> None:
    assert refill(fence=True).clean()


def test_p1_p2_m2_read_then_refill_without_fence() -> None:
    race = refill(fence=False).race()
    assert race.missing is Missing.PROXY_FENCE
    assert race.kind == "write after read"
    assert "before its arrive on the mbarrier at 8 of CTA 0" in race.needs


def refill_fenced_by_the_producer(*, early: bool = False, **switches: Any) -> Kernel:
    """The reader arrives without a fence; warp 1 has one behind its wait, or in front of it."""
    k = Kernel(**switches)
    k.barrier(FULL, EMPTY)
    k.arrive(1, FULL)
    k.load(1, TILE, FULL)
    k.wait(4, FULL)
    k.read(4, TILE)
    k.arrive(4, EMPTY)
    if early:
        k.fence(1)
    k.wait(1, EMPTY)
    if not early:
        k.fence(1)
    k.arrive(1, FULL, 1)
    k.load(1, TILE, FULL, 1)
    return k


def test_s5_behind_reads_the_producer_may_fence_between_its_wait_and_its_arrive() -> None:
    """DeepEP PR 642."""
    assert refill_fenced_by_the_producer().clean()
    race = refill_fenced_by_the_producer(fence_position=FencePosition.ACCESSOR_SIDE).race()
    assert (race.rule, race.switch) == ("X6", "S5 fence_position")


def test_s5_a_fence_in_front_of_the_wait_is_too_early() -> None:
    race = refill_fenced_by_the_producer(early=True).race()
    assert race.missing is Missing.PROXY_FENCE
    assert race.needs.endswith(", or in warp 1 between its wait and line 11")


def test_s5_behind_writes_it_may_not() -> None:
    """What is written has to get out of the writer's proxy (pytorch/ao PR 4278)."""
    k = Kernel()
    k.write(4, TILE)
    k.sync(1, 4)
    k.fence(1)
    k.store(1, TILE)
    assert k.race().switch == "S5 fence_position"


def test_refill_without_waiting_for_the_reader() -> None:
    k = refill(fence=True, wait=False)
    assert Missing.HAND_OFF in k.missing()


def test_p3_m4_m7_wgmma_reads_what_four_warps_wrote() -> None:
    def run(*, fence: bool, barrier: bool) -> Kernel:
        k = Kernel()
        for warp in range(4):
            k.write(warp, (warp * 64, 64))
            if fence:
                k.fence(warp)
        if barrier:
            k.sync(0, 1, 2, 3)
        k.wgmma((0, 1, 2, 3), (0, 256))
        return k

    assert run(fence=True, barrier=True).clean()
    assert run(fence=False, barrier=True).missing() == {Missing.PROXY_FENCE}
    assert run(fence=True, barrier=False).missing() == {Missing.HAND_OFF}
    assert not run(fence=False, barrier=False).clean()


def test_x7_no_fence_between_load_and_read_or_overwrite() -> None:
    k = Kernel()
    k.barrier(FULL)
    k.load(1, TILE, FULL)
    k.wait(4, FULL)
    k.read(4, TILE)
    k.write(4, TILE)
    assert k.clean()


def test_x12_write_while_the_store_is_under_way() -> None:
    """The store was issued first, and executes after the write: it has to be waited for."""
    k = Kernel()
    store = k.checker.issue(1, Queue.BULK_STORE, k.at())
    k.write(1, TILE)
    k.stored(store, TILE)
    race = k.race()
    assert race.missing is Missing.GROUP_WAIT
    assert race.needs.endswith("in warp 1 after line 1 and before line 2")


def copied(**switches: Any) -> Kernel:
    """P6: cp.async into shared memory, waited for, then read by a bulk store of another warp."""
    k = Kernel(**switches)
    copy = k.checker.issue(4, Queue.CP_ASYNC, k.at())
    k.checker.access(copy, shared(TILE), write=True)
    k.checker.finish(copy)
    k.checker.group_commit(4, Queue.CP_ASYNC)
    return k


def test_s12_p6_cp_async_needs_a_fence() -> None:
    def run(*, fence: bool, **switches: Any) -> Kernel:
        k = copied(**switches)
        k.checker.group_wait(4, Queue.CP_ASYNC, 0)
        if fence:
            k.fence(4)
        k.sync(1, 4)
        k.store(1, TILE)
        return k

    assert run(fence=True).clean()
    race = run(fence=False).race()
    assert race.missing is Missing.PROXY_FENCE
    assert race.switch == "S12 copy_proxy"
    assert run(fence=False, copy_proxy=CopyProxy.NONE).clean()


def test_s12_a_fence_of_the_reader_depends_on_s5_too() -> None:
    """As Triton has it: the barrier, then the fence in the warp that issues the product."""

    def run(**switches: Any) -> Kernel:
        k = copied(**switches)
        k.checker.group_wait(4, Queue.CP_ASYNC, 0)
        k.sync(1, 4)
        k.fence(1)
        k.store(1, TILE)
        return k

    assert run().race().switch == "S5 fence_position or S12 copy_proxy"
    assert run(fence_position=FencePosition.ANYWHERE).clean()
    assert run(copy_proxy=CopyProxy.NONE).clean()


def test_s12_fence_before_the_wait_is_too_early() -> None:
    k = copied()
    k.fence(4)
    k.checker.group_wait(4, Queue.CP_ASYNC, 0)
    k.sync(1, 4)
    k.store(1, TILE)
    assert k.race().missing is Missing.PROXY_FENCE


def test_m6_cp_async_barrier_then_fence_of_the_issuer() -> None:
    k = copied()
    k.checker.group_wait(4, Queue.CP_ASYNC, 0)
    k.sync(1, 4)
    k.fence(1)
    k.store(1, TILE)
    assert k.race().missing is Missing.PROXY_FENCE


def test_b14_cp_async_tracked_by_an_mbarrier() -> None:
    """Nobody but the waiter can fence what completed on an mbarrier."""

    def run(*, wait: bool, fence: bool) -> Kernel:
        k = Kernel()
        k.barrier(FULL)
        copy = k.checker.issue(4, Queue.CP_ASYNC, k.at())
        k.checker.access(copy, shared(TILE), write=True)
        k.checker.finish(copy)
        k.checker.track(copy, (0, FULL), 0)
        if wait:
            k.wait(1, FULL)
        if fence:
            k.fence(1)
        k.store(1, TILE)
        return k

    assert run(wait=True, fence=True).clean()
    assert run(wait=True, fence=False).race().missing is Missing.PROXY_FENCE
    assert run(wait=False, fence=True).race().missing is Missing.GROUP_WAIT


def test_t11_cp_async_groups() -> None:
    def run(pending: int) -> Kernel:
        k = Kernel()
        for start in (0, 64):
            copy = k.checker.issue(4, Queue.CP_ASYNC, k.at())
            k.checker.access(copy, memory((start, 64)), write=False)
            k.checker.access(copy, shared((start, 64)), write=True)
            k.checker.finish(copy)
            k.checker.group_commit(4, Queue.CP_ASYNC)
        k.checker.group_wait(4, Queue.CP_ASYNC, pending)
        k.read(4, (0, 64))
        return k

    assert run(1).clean()
    assert run(2).race().missing is Missing.GROUP_WAIT


def stored_async(proxy: StoreProxy, *, before: bool, after: bool) -> Kernel:
    """Warp 4 reads a tile, st.async of warp 5 overwrites it, warp 1 stores it by bulk copy."""
    k = Kernel(store_proxy=proxy)
    k.barrier(FULL)
    k.read(4, TILE)
    if before:
        k.fence(4)
    k.sync(4, 5)
    store = k.checker.issue(5, Queue.STORE_ASYNC, k.at())
    k.checker.access(store, shared(TILE), write=True)
    k.checker.track(store, (0, FULL), 0)
    k.checker.finish(store)
    k.wait(1, FULL)
    if after:
        k.fence(1)
    k.store(1, TILE)
    return k


def test_s13_st_async_in_the_generic_proxy() -> None:
    assert stored_async(StoreProxy.GENERIC, before=False, after=True).clean()
    race = stored_async(StoreProxy.GENERIC, before=False, after=False).race()
    assert race.switch == "S13 store_proxy"


def test_s13_st_async_in_the_async_proxy() -> None:
    assert stored_async(StoreProxy.ASYNC, before=True, after=False).clean()
    race = stored_async(StoreProxy.ASYNC, before=False, after=True).race()
    assert race.missing is Missing.PROXY_FENCE


def test_s17_reads_in_two_proxies() -> None:
    def run(*, fence: bool, **switches: Any) -> Kernel:
        k = Kernel(**switches)
        k.read(4, TILE)
        if fence:
            k.fence(4)
        k.sync(1, 4)
        k.store(1, TILE)
        return k

    assert run(fence=False).clean()
    required = ReadRead.FENCE_REQUIRED
    assert run(fence=True, read_read=required).clean()
    assert run(fence=False, read_read=required).race().kind == "read after read"

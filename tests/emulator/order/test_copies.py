"""Bulk copies: T1 to T10, S1 to S3, X2, X12 (bugs P10, P17, operators M8, M10, M14)."""

from __future__ import annotations

from typing import Any

import pytest

from schedgen.emulator.machine.switches import AsyncScope, BulkClause, Verdict
from schedgen.emulator.order.findings import Missing, Severity
from schedgen.emulator.order.tracker import Queue
from tests.emulator.order.kernel import Kernel, memory, shared

STAGES = 3
TILES = [(1024 * (stage + 1), 1024) for stage in range(STAGES)]
FULL = [8 * stage for stage in range(STAGES)]
EMPTY = [64 + 8 * stage for stage in range(STAGES)]
OUT = (8192, 256)


def pipeline(
    rounds: int = 8,
    *,
    skip_full: int = -1,
    skip_empty: int = -1,
    early: int = -1,
    arrive_first: int = -1,
    **switches: Any,
) -> Kernel:
    """Warp 1 loads tiles into a ring of stages, tcgen05.mma of warp 2 reads them.

    Args:
        skip_full, skip_empty: round in which the consumer's or producer's wait is missing.
        early: round in which the consumer waits for the phase before (M10).
        arrive_first: round in which the consumer releases before its product.
    """
    k = Kernel(**switches)
    k.barrier(*FULL, *EMPTY)
    for i in range(rounds):
        stage, phase = i % STAGES, i // STAGES
        if i != skip_empty:
            k.wait(1, EMPTY[stage], phase - 1)
        k.arrive(1, FULL[stage], phase)
        k.load(1, TILES[stage], FULL[stage], phase)
        if i != skip_full:
            k.wait(2, FULL[stage], phase - (i == early))
        if i == arrive_first:
            k.commit(2, EMPTY[stage], phase)
        k.mma(2, (0, 64), [TILES[stage]])
        if i != arrive_first:
            k.commit(2, EMPTY[stage], phase)
    return k


def test_t1_pipeline_with_wrap_around() -> None:
    assert pipeline().clean()


def test_consumer_does_not_wait() -> None:
    race = pipeline(skip_full=4).races()[0]
    assert (race.missing, race.kind) == (Missing.PHASE_WAIT, "read after write")
    assert race.needs.startswith("a wait for phase 1 of the mbarrier at 8 of CTA 0 by warp 2")


def test_p10_m10_wait_for_an_old_phase() -> None:
    race = pipeline(early=4).races()[0]
    assert (race.missing, race.kind) == (Missing.PHASE_WAIT, "read after write")


def test_x12_producer_does_not_wait() -> None:
    race = pipeline(skip_empty=4).races()[0]
    assert race.kind == "write after read"
    assert race.rule == "C11"
    assert "tcgen05.commit in line" in race.needs


def test_release_before_the_product() -> None:
    """The next commit, on the barrier of the next stage, is the first that tracks the product."""
    race = pipeline(arrive_first=4).races()[0]
    assert (race.kind, race.missing) == ("write after read", Missing.PHASE_WAIT)
    assert race.needs.startswith("a wait for phase 1 of the mbarrier at 80")


def test_m14_the_phase_ends_before_the_copy() -> None:
    """expect_tx with too few bytes: phase 0 completes, the copy counts for phase 1."""
    k = Kernel()
    k.barrier(0)
    k.arrive(1, 0, 0)
    k.wait(2, 0, 0)
    k.load(1, OUT, 0, phase=1)
    k.mma(2, (0, 64), [OUT])
    assert k.race().needs.startswith("a wait for phase 1")


def test_s2_mechanism_and_literal() -> None:
    """Literally, clause (3) covers only copies that are requested before the arrive."""

    def run(*, arrive_last: bool, clause: BulkClause) -> Kernel:
        k = Kernel(bulk_clause=clause)
        k.barrier(0)
        if not arrive_last:
            k.arrive(1, 0)
        k.load(1, OUT, 0)
        if arrive_last:
            k.arrive(1, 0)
        k.wait(2, 0)
        k.read(2, OUT)
        return k

    assert run(arrive_last=False, clause=BulkClause.MECHANISM).clean()
    assert run(arrive_last=True, clause=BulkClause.LITERAL).clean()
    race = run(arrive_last=False, clause=BulkClause.LITERAL).race()
    assert race.switch == "S2 bulk_clause"


def multicast(*, scope: AsyncScope, wait: bool = True, cluster: bool = False) -> Kernel:
    """Warp 1 of CTA 0 loads a tile into both CTAs; a warp of each reads it."""
    k = Kernel(cluster=2, async_scope=scope)
    k.barrier(0, warps=range(16))
    k.barrier(0, cta=1, warps=range(8, 16))
    k.checker.join(tuple(range(16)), tuple(range(16)), cluster=True)
    for cta in (0, 1):
        k.arrive(8 * cta + 1, 0, cta=cta)
    k.load(1, OUT, 0, ctas=(0, 1))
    for cta in (0, 1):
        if wait or cta == 0:
            k.wait(8 * cta + 4, 0, cta=cta, cluster=cluster)
        k.read(8 * cta + 4, OUT, cta=cta)
    return k


def test_t3_multicast() -> None:
    assert multicast(scope=AsyncScope.LENIENT).clean()
    race = multicast(scope=AsyncScope.LENIENT, wait=False).race()
    assert race.cta == 1
    assert race.needs.startswith("a wait for phase 0 of the mbarrier at 0 of CTA 1")


def test_s1_scope_of_the_wait() -> None:
    race = multicast(scope=AsyncScope.STRICT).race()
    assert (race.cta, race.switch) == (1, "S1 async_scope")
    assert multicast(scope=AsyncScope.STRICT, cluster=True).clean()


def test_t3_the_barrier_of_the_other_cta_says_nothing_about_this_one() -> None:
    k = Kernel(cluster=2)
    k.barrier(0, warps=range(16))
    k.barrier(0, cta=1, warps=range(8, 16))
    k.checker.join(tuple(range(16)), tuple(range(16)), cluster=True)
    k.load(1, OUT, 0, ctas=(0, 1))
    k.wait(4, 0)
    k.checker.join((4, 12), (12,), cluster=True)
    k.read(12, OUT, cta=1)
    assert k.race().missing is Missing.PHASE_WAIT


def test_t4_pair_of_ctas_signals_the_leader() -> None:
    def run(*, wait: bool) -> Kernel:
        k = Kernel(cluster=2)
        k.barrier(0, warps=range(16))
        k.load(8, OUT, 0, ctas=(1,), signal=0)
        if wait:
            k.wait(2, 0)
        k.checker.join((2, 12), (12,), cluster=True)
        k.read(12, OUT, cta=1)
        return k

    assert run(wait=True).clean()
    assert run(wait=False).race().needs.startswith("a wait for phase 0 of the mbarrier at 0 of CTA")


def refilled_by(ctas: tuple[int, int], verdict: Verdict) -> Kernel:
    """Both copies go to CTA 0; the second is issued after the first was waited for."""
    k = Kernel(cluster=2, async_other_cta=verdict)
    k.barrier(0, warps=range(16))
    everyone = tuple(range(16))
    k.checker.barrier_init_fence(0)
    k.checker.join(everyone, everyone, cluster=True)
    for phase, cta in enumerate(ctas):
        k.load(8 * cta, OUT, 0, phase)
        k.wait(0, 0, phase)
        k.checker.join(everyone, everyone, cluster=True)
    return k


def test_s3_copies_of_two_ctas_into_one() -> None:
    assert refilled_by((1, 1), Verdict.ERROR).clean()
    race = refilled_by((0, 1), Verdict.WARNING).race()
    assert (race.severity, race.switch) == (Severity.WARNING, "S3 async_other_cta")
    assert refilled_by((0, 1), Verdict.ERROR).race().severity is Severity.ERROR
    assert refilled_by((0, 1), Verdict.OFF).clean()


def test_x2_complete_tx_carries_nothing_of_the_issuer() -> None:
    k = Kernel()
    k.barrier(0)
    k.write(1, (512, 4))
    k.load(1, OUT, 0)
    k.wait(4, 0)
    k.read(4, (512, 4))
    assert k.race().missing is Missing.HAND_OFF


def test_two_copies_to_one_place() -> None:
    k = Kernel()
    k.barrier(0)
    k.load(1, OUT, 0)
    k.load(1, OUT, 0)
    race = k.race()
    assert (race.kind, race.missing) == ("write after write", Missing.PHASE_WAIT)


def test_copies_to_different_places_of_one_phase() -> None:
    k = Kernel()
    k.barrier(0)
    k.load(1, (0, 64), 0)
    k.load(1, (64, 64), 0)
    k.wait(2, 0)
    k.read(2, (0, 128))
    assert k.clean()


def test_late_execution_of_a_copy_does_not_matter() -> None:
    """A read after the issue, before the execution: the run is lucky, the kernel is not."""
    k = Kernel()
    k.barrier(0)
    copy = k.copy(1)
    k.read(4, OUT)
    k.loaded(copy, OUT, 0)
    race = k.race()
    assert (race.missing, race.kind) == (Missing.PHASE_WAIT, "write after read")
    assert race.needs.startswith("a wait for phase 0 of the mbarrier at 0 of CTA 0 by warp 4")


# -- stores -------------------------------------------------------------------------------------


def epilogue(
    rounds: int = 6,
    *,
    stages: int = 2,
    wait: bool = True,
    pending: int = 1,
    barrier: bool = True,
    waiter: int = 4,
) -> Kernel:
    """Warps 4 and 5 write tiles into a ring, warp 4 stores them and waits before reuse."""
    k = Kernel()
    for i in range(rounds):
        start = 1024 * (i % stages)
        if wait:
            k.checker.bulk_wait(waiter, pending, read=True)
        if barrier:
            k.sync(4, 5)
        k.write(4, (start, 64))
        k.write(5, (start + 64, 64))
        k.fence(4)
        k.fence(5)
        k.sync(4, 5)
        k.store(4, (start, 128), to=(4096 * i, 128))
        k.checker.bulk_commit(4)
    return k


def test_t7_reuse_of_the_source() -> None:
    assert epilogue().clean()
    assert epilogue(stages=3, pending=2).clean()


def test_m8_no_wait_for_the_store() -> None:
    races = epilogue(wait=False).races()
    assert {race.missing for race in races} == {Missing.GROUP_WAIT}
    assert any("cp.async.bulk.wait_group.read in warp 4" in race.needs for race in races)


def test_m8_one_group_too_many_left_pending() -> None:
    assert {race.missing for race in epilogue(pending=2).races()} == {Missing.GROUP_WAIT}


def test_p17_t8_no_barrier_after_the_wait() -> None:
    k = Kernel()
    k.store(4, OUT)
    k.checker.bulk_commit(4)
    k.checker.bulk_wait(4, 0, read=True)
    k.write(4, (OUT[0], 64))
    k.write(5, (OUT[0] + 64, 64))
    race = k.race()
    assert (race.missing, race.later.warp) == (Missing.HAND_OFF, 5)
    assert "after its cp.async.bulk.wait_group.read" in race.needs


def test_p17_t8_a_warp_that_issued_nothing_waits() -> None:
    assert Missing.GROUP_WAIT in epilogue(waiter=5).missing()


def test_t6_not_committed() -> None:
    k = Kernel()
    k.store(4, OUT)
    k.checker.bulk_wait(4, 0, read=True)
    k.write(4, OUT)
    assert k.race().missing is Missing.GROUP_WAIT


def test_t7_read_is_not_enough_for_the_destination() -> None:
    def run(*, read: bool) -> Kernel:
        k = Kernel()
        k.store(4, OUT, to=(0, 64))
        k.checker.bulk_commit(4)
        k.checker.bulk_wait(4, 0, read=read)
        k.checker.generic(4, memory((0, 64)), write=False, line=k.at())
        return k

    assert run(read=False).clean()
    assert run(read=True).race().rule == "T9"


def test_t6_two_stores_to_one_place() -> None:
    k = Kernel()
    k.store(4, OUT, to=(0, 64))
    k.checker.bulk_commit(4)
    k.store(4, OUT, to=(0, 64))
    assert k.race().kind == "write after write"


@pytest.mark.parametrize("atomic", [True, False])
def test_t10_reductions_are_atomic(atomic: bool) -> None:
    k = Kernel()
    for warp in (0, 8, 16):
        copy = k.checker.issue(warp, Queue.BULK_STORE, k.at())
        k.checker.access(copy, shared(OUT, warp // 8), write=False)
        k.checker.access(copy, memory((0, 256)), write=True, atomic=atomic)
        k.checker.finish(copy)
    assert k.clean() is atomic


def test_k2_reduction_and_atomic_are_of_two_proxies() -> None:
    k = Kernel()
    copy = k.checker.issue(0, Queue.BULK_STORE, k.at())
    k.checker.access(copy, memory((0, 4)), write=True, atomic=True)
    k.checker.finish(copy)
    k.checker.generic(8, memory((0, 4)), write=True, line=k.at(), atomic=True)
    assert not k.clean()


def test_a_copy_that_nothing_tracks() -> None:
    k = Kernel()
    copy = k.copy(1)
    k.checker.access(copy, shared(OUT), write=True)
    k.checker.finish(copy)
    k.read(1, OUT)
    assert k.race().missing is Missing.GROUP_WAIT


def test_all_lanes_of_a_warp_issue_one_store() -> None:
    k = Kernel()
    line = k.at()
    for _ in range(3):
        copy = k.checker.issue(4, Queue.BULK_STORE, line)
        k.stored(copy, OUT, to=(0, 256))
    assert k.clean()
    k.checker.bulk_commit(4)
    k.stored(k.checker.issue(4, Queue.BULK_STORE, line), OUT, to=(0, 256))
    race = k.race()
    assert (race.earlier.iteration, race.later.iteration) == (0, 1)


@pytest.mark.parametrize("shift", [0, 1024])
def test_p9_m17_overlapping_buffers(shift: int) -> None:
    """Each buffer is handed over correctly, but the second one begins within the first."""
    k = Kernel()
    k.barrier(0, 8)
    k.load(1, (1024, 2048), 0)
    k.load(1, (2048 + shift, 1024), 8)
    k.wait(2, 0)
    k.read(2, (1024, 2048))
    kinds = {race.kind for race in k.races()}
    assert kinds == (set() if shift else {"write after write", "read after write"})

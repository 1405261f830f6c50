"""N9, and M8 at the end of a kernel: what is under way when a CTA exits."""

from __future__ import annotations

from schedgen.emulator.machine.switches import Verdict
from schedgen.emulator.order.findings import Flaw, Severity
from tests.emulator.order.kernel import Kernel

OUT, TILE = (8192, 256), (1024, 256)


def stored(
    *,
    commit: bool = True,
    wait: bool = True,
    waiter: int = 4,
    verdict: Verdict = Verdict.ERROR,
) -> Kernel:
    k = Kernel(store_at_exit=verdict)
    k.write(4, OUT)
    k.fence(4)
    k.store(4, OUT)
    if commit:
        k.checker.bulk_commit(4)
    if wait:
        k.checker.bulk_wait(waiter, 0, read=True)
    k.read(5, TILE)
    k.checker.close()
    return k


def test_m8_last_store() -> None:
    assert stored().clean()
    defect = stored(wait=False).defect()
    assert (defect.flaw, defect.rule, defect.low) == (Flaw.OUTLIVES, "N9", OUT[0])
    assert defect.needs == (
        "cp.async.bulk.commit_group and cp.async.bulk.wait_group.read in warp 4 after line 3 and "
        "before it exits"
    )
    assert defect.severity is Severity.ERROR
    warning = stored(wait=False, verdict=Verdict.WARNING).defect()
    assert (warning.severity, warning.switch) == (Severity.WARNING, "S23 store_at_exit")
    assert stored(wait=False, verdict=Verdict.OFF).clean()
    assert not stored(commit=False).clean()
    assert not stored(waiter=5).clean()


def test_copy_that_nobody_waited_for() -> None:
    def run(*, wait: bool) -> Kernel:
        k = Kernel()
        k.barrier(0)
        k.load(1, TILE, 0)
        if wait:
            k.wait(2, 0)
        k.checker.close()
        return k

    assert run(wait=True).clean()
    assert run(wait=False).defect().needs.startswith("a wait for phase 0 of the mbarrier at 0")


def test_product_that_nobody_waited_for() -> None:
    def run(*, wait: bool) -> Kernel:
        k = Kernel()
        k.barrier(0)
        k.mma(2, (0, 32), [TILE])
        k.commit(2, 0)
        if wait:
            k.wait(3, 0)
        k.checker.close()
        return k

    assert run(wait=True).clean()
    assert run(wait=False).defect().flaw is Flaw.OUTLIVES


def remote(use: str, *, barrier: bool) -> Kernel:
    """A warp of CTA 1 uses shared memory or an mbarrier of CTA 0 last."""
    k = Kernel(cluster=2)
    k.barrier(0, warps=range(16))
    k.checker.join(tuple(range(16)), tuple(range(16)), cluster=True)
    match use:
        case "arrive":
            k.arrive(8, 0)
        case "commit":
            k.mma(8, (0, 32))
            k.commit(8, 0)
        case _:
            k.write(8, TILE, cta=0)
    if barrier:
        k.checker.join(tuple(range(16)), tuple(range(16)), cluster=True)
    k.checker.close()
    return k


def test_n9_remote_accesses() -> None:
    for use in ("arrive", "write"):
        assert remote(use, barrier=True).clean()
        assert remote(use, barrier=False).defect().flaw is Flaw.OUTLIVES


def test_n9_a_wait_for_the_phase_is_enough() -> None:
    k = Kernel(cluster=2)
    k.barrier(0, warps=range(16))
    k.checker.join(tuple(range(16)), tuple(range(16)), cluster=True)
    k.arrive(8, 0)
    k.wait(1, 0)
    k.checker.close()
    assert k.clean()


def test_n9_arrive_of_a_remote_commit() -> None:
    """It happens at some time after the commit: only a wait for it says that it is over."""

    def run(*, wait: bool) -> Kernel:
        k = Kernel(cluster=2)
        k.barrier(0, warps=range(16))
        k.mma(8, (0, 32))
        k.commit(8, 0)
        if wait:
            k.wait(1, 0)
        k.checker.join(tuple(range(16)), tuple(range(16)), cluster=True)
        k.checker.close()
        return k

    assert run(wait=True).clean()
    assert run(wait=False).defect().needs == "a wait for phase 0 in CTA 0 before it exits"

"""Accesses of threads: K1, K4, K5, barriers N2 and N6, mbarriers B11 to B13 (M7, M12, M15, P27)."""

from __future__ import annotations

from schedgen.emulator.machine.switches import RemoteScope
from schedgen.emulator.order.findings import Missing
from schedgen.emulator.order.tracker import Space
from tests.emulator.order.kernel import Kernel, memory, shared

WORD = (512, 4)


def test_k1_program_order() -> None:
    k = Kernel()
    k.write(3, WORD)
    k.read(3, WORD)
    k.write(3, WORD)
    assert k.clean()


def test_k1_unordered_writes_and_reads() -> None:
    k = Kernel()
    k.write(3, WORD)
    k.read(4, WORD)
    race = k.race()
    assert (race.missing, race.kind) == (Missing.HAND_OFF, "read after write")
    assert race.needs == (
        "an mbarrier or barrier hand-off from warp 3 (after line 1) to warp 4 (before line 2)"
    )


def test_k1_reads_do_not_race() -> None:
    k = Kernel()
    for warp in range(8):
        k.read(warp, WORD)
    assert k.clean()


def test_k1_write_after_unordered_reads_of_several_warps() -> None:
    k = Kernel()
    for warp in range(4):
        k.read(warp, WORD)
    k.sync(0, 1, 2, 7)
    k.write(7, WORD)
    race = k.race()
    assert (race.earlier.warp, race.kind) == (3, "write after read")


def test_k3_bytes_not_words() -> None:
    k = Kernel()
    k.write(3, (512, 2))
    k.write(4, (514, 2))
    assert k.clean()
    k.write(5, (513, 2))
    assert {(f.low, f.high) for f in k.races()} == {(513, 513), (514, 514)}


def test_n2_m7_named_barrier() -> None:
    def run(*, barrier: bool) -> Kernel:
        k = Kernel()
        k.write(3, WORD)
        if barrier:
            k.sync(3, 4)
        k.read(4, WORD)
        return k

    assert run(barrier=True).clean()
    assert run(barrier=False).race().missing is Missing.HAND_OFF


def test_n2_m15_arrive_is_a_release_side_only() -> None:
    """bar.arrive by the writer is enough; by the reader it is not."""

    def run(writer_waits: bool, reader_waits: bool) -> Kernel:
        k = Kernel()
        k.write(3, WORD)
        k.checker.signal(3, (0, 1), 0, line=k.at())
        k.checker.signal(4, (0, 1), 0, line=k.at())
        for warp, waits in ((3, writer_waits), (4, reader_waits)):
            if waits:
                k.checker.leave(warp, (0, 1), 0, line=k.at())
        k.read(4, WORD)
        return k

    assert run(False, True).clean()
    assert not run(True, False).clean()


def test_n2_what_comes_after_bar_arrive_is_not_covered() -> None:
    k = Kernel()
    k.checker.signal(3, (0, 1), 0, line=k.at())
    k.write(3, WORD)
    k.checker.signal(4, (0, 1), 0, line=k.at())
    k.checker.leave(4, (0, 1), 0, line=k.at())
    k.read(4, WORD)
    assert k.race().missing is Missing.HAND_OFF


def test_m12_another_named_barrier() -> None:
    k = Kernel()
    k.write(3, WORD)
    k.checker.signal(3, (0, 1), 0, line=k.at())
    k.checker.signal(4, (0, 2), 0, line=k.at())
    k.checker.leave(4, (0, 2), 0, line=k.at())
    k.read(4, WORD)
    assert not k.clean()


def test_generations_of_a_named_barrier_do_not_mix() -> None:
    k = Kernel()
    k.checker.signal(4, (0, 1), 0, line=k.at())
    k.checker.signal(3, (0, 1), 1, line=k.at())
    k.write(5, WORD)
    k.checker.signal(5, (0, 1), 1, line=k.at())
    k.checker.leave(4, (0, 1), 0, line=k.at())
    k.read(4, WORD)
    assert not k.clean()


def handed(*, arrive: bool = True, wait: bool = True, relaxed: str = "") -> Kernel:
    """Warp 3 writes, arrives; warp 4 waits, reads."""
    k = Kernel()
    k.barrier(0)
    k.write(3, WORD)
    if arrive:
        k.arrive(3, 0, relaxed=relaxed == "arrive")
    if wait:
        k.wait(4, 0, relaxed=relaxed == "wait")
    k.read(4, WORD)
    return k


def test_b12_arrive_and_wait() -> None:
    assert handed().clean()
    assert handed(arrive=False).race().missing is Missing.HAND_OFF
    assert handed(wait=False).race().missing is Missing.HAND_OFF


def test_b11_relaxed_orders_nothing() -> None:
    assert handed(relaxed="arrive").race().missing is Missing.HAND_OFF
    assert handed(relaxed="wait").race().missing is Missing.HAND_OFF


def test_k4_fences_make_relaxed_arrives_and_waits_order() -> None:
    def run(*, release: bool, acquire: bool) -> Kernel:
        k = Kernel()
        k.barrier(0)
        k.write(3, WORD)
        if release:
            k.checker.thread_fence(3, cluster=False)
        k.arrive(3, 0, relaxed=True)
        k.wait(4, 0, relaxed=True)
        if acquire:
            k.checker.thread_fence(4, cluster=False)
        k.read(4, WORD)
        return k

    assert run(release=True, acquire=True).clean()
    assert not run(release=False, acquire=True).clean()
    assert not run(release=True, acquire=False).clean()


def test_b12_nothing_between_own_arrive_and_wait() -> None:
    k = Kernel()
    k.barrier(0)
    k.arrive(3, 0)
    k.write(3, WORD)
    k.wait(4, 0)
    k.read(4, WORD)
    assert k.race().missing is Missing.HAND_OFF


def test_arrivals_of_the_next_phase_are_not_covered() -> None:
    """The waiter of phase 0 is late: phase 1 has got an arrival, of another warp, by then."""
    k = Kernel()
    k.barrier(0)
    k.arrive(3, 0, 0)
    k.wait(5, 0, 0)
    k.write(5, WORD)
    k.arrive(5, 0, 1)
    k.wait(4, 0, 0)
    k.read(4, WORD)
    assert k.race().missing is Missing.HAND_OFF


def test_a_phase_covers_arrivals_of_the_phases_before() -> None:
    k = Kernel()
    k.barrier(0)
    k.write(3, WORD)
    k.arrive(3, 0, 0)
    k.wait(5, 0, 0)
    k.arrive(5, 0, 1)
    k.wait(4, 0, 1)
    k.read(4, WORD)
    assert k.clean()


def test_m12_wait_on_a_neighbour() -> None:
    k = Kernel()
    k.barrier(0, 8)
    k.write(3, WORD)
    k.arrive(3, 0)
    k.arrive(5, 8)
    k.wait(4, 8)
    k.read(4, WORD)
    assert not k.clean()


def test_transitivity() -> None:
    k = Kernel()
    k.barrier(0, 8)
    k.write(3, WORD)
    k.arrive(3, 0)
    k.wait(5, 0)
    k.arrive(5, 8)
    k.wait(4, 8)
    k.write(4, WORD)
    assert k.clean()


def remote(*, arrive: bool, wait: bool, scope: RemoteScope) -> Kernel:
    """P27: warp 8 of CTA 1 writes into CTA 0 and arrives there; ``True`` is written .cluster."""
    k = Kernel(cluster=2, remote_scope=scope)
    k.barrier(0, warps=range(16))
    k.write(8, WORD, cta=0)
    k.arrive(8, 0, cluster=arrive)
    k.wait(4, 0, cluster=wait)
    k.read(4, WORD)
    return k


def test_b13_p27_scope_of_a_remote_arrive() -> None:
    written = RemoteScope.AS_WRITTEN
    assert remote(arrive=True, wait=True, scope=written).clean()
    race = remote(arrive=False, wait=True, scope=written).race()
    assert "at .cluster scope" in race.needs
    assert not remote(arrive=True, wait=False, scope=written).clean()
    assert remote(arrive=False, wait=False, scope=RemoteScope.IMPLIED).clean()


def test_b13_the_scope_of_the_cta_is_enough_inside_it() -> None:
    k = Kernel(cluster=2, remote_scope=RemoteScope.AS_WRITTEN)
    k.barrier(0)
    k.write(3, WORD)
    k.arrive(3, 0)
    k.wait(4, 0)
    k.read(4, WORD)
    assert k.clean()


def test_n6_barrier_cluster() -> None:
    def run(*, relaxed: bool) -> Kernel:
        k = Kernel(cluster=2)
        k.write(8, WORD, cta=0)
        for warp in range(16):
            k.checker.signal(warp, (0, -1), 0, line=k.at(), cluster=True, relaxed=relaxed)
        for warp in range(16):
            k.checker.leave(warp, (0, -1), 0, line=k.at(), cluster=True)
        k.read(4, WORD)
        return k

    assert run(relaxed=False).clean()
    assert run(relaxed=True).race().missing is Missing.HAND_OFF


def test_join_is_the_short_form() -> None:
    k = Kernel()
    k.write(3, WORD)
    k.checker.join((3, 4), (4,), cluster=False)
    k.read(4, WORD)
    assert k.clean()


FLAG, DATA = (1 << 30, 4), ((1 << 30) + 4096, 64)


def published(
    *, release: bool, acquire: bool, clusters: bool = True, gpu: bool = True, fences: bool = True
) -> Kernel:
    """Through global memory: data, membar, atomic flag; atomic flag, membar, data."""
    k = Kernel()
    reader = 8 if clusters else 4
    check = k.checker
    check.generic(3, memory(DATA), write=True, line=k.at())
    if release and fences:
        check.thread_fence(3, cluster=True, gpu=gpu)
    sem = not fences
    check.generic(
        3, memory(FLAG), write=True, line=k.at(), atomic=True, release=sem and release
    )  # fmt: skip
    check.generic(
        reader, memory(FLAG), write=False, line=k.at(), atomic=True, acquire=sem and acquire
    )  # fmt: skip
    if acquire and fences:
        check.thread_fence(reader, cluster=True, gpu=gpu)
    check.generic(reader, memory(DATA), write=False, line=k.at())
    return k


def test_k4_k5_flag_in_global_memory() -> None:
    assert published(release=True, acquire=True).clean()
    assert "through global memory" in published(release=False, acquire=True).race().needs
    assert not published(release=True, acquire=False).clean()


def test_k4_release_and_acquire_of_the_flag() -> None:
    assert published(release=True, acquire=True, fences=False).clean()
    assert not published(release=False, acquire=True, fences=False).clean()
    assert not published(release=True, acquire=False, fences=False).clean()


def test_k2_scope_of_the_fences() -> None:
    assert not published(release=True, acquire=True, gpu=False).clean()
    assert published(release=True, acquire=True, gpu=False, clusters=False).clean()


def test_k1_atomics_do_not_race_with_each_other() -> None:
    k = Kernel()
    for warp in (0, 8, 16):
        k.checker.generic(warp, memory(FLAG), write=True, line=k.at(), atomic=True)
    assert k.clean()
    k.checker.generic(24, memory(FLAG), write=False, line=k.at())
    assert len(k.checker.findings) == 3


def test_k1_atomic_after_plain() -> None:
    k = Kernel()
    k.checker.generic(0, memory(FLAG), write=False, line=k.at())
    k.checker.generic(8, memory(FLAG), write=True, line=k.at(), atomic=True)
    k.checker.generic(16, memory(FLAG), write=True, line=k.at(), atomic=True)
    assert {(f.earlier.warp, f.later.warp) for f in k.races()} == {(0, 8), (0, 16)}


def test_k5_chain_through_two_clusters() -> None:
    """Counter as a semaphore: each adds after its work; the last one reads what all wrote."""
    k = Kernel()
    for warp in (0, 8, 16):
        k.checker.generic(warp, memory((DATA[0] + warp, 8)), write=True, line=k.at())
        k.checker.thread_fence(warp, cluster=True)
        k.checker.generic(warp, memory(FLAG), write=True, line=k.at(), atomic=True)
        k.checker.thread_fence(warp, cluster=True)
    k.checker.generic(16, memory((DATA[0], 24)), write=False, line=k.at())
    assert k.clean()
    k.checker.generic(8, memory((DATA[0] + 16, 8)), write=False, line=k.at())
    assert k.race().earlier.warp == 16


def test_t9_bulk_store_published_to_another_cluster() -> None:
    def run(*, read: bool) -> Kernel:
        k = Kernel()
        k.store(3, (0, 64), to=DATA)
        k.checker.bulk_commit(3)
        k.checker.bulk_wait(3, 0, read=read)
        k.checker.thread_fence(3, cluster=True)
        k.checker.generic(3, memory(FLAG), write=True, line=k.at(), atomic=True)
        k.checker.generic(8, memory(FLAG), write=False, line=k.at(), atomic=True, acquire=True)
        k.checker.generic(8, memory(DATA), write=False, line=k.at())
        return k

    assert run(read=False).clean()
    assert run(read=True).race().rule == "T9"


def test_x6_global_memory_of_another_cluster() -> None:
    """Warp 3 writes and fences for the async proxy; a bulk load of another cluster reads."""

    def run(space: Space | None) -> Kernel:
        k = Kernel()
        k.barrier(0, cta=1, warps=range(8, 16))
        k.checker.generic(3, memory(DATA), write=True, line=k.at())
        k.fence(3, space)
        k.checker.thread_fence(3, cluster=True)
        k.checker.generic(3, memory(FLAG), write=True, line=k.at(), atomic=True)
        k.checker.generic(8, memory(FLAG), write=False, line=k.at(), atomic=True, acquire=True)
        copy = k.copy(8)
        k.checker.access(copy, memory(DATA), write=False)
        k.checker.access(copy, shared((1024, 64), 1), write=True)
        k.checker.track(copy, (1, 0), 0)
        k.checker.finish(copy)
        return k

    assert run(Space.GLOBAL).clean()
    assert run(None).clean()
    assert run(Space.SHARED).race().missing is Missing.PROXY_FENCE

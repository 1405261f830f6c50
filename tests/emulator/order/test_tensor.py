"""Tensor memory: C1 to C9, C14, S9, S10 (bugs P7, P8, P20, P21, P23, operators M1, M3, M19)."""

from __future__ import annotations

from typing import Any

import pytest

from schedgen.emulator.machine.switches import (
    CommitOrder,
    TensorFences,
    UnwaitedLoad,
)
from schedgen.emulator.order.findings import Missing, Severity
from tests.emulator.order.kernel import Kernel

ACC, OTHER = (0, 64), (64, 64)
BAR = 0
BOTH = pytest.mark.parametrize("fences", list(TensorFences))
REQUIRED = TensorFences.REQUIRED


def start(fences: TensorFences = REQUIRED, **settings: Any) -> Kernel:
    k = Kernel(tensor_fences=fences, **settings)
    k.barrier(BAR, 8)
    return k


# -- C7 a: mma; commit -> try_wait; after; ld ------------------------------------------------------


def product_then_load(
    fences: TensorFences,
    *,
    commit: bool = True,
    wait: bool = True,
    after: bool = True,
    warp: int = 4,
) -> Kernel:
    k = start(fences)
    k.mma(2, ACC)
    if commit:
        k.commit(2, BAR)
    if wait:
        k.wait(warp, BAR)
    if after:
        k.after(warp)
    k.ld(warp, ACC)
    return k


@BOTH
@pytest.mark.parametrize("warp", [4, 2])  # 9.7.16.6.4.2 example 2 is about one thread
def test_c7a_product_then_load(fences: TensorFences, warp: int) -> None:
    assert product_then_load(fences, warp=warp).clean()
    race = product_then_load(fences, warp=warp, commit=False, wait=False).race()
    assert race.missing is Missing.COMMIT
    race = product_then_load(fences, warp=warp, wait=False).race()
    assert race.missing is Missing.PHASE_WAIT
    assert race.needs.startswith("a wait for phase 0 of the mbarrier at 0 of CTA 0 (tcgen05.commit")


def test_c7a_c6_fence_after() -> None:
    race = product_then_load(REQUIRED, after=False).race()
    assert (race.missing, race.switch) == (Missing.FENCE_AFTER, "S20 tensor_fences")
    assert product_then_load(TensorFences.IMPLIED, after=False).clean()


# -- C7 b: cp; before; arrive -> try_wait; after; mma ----------------------------------------------


def copy_then_product(
    *, before: bool = True, arrive: bool = True, after: bool = True, fences: TensorFences = REQUIRED
) -> Kernel:
    """No completion is waited for: ordered issue is enough for a pipelined pair."""
    k = start(fences)
    k.copy_in(2, OTHER)
    if before:
        k.before(2)
    if arrive:
        k.arrive(2, BAR)
    k.wait(3, BAR)
    if after:
        k.after(3)
    k.mma(3, ACC, probabilities=OTHER)
    return k


def test_c7b_copy_then_product() -> None:
    assert copy_then_product().clean()
    assert not copy_then_product(before=False).clean()
    assert not copy_then_product(arrive=False).clean()
    assert not copy_then_product(after=False).clean()
    implied = TensorFences.IMPLIED
    assert copy_then_product(before=False, after=False, fences=implied).clean()
    assert not copy_then_product(arrive=False, fences=implied).clean()


# -- C7 c and d: ld or st; wait; before; arrive -> try_wait; after; mma or ld ----------------------


def threads_then(
    access: str,
    then: str,
    *,
    wait: bool = True,
    before: bool = True,
    arrive: bool = True,
    acquire: bool = True,
    after: bool = True,
    fences: TensorFences = REQUIRED,
    late: bool = False,
    **settings: Any,
) -> Kernel:
    k = start(fences, **settings)
    other = 2 if then == "mma" else 0
    operation = k.ld(4, ACC) if access == "ld" else k.st(4, ACC)
    done = k.wait_ld if access == "ld" else k.wait_st
    if settings.get("unwaited_load") in (UnwaitedLoad.ACCEPT, UnwaitedLoad.REVIEW):
        k.checker.consumed(operation)
    if wait and not late:
        done(4)
    if before:
        k.before(4)
    if arrive:
        k.arrive(4, BAR)
    if wait and late:
        done(4)
    if acquire:
        k.wait(other, BAR)
    if after:
        k.after(other)
    match then:
        case "mma":
            k.mma(2, ACC)
        case "p":
            k.mma(0, OTHER, probabilities=ACC)
        case "st":
            k.st(0, ACC)
        case _:
            k.ld(0, ACC)
    return k


@pytest.mark.parametrize(("access", "then"), [("ld", "mma"), ("ld", "st"), ("st", "mma"),
                                              ("st", "p"), ("st", "ld")])  # fmt: skip
def test_c7c_c7d_m1_m3_p7_p23_threads_then(access: str, then: str) -> None:
    assert threads_then(access, then).clean()
    race = threads_then(access, then, wait=False).race()
    assert race.missing is Missing.TENSOR_WAIT
    assert race.needs.startswith(f"tcgen05.wait::{access} in warp 4 after line")
    assert "before its arrive on the mbarrier at 0" in race.needs
    assert threads_then(access, then, late=True).race().missing is Missing.TENSOR_WAIT
    assert threads_then(access, then, arrive=False).race().missing is Missing.HAND_OFF
    assert threads_then(access, then, acquire=False).race().missing is Missing.HAND_OFF
    assert threads_then(access, then, before=False).race().missing is Missing.FENCE_BEFORE
    assert threads_then(access, then, after=False).race().missing is Missing.FENCE_AFTER


@pytest.mark.parametrize("access", ["ld", "st"])
def test_without_fences_where_they_are_implied(access: str) -> None:
    implied = TensorFences.IMPLIED
    assert threads_then(access, "mma", before=False, after=False, fences=implied).clean()
    race = threads_then(access, "mma", before=False, after=False, wait=False, fences=implied).race()
    assert race.missing is Missing.TENSOR_WAIT


def test_c9_the_wait_of_another_warp_says_nothing() -> None:
    k = start()
    k.st(4, ACC)
    k.wait_st(5)
    k.before(5)
    k.sync(4, 5, 2)
    k.after(2)
    k.mma(2, ACC)
    assert k.race().missing is Missing.TENSOR_WAIT


def test_c6_before_too_early() -> None:
    k = start()
    k.st(4, ACC)
    k.before(4)
    k.wait_st(4)
    k.arrive(4, BAR)
    k.wait(2, BAR)
    k.after(2)
    k.mma(2, ACC)
    assert k.race().missing is Missing.FENCE_BEFORE


def test_c6_after_too_early() -> None:
    k = start()
    k.st(4, ACC)
    k.wait_st(4)
    k.before(4)
    k.arrive(4, BAR)
    k.after(2)
    k.wait(2, BAR)
    k.mma(2, ACC)
    assert k.race().missing is Missing.FENCE_AFTER


@BOTH
def test_c6_relaxed_arrives_and_waits_compose(fences: TensorFences) -> None:
    """All canonical patterns of the ISA are written with .relaxed.cluster."""
    k = start(fences)
    k.st(4, ACC)
    k.wait_st(4)
    k.before(4)
    k.arrive(4, BAR, relaxed=True, cluster=True)
    k.wait(2, BAR, relaxed=True, cluster=True)
    k.after(2)
    k.mma(2, ACC)
    k.commit(2, 8)
    k.wait(4, 8, relaxed=True, cluster=True)
    k.after(4)
    k.ld(4, ACC)
    assert k.clean()


@BOTH
def test_c7_composed_over_a_third_warp(fences: TensorFences) -> None:
    """9.7.16.6.4.4, last example: who waited for the commit hands on."""

    def run(*, before: bool) -> Kernel:
        k = start(fences)
        k.mma(2, ACC)
        k.commit(2, BAR)
        k.wait(3, BAR)
        k.after(3)
        if before:
            k.before(3)
        k.arrive(3, 8)
        k.wait(4, 8)
        k.after(4)
        k.ld(4, ACC)
        return k

    assert run(before=True).clean()


def test_relay_without_fences() -> None:
    """A warp that only passes on needs no fences of its own."""
    k = start()
    k.st(4, ACC)
    k.wait_st(4)
    k.before(4)
    k.arrive(4, BAR)
    k.wait(5, BAR)
    k.arrive(5, 8)
    k.wait(2, 8)
    k.after(2)
    k.mma(2, ACC)
    assert k.clean()


# -- S9, S10 --------------------------------------------------------------------------------------


def test_s9_commit_and_shared_memory() -> None:
    def run(order: CommitOrder, *, relaxed: bool) -> Kernel:
        k = start(commit_order=order)
        k.mma(2, ACC, [(4096, 64)])
        k.commit(2, BAR)
        k.wait(1, BAR, relaxed=relaxed)
        k.load(1, (4096, 64), 8)
        return k

    for order in CommitOrder:
        assert run(order, relaxed=False).clean()
    assert run(CommitOrder.RELEASE, relaxed=True).clean()
    assert not run(CommitOrder.TCGEN05_ONLY, relaxed=True).clean()


@pytest.mark.parametrize("then", ["mma", "st"])
def test_s10_p8_load_whose_registers_were_all_read(then: str) -> None:
    def run(reading: UnwaitedLoad) -> Kernel:
        return threads_then("ld", then, wait=False, unwaited_load=reading)

    assert run(UnwaitedLoad.ACCEPT).clean()
    assert run(UnwaitedLoad.REVIEW).race().severity is Severity.REVIEW
    assert run(UnwaitedLoad.ERROR).race().severity is Severity.ERROR


def test_s10_m3_not_all_lanes_read_theirs() -> None:
    """`consumed` is only called for the first of two loads."""
    k = start(unwaited_load=UnwaitedLoad.ACCEPT)
    first = k.ld(4, (0, 32))
    k.ld(4, (32, 32))
    k.checker.consumed(first)
    k.before(4)
    k.arrive(4, BAR)
    k.wait(2, BAR)
    k.after(2)
    k.mma(2, (0, 32))
    assert k.clean()
    k.mma(2, (0, 64))
    assert k.race().missing is Missing.TENSOR_WAIT


def test_s10_loads_are_consumed_out_of_order() -> None:
    k = start(unwaited_load=UnwaitedLoad.ACCEPT)
    first, second = k.ld(4, (0, 32)), k.ld(4, (32, 32))
    k.checker.consumed(second)
    k.checker.consumed(first)
    k.st(4, ACC)
    assert k.clean()


def test_s10_consumed_after_the_wait() -> None:
    k = start(unwaited_load=UnwaitedLoad.ACCEPT)
    load = k.ld(4, ACC)
    k.wait_ld(4)
    k.checker.consumed(load)
    k.st(4, ACC)
    assert k.clean()


def test_s10_consumption_says_nothing_to_who_was_told_before() -> None:
    k = start(unwaited_load=UnwaitedLoad.ACCEPT)
    load = k.ld(4, ACC)
    k.before(4)
    k.arrive(4, BAR)
    k.checker.consumed(load)
    k.wait(2, BAR)
    k.after(2)
    k.mma(2, ACC)
    assert not k.clean()

"""Kernels that begin before the one in front of them has ended: L1."""

from __future__ import annotations

import pytest

from schedgen.emulator.order.findings import Defect, Flaw
from schedgen.emulator.order.tracker import Queue
from tests.emulator.order.kernel import Kernel, memory, shared

WORD = (4096, 4)


def touch(k: Kernel, warp: int, *, write: bool = False, word: tuple[int, int] = WORD) -> None:
    k.checker.generic(warp, memory(word), write=write, line=k.at())


def early(k: Kernel) -> list[Defect]:
    defects = [f for f in k.checker.findings if isinstance(f, Defect)]
    assert all(f.flaw is Flaw.EARLY and f.rule == "L1" for f in defects)
    assert len(defects) == len(k.checker.findings)
    return defects


@pytest.mark.parametrize("write", [False, True])
def test_without_a_wait(write: bool) -> None:
    k = Kernel(dependent=True)
    touch(k, 3, write=write)
    (found,) = early(k)
    assert (found.access.warp, found.low) == (3, 4096)
    assert "griddepcontrol.wait before" in k.checker.report()


def test_after_its_own_wait_and_shared_memory_before() -> None:
    k = Kernel(dependent=True)
    k.checker.generic(3, shared((0, 4)), write=True, line=k.at())
    k.checker.predecessor_wait(3)
    touch(k, 3)
    assert k.clean()


def test_the_wait_of_another_warp_counts_if_one_hears_of_it() -> None:
    k = Kernel(dependent=True)
    k.checker.predecessor_wait(0)
    touch(k, 1)
    assert len(early(k)) == 1
    k = Kernel(dependent=True)
    k.checker.predecessor_wait(0)
    k.sync(0, 1)
    touch(k, 1)
    assert k.clean()


def test_a_barrier_before_the_wait_is_none_after_it() -> None:
    k = Kernel(dependent=True)
    k.sync(0, 1)
    k.checker.predecessor_wait(0)
    touch(k, 1)
    assert len(early(k)) == 1


@pytest.mark.parametrize("waits", [False, True])
def test_copies_rely_on_what_was_known_when_they_were_issued(waits: bool) -> None:
    k = Kernel(dependent=True)
    if waits:
        k.checker.predecessor_wait(2)
    copy = k.checker.issue(2, Queue.BULK_STORE, k.at())
    k.checker.predecessor_wait(2)
    k.checker.access(copy, memory(WORD), write=True)
    k.checker.finish(copy)
    assert len(early(k)) == (not waits)


def test_other_launches_are_not_asked() -> None:
    k = Kernel()
    touch(k, 3)
    k.checker.predecessor_wait(3)
    assert k.clean()

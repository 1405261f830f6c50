"""Kernels that begin before the one in front of them has ended: L1."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from numpy.typing import NDArray

from schedgen.emulator.emulation import Emulator
from schedgen.emulator.launch.capture import Allocation, Launch, Parameters
from schedgen.emulator.launch.targets import target
from schedgen.emulator.machine.switches import EarlyStart, Switches
from schedgen.emulator.order.findings import Defect, Flaw
from schedgen.emulator.order.footprint import Ranges
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


def test_a_word_of_its_tiles_says_as_much() -> None:
    """Read with ``.acquire``, by a warp of which others hear; other words say nothing. The first
    time a tile is missing.
    """
    words = Ranges(np.array([64]), np.array([72]))
    k = Kernel(dependent=True, followed=words)
    assert [k.checker.predecessor_count(0, memory((64, 4))) for _ in range(3)] == [
        False,
        True,
        True,
    ]
    touch(k, 0)
    k.sync(0, 1)
    touch(k, 1, write=True)
    assert k.clean()
    for reads in ([(72, 4), (72, 4)], [(64, 4)]):
        k = Kernel(dependent=True, followed=words)
        for word in reads:
            assert k.checker.predecessor_count(0, memory(word)) == (word == (72, 4))
        touch(k, 0)
        (found,) = early(k)
        assert ("goes on before all are there" in found.needs) == (len(reads) == 1)


def test_what_the_kernel_in_front_released_is_such_a_word() -> None:
    first = Kernel()
    first.checker.generic(0, memory((256, 8)), write=True, line=first.at())
    word, at = memory((64, 4)), first.at()
    first.checker.generic(0, word, write=True, line=at, atomic=True, release=True)
    before = first.checker.footprint()
    assert before.released.meet(word)
    assert not before.released.meet(memory((256, 8)))
    for acquire in (True, False):
        k = Kernel(dependent=True, before=before)
        if acquire:
            assert k.checker.predecessor_count(1, word)  # a flag, not a count
        touch(k, 1, word=(256, 8))
        assert bool(early(k)) != acquire


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


# -- launches one after the other -----------------------------------------------------------------


KEPT: list[object] = []
"""What launches point to."""


def launch(ptx: str, out: NDArray[np.int32], *, early: bool) -> Launch:
    address = ctypes.c_uint64(out.ctypes.data)
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(address))
    KEPT.append((address, pointers))
    return Launch(
        "k", (1, 1, 1), (32, 1, 1), (1, 1, 1), 0, ptx, target("sm_90a", 1),
        (Allocation(out.ctypes.data, out.nbytes, "out"),), {6: b"\1"} if early else {},
        Parameters(ctypes.addressof(pointers)),
    )  # fmt: skip


def kernel(*, before: str = "", after: str = "") -> str:
    return f""".version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{{
.reg .b64 %rd<2>; .reg .b32 %r<2>;
ld.param.b64 %rd1, [out];
{before}
st.global.b32 [%rd1], 7;
{after}
ret;
}}
"""


TRIGGER, WAIT = "griddepcontrol.launch_dependents;", "griddepcontrol.wait;"
LOADS = "ld.global.b32 %r1, [%rd1{0}];"


@pytest.mark.parametrize(
    ("second", "clean"),
    [
        ("st.global.b32 [%rd1+8], 1;", True),
        ("st.global.b32 [%rd1+4], 1;", False),  # the first launch reads it
        ("st.global.b8 [%rd1+7], 1;", False),
        (LOADS.format("+4"), True),
        (LOADS.format("+8"), True),
        (LOADS.format(""), False),
        ("atom.global.add.u32 %r1, [%rd1], 1;", False),
        ("atom.global.add.u32 %r1, [%rd1+12], 1;", False),  # added to by the first launch
    ],
)
def test_only_what_the_launch_in_front_did_counts(second: str, clean: bool) -> None:
    """The first launch writes word 0, reads word 1 and adds to word 3."""
    emulator = Emulator(races="report")
    out = np.zeros(4, np.int32)
    first = f"{TRIGGER} {LOADS.format('+4')} red.global.add.u32 [%rd1+12], 1;"
    emulator.run(launch(kernel(before=first), out, early=False))
    emulator.run(launch(kernel(before=f"{second} {WAIT}"), out, early=True))
    assert [report.clean for report in emulator.reports] == [True, clean]


@pytest.mark.parametrize("trigger", [True, False])
def test_a_launch_that_began_early_hands_on_what_is_in_front(trigger: bool) -> None:
    """The third one may begin before the first has ended, if the second lets it."""
    emulator = Emulator(races="report")
    out, other = np.zeros(4, np.int32), np.zeros(4, np.int32)
    emulator.run(launch(kernel(before=TRIGGER), out, early=False))
    early = TRIGGER if trigger else ""
    emulator.run(launch(kernel(before=early), other, early=True))
    emulator.run(launch(kernel(before=LOADS.format("")), out, early=True))
    assert [report.clean for report in emulator.reports] == [True, True, not trigger]


@pytest.mark.parametrize(
    ("first", "waits", "reading", "clean"),
    [
        ("griddepcontrol.launch_dependents;", "", EarlyStart.SEEN, False),
        ("griddepcontrol.launch_dependents;", "griddepcontrol.wait;", EarlyStart.SEEN, True),
        ("", "", EarlyStart.SEEN, True),
        ("", "", EarlyStart.ANY, False),
        ("", "griddepcontrol.wait;", EarlyStart.ANY, True),
    ],
)
def test_s25_behind_which_kernels(first: str, waits: str, reading: EarlyStart, clean: bool) -> None:
    """The first launch has no attribute, so nobody asks it to wait."""
    emulator = Emulator(races="report", switches=Switches(early_start=reading))
    out = np.zeros(1, np.int32)
    emulator.run(launch(kernel(before=first), out, early=False))
    emulator.run(launch(kernel(before=waits), out, early=True))
    assert [report.clean for report in emulator.reports] == [True, clean]
    assert clean or "S25 early_start" in emulator.reports[-1].text

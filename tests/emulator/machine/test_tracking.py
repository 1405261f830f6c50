"""What the machine tells a race checker."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedgen.emulator.machine.policies import Adversarial
from schedgen.emulator.order.tracker import Cells, Queue, Space
from tests.emulator.machine.running import aligned, run
from tests.emulator.machine.test_mbarriers import init, wait


class Recorder:
    """Notes every call as (method, arguments)."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **named: Any) -> int:
            self.calls.append((name, arguments, named))
            return len(self.calls)

        return call

    def of(self, *names: str) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
        """The calls of some methods, in order."""
        return [call for call in self.calls if call[0] in names]


def record(text: str, **options: Any) -> Recorder:
    recorder: Any = Recorder()
    run(text, tracker=recorder, **options)
    return recorder


def test_ordinary_accesses() -> None:
    recorder = record("""
        setp.lt.u32 %p1, %r39, 2; shl.b32 %r1, %r39, 3; mov.b32 %r2, sm; add.s32 %r1, %r1, %r2;
        @%p1 st.shared.v2.b32 [%r1+16], {%r39, %r39};
        ld.relaxed.gpu.global.b32 %r3, [%rd39];
        atom.acq_rel.gpu.global.add.u32 %r3, [%rd39], 1;""")
    store, load, atomic = recorder.of("generic")
    cells: Cells = store[1][1]
    assert (cells.space, cells.cta, cells.width) == (Space.SHARED, 0, 8)
    assert np.asarray(cells.index).tolist() == [1024 + 16, 1024 + 24]
    assert store[2]["write"]
    assert not store[2]["atomic"]
    assert not load[2]["write"]
    assert load[2]["atomic"]
    assert load[1][1].space is Space.GLOBAL
    assert atomic[2] | {"line": 0} == {
        "write": True, "line": 0, "atomic": True, "acquire": True, "release": True, "adds": True,
        "same": False, "changed": None,
    }  # fmt: skip


def test_writes_of_what_is_there() -> None:
    recorder = record("""
        setp.lt.u32 %p1, %r39, 2; shl.b32 %r1, %r39, 3; mov.b32 %r2, sm; add.s32 %r1, %r1, %r2;
        mov.b32 %r3, 7; mov.b32 %r4, 8;
        @%p1 st.shared.b32 [%r1], %r3;
        @%p1 st.shared.b32 [%r1], %r3;
        @%p1 st.shared.b16 [%r1], 7;
        @%p1 st.shared.v2.b32 [%r1], {%r3, %r4};""")
    calls = recorder.of("generic")
    assert [call[2]["same"] for call in calls] == [False, True, True, False]
    lanes = [calls[at][2]["changed"]().tolist() for at in (1, 3)]
    assert lanes == [[], [*range(1028, 1032), *range(1036, 1040)]]


def test_parameters_and_local_memory_are_nobody_elses() -> None:
    assert not record("""
        .local .b8 depot[16]; mov.b64 %rd1, depot; st.local.b32 [%rd1], %r39;
        ld.local.b32 %r1, [%rd1];""").of("generic")  # fmt: skip


def test_named_barriers_signal_before_anybody_leaves() -> None:
    calls = record("bar.sync 3; bar.sync 3;", threads=64).of("signal", "leave")
    assert [(name, a[0], a[1], a[2]) for name, a, _ in calls[:4]] == [
        ("signal", 0, (0, 3), 0),
        ("signal", 1, (0, 3), 0),
        ("leave", 1, (0, 3), 0),
        ("signal", 1, (0, 3), 1),
    ]
    assert sorted((name, a[2]) for name, a, _ in calls) == [
        *[("leave", 0)] * 2, *[("leave", 1)] * 2, *[("signal", 0)] * 2, *[("signal", 1)] * 2,
    ]  # fmt: skip


def test_cluster_barriers() -> None:
    calls = record("barrier.cluster.arrive.relaxed; barrier.cluster.wait;", ctas=4, cluster=2).of(
        "signal", "leave"
    )
    assert {(a[0], a[1]) for _, a, _ in calls} == {
        (0, (0, -1)),
        (1, (0, -1)),
        (2, (1, -1)),
        (3, (1, -1)),
    }
    assert all(named["cluster"] for _, _, named in calls)
    assert all(named["relaxed"] for name, _, named in calls if name == "signal")


def test_mbarriers_with_their_phases() -> None:
    calls = record(f"""{init(1)}
        @%p11 mbarrier.arrive.release.cluster.shared::cta.b64 _, [%r20]; {wait("0")}
        @%p11 mbarrier.arrive.shared.b64 _, [%r20]; {wait("1")} {wait("1")}
        @%p11 mbarrier.inval.shared.b64 [%r20];""").of(
        "barrier_init", "barrier_invalidate", "arrive", "wait"
    )
    assert [(name, *a[1:3]) for name, a, _ in calls if name in ("arrive", "wait")] == [
        ("arrive", (0, 1024), 0),
        ("wait", (0, 1024), 0),
        ("arrive", (0, 1024), 1),
        ("wait", (0, 1024), 1),
        ("wait", (0, 1024), 1),
    ]
    assert [name for name, _, _ in (calls[0], calls[-1])] == ["barrier_init", "barrier_invalidate"]
    assert [named["cluster"] for name, _, named in calls if name == "arrive"] == [True, False]


def test_a_wait_for_the_phase_before_the_first_orders_nothing() -> None:
    assert not record(f"{init(1)} {wait('1')}").of("wait")


def test_fences() -> None:
    calls = record("""
        fence.proxy.async; fence.proxy.async.shared::cta; fence.proxy.async.global;
        fence.mbarrier_init.release.cluster; fence.acq_rel.cta; fence.sc.cluster; membar.gl;
        fence.acquire.sync_restrict::shared::cluster.cluster;
        fence.release.sync_restrict::shared::cta.cluster;
        fence.proxy.tensormap::generic.release.gpu;
        fence.proxy.tensormap::generic.acquire.gpu [%rd38], 128;""").calls  # fmt: skip
    assert [(name, *a[1:], *named.values()) for name, a, named in calls] == [
        ("proxy_fence", None),
        ("proxy_fence", Space.SHARED),
        ("proxy_fence", Space.GLOBAL),
        ("barrier_init_fence",),
        ("thread_fence", False, False),
        ("thread_fence", True, False),
        ("thread_fence", True, True),
        ("thread_fence", True, False),
        ("thread_fence", True, False),
        ("map_release",),
        ("map_acquire", calls[-1][1][1]),
    ]


def test_cp_async_from_issue_to_wait() -> None:
    recorder = record(
        """mov.b32 %r20, sm; shl.b32 %r21, %r39, 4; add.s32 %r21, %r21, %r20;
        mul.wide.u32 %rd1, %r39, 16; add.s64 %rd2, %rd39, %rd1;
        cp.async.cg.shared.global [%r21], [%rd2], 16;
        cp.async.commit_group; cp.async.wait_group 0;""",
        source=aligned(np.zeros(128, np.int32)),
        policy=Adversarial(0, delay="late"),
    )
    names = [name for name, _, _ in recorder.calls]
    assert names == ["issue", "group_commit", "access", "access", "finish", "group_wait"]
    assert recorder.calls[0][1][1] is Queue.CP_ASYNC
    read, write = recorder.of("access")
    assert (read[1][1].space, read[2]["write"]) == (Space.GLOBAL, False)
    assert (write[1][1].space, write[2]["write"]) == (Space.SHARED, True)

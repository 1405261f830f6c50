"""Bulk copies without tensor maps, and clusterlaunchcontrol."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from schedgen.emulator.machine.lanes import EmulationError
from tests.emulator.instructions.launches import POLICIES, Order, aligned, launch

SETUP = """
mov.u32 %r0, smem; add.u32 %r1, %r0, 32768; mov.u32 %r2, %tid.x; setp.eq.u32 %p0, %r2, 0;
mov.u32 %r3, %cluster_ctarank;
@%p0 mbarrier.init.shared::cta.b64 [%r1], 1;
@%p0 fence.mbarrier_init.release.cluster;
barrier.cluster.arrive; barrier.cluster.wait;
ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [c]; mov.b32 %r4, 256;
"""
EXPECT = "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r4;"
WAIT = """
W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r1], 0;
@!%p1 bra W;
"""
IN = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r0], [%rd0], %r4, [%r1]"
FINISH = "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; cp.async.bulk.wait_group 0;"


def numbers(kind: Any = np.uint32) -> dict[str, NDArray[Any]]:
    a, c = aligned((256 // np.dtype(kind).itemsize,), kind), aligned((4096,), np.uint8)
    a[...] = np.arange(len(a)).astype(kind)
    return {"a": a, "c": c}


@pytest.mark.parametrize("policy", POLICIES)
def test_there_and_back(policy: Order) -> None:
    arrays = numbers()
    text = f"""{SETUP} {EXPECT} @%p0 {IN}; {WAIT}
    @%p0 cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%rd1], [%r0], %r4, %rd9;
    {FINISH}"""
    launch(text, arrays, policy=policy)
    assert np.array_equal(arrays["c"][:256], arrays["a"].view(np.uint8))


def test_a_mask_chooses_bytes() -> None:
    arrays = numbers()
    text = f"""{SETUP} {EXPECT} @%p0 {IN}; {WAIT} mov.b16 %rs0, 0x00F1;
    @%p0 cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd1], [%r0], %r4, %rs0; {FINISH}"""
    launch(text, arrays)
    found = arrays["c"][:256].reshape(-1, 16)
    source = arrays["a"].view(np.uint8).reshape(-1, 16)
    chosen = [0, 4, 5, 6, 7]
    assert np.array_equal(found[:, chosen], source[:, chosen])
    assert not np.delete(found, chosen, axis=1).any()


@pytest.mark.parametrize("policy", POLICIES)
def test_from_one_cta_to_the_other(policy: Order) -> None:
    arrays = numbers()
    text = f"""{SETUP} setp.eq.u32 %p2, %r3, 0; and.pred %p3, %p2, %p0;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r4;
    @%p3 {IN};
    @!%p2 bra OTHER;
    {WAIT}
    mov.b32 %r6, 1; mapa.shared::cluster.u32 %r7, %r0, %r6; mapa.shared::cluster.u32 %r8, %r1, %r6;
    @%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes \
[%r7], [%r0], %r4, [%r8];
    bra END;
    OTHER: {WAIT.replace("W", "V")}
    @%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r0], %r4; {FINISH}
    END: barrier.cluster.arrive; barrier.cluster.wait;"""
    launch(text, arrays, grid=2, cluster=2, policy=policy)
    assert np.array_equal(arrays["c"][:256], arrays["a"].view(np.uint8))


@pytest.mark.parametrize(
    ("operation", "kind", "factor"),
    [
        ("add.f32", np.float32, 2),
        ("add.noftz.f16", np.float16, 2),
        ("max.s64", np.int64, 1),
        ("and.b64", np.uint64, 1),
    ],
)
def test_reductions(operation: str, kind: Any, factor: int) -> None:
    arrays = numbers(kind)
    arrays["c"][:256] = arrays["a"].view(np.uint8)
    text = f"""{SETUP} {EXPECT} @%p0 {IN}; {WAIT}
    @%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation} [%rd1], [%r0], %r4;
    {FINISH}"""
    launch(text, arrays)
    assert np.array_equal(arrays["c"][:256].view(kind), arrays["a"] * kind(factor))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mov.b32 %r4, 100; @%p0 " + IN, "100 bytes; the size of a bulk copy is a multiple of 16"),
        ("add.u64 %rd0, %rd0, 8; @%p0 " + IN, "is not a multiple of 16 bytes"),
        ("mov.b32 %r4, 512; @%p0 " + IN, "end 256 bytes behind a"),
        ("@%p0 " + IN.replace("[%r0]", "[%r0+8]"), "0x408 is not a multiple of 16"),
        (
            "@%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
            "[%r0], [%r0+1024], %r4, [%r1]",
            r"goes to another CTA of the cluster \(rule T5",
        ),
        ("cp.async.bulk.wait_group %r4", "one integer literal expected"),
        (
            "@%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.and.f16 [%rd1], [%r0], %r4",
            r"\.and does not exist for \.f16",
        ),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        launch(f"{SETUP} {text}; {FINISH}", numbers())


CANCEL = """
mov.u32 %r0, smem; add.u32 %r1, %r0, 64; mov.u32 %r2, %tid.x; setp.eq.u32 %p0, %r2, 0;
ld.param.u64 %rd0, [c]; mov.u32 %r3, %ctaid.x; mov.b32 %r4, 16; mov.b32 %r5, 0; mov.b32 %r6, 1;
@%p0 mbarrier.init.shared::cta.b64 [%r1], 1; bar.sync 0;
NEXT: shl.b32 %r7, %r3, 2; cvt.u64.u32 %rd1, %r7; add.u64 %rd1, %rd0, %rd1;
@%p0 atom.global.add.u32 %r8, [%rd1], %r6;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r4;
@%p0 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 \
[%r0], [%r1];
W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r5;
@!%p1 bra W;
xor.b32 %r5, %r5, 1;
ld.shared.b128 %q0, [%r0];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q0;
@!%p2 bra END;
clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r3, %q0;
clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r10, %r11, %r12, _}, %q0;
fence.proxy.async; bar.sync 0;
bra NEXT;
END:
"""


@pytest.mark.parametrize("policy", POLICIES)
def test_taking_over_clusters_that_have_not_started(policy: Order) -> None:
    arrays = numbers()
    statistics = launch(CANCEL, arrays, grid=12, policy=policy)
    assert (arrays["c"][:48].view(np.uint32) == 1).all()  # each CTA's work is done once
    assert statistics.clusters <= 12


def test_responses_to_a_whole_cluster() -> None:
    arrays = numbers()
    text = """
    mov.u32 %r0, smem; add.u32 %r1, %r0, 64; mov.u32 %r2, %tid.x; setp.eq.u32 %p0, %r2, 0;
    ld.param.u64 %rd0, [c]; mov.b32 %r4, 16; mov.u32 %r3, %cluster_ctarank;
    @%p0 mbarrier.init.shared::cta.b64 [%r1], 1; @%p0 fence.mbarrier_init.release.cluster;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r4;
    barrier.cluster.arrive; barrier.cluster.wait;
    setp.eq.u32 %p2, %r3, 0; and.pred %p2, %p2, %p0;
    @%p2 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes\
.multicast::cluster::all.b128 [%r0], [%r1];
    W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r1], 0;
    @!%p1 bra W;
    ld.shared.b128 %q0, [%r0];
    clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r10, %r11, %r12, _}, %q0;
    mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %rd1, %rd0; @%p0 st.global.b32 [%rd1], %r10;
    barrier.cluster.arrive; barrier.cluster.wait;"""
    statistics = launch(text, arrays, grid=4, cluster=2)
    assert arrays["c"][:8].view(np.uint32).tolist() == [2, 2]
    assert statistics.clusters == 1


def test_errors_name_the_instruction() -> None:
    with pytest.raises(EmulationError, match=r"PTX line \d+: cp.async.bulk.shared::cta.global"):
        launch(f"{SETUP} mov.b32 %r4, 100; @%p0 {IN}; {FINISH}", numbers())

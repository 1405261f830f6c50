"""red.async to another CTA of the cluster."""

from __future__ import annotations

import numpy as np
import pytest

from schedgen.emulator.machine.lanes import EmulationError
from tests.emulator.instructions.launches import POLICIES, Order, aligned, launch


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("operation", "wanted"),
    [
        ("add.u32", 100 + sum(range(32))),
        ("add.s32", 100 + sum(range(32))),
        ("max.s32", 100),
        ("min.u32", 0),
        ("xor.b32", 100),
        ("add.u64", 100 + sum(range(32))),
    ],
)
def test_red_async(policy: Order, operation: str, wanted: int) -> None:
    """All lanes of CTA 0 reduce one word of CTA 1."""
    size = 8 if operation.endswith("64") else 4
    value = "%rd5" if size == 8 else "%r3"
    out = aligned((2,), np.uint64)
    text = f"""mov.u32 %r0, smem; add.u32 %r1, %r0, 64; mov.u32 %r3, %tid.x; mov.b64 %rd6, 100;
    setp.eq.u32 %p0, %r3, 0; mov.u32 %r4, %cluster_ctarank; cvt.u64.u32 %rd5, %r3;
    @%p0 mbarrier.init.shared::cta.b64 [%r1], 1; @%p0 st.shared.b64 [%r0], %rd6;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {32 * size};
    @%p0 fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;
    mov.b32 %r9, 1; mapa.shared::cluster.u32 %r5, %r0, %r9; mapa.shared::cluster.u32 %r6, %r1, %r9;
    setp.ne.u32 %p2, %r4, 0; @%p2 bra WAIT;
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{operation} \
[%r5], {value}, [%r6];
    bra END;
    WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r1], 0;
    @!%p1 bra WAIT;
    ld.shared.b64 %rd7, [%r0]; ld.param.u64 %rd8, [out]; @%p0 st.global.b64 [%rd8], %rd7;
    END: barrier.cluster.arrive; barrier.cluster.wait;"""
    launch(text, {"out": out}, grid=2, cluster=2, target="sm_90a", policy=policy)
    assert out[0] == wanted


def test_red_async_of_global_memory_is_refused() -> None:
    with pytest.raises(EmulationError, match=r"red\.async.*not supported with"):
        launch("red.async.release.gpu.global.add.u32 [%rd1], %r1;", target="sm_90a")

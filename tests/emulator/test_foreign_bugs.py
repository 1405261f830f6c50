"""What the emulator found in kernels of others, as small kernels of our own (docs/emulator.md)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from schedgen.emulator.launch.tensor_map import Element, TensorMap
from schedgen.emulator.launch.tensor_map_bits import encode
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.policies import Adversarial
from schedgen.emulator.machine.switches import Switches, Verdict
from schedgen.emulator.order.checker import Checker
from schedgen.emulator.order.grid import cluster_of
from tests.emulator.instructions.launches import aligned, launch

BLACKWELL = "sm_100a"


def findings(
    text: str,
    threads: int,
    switches: Switches | None = None,
    *,
    target: str = "sm_90a",
    cluster: int = 1,
    **more: Any,
) -> list[str]:
    """Rules of what the race checker finds while asynchronous operations are late."""
    grid = cluster, 1, 1
    checker = Checker(threads // 32, cluster_of(grid, grid), switches=switches)
    launch(
        text, threads=threads, target=target, tracker=checker, switches=switches, grid=cluster,
        policy=lambda: Adversarial(0, "late"), cluster=cluster, **more,
    )  # fmt: skip
    checker.close()
    return [finding.rule for finding in checker.findings]


# -- an accumulator that was read is overwritten without wgmma.fence (W2) --------------------------

D = "{%r100, %r101, %r102, %r103}"
PROMOTED = """
mov.u32 %r0, smem; mov.u32 %r2, %tid.x; setp.ne.u32 %p2, 0, 0; mov.b32 %f1, 0;
fence.proxy.async; bar.sync 0;
and.b32 %r3, %r0, 0x3FFFF; shr.u32 %r3, %r3, 4; cvt.u64.u32 %rd10, %r3;
or.b64 %rd10, %rd10, {strides};
wgmma.fence.sync.aligned;
{product}
mov.b32 %f2, %r100; add.f32 %f1, %f1, %f2;
{fence}
{product}
"""
PRODUCT = f"""wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {D}, %rd10, %rd10, %p2, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"""
STRIDES = (128 >> 4) << 16 | (256 >> 4) << 32


def promoted(fence: str, **more: Any) -> list[str]:
    """A partial sum is added to another one, then the next product begins at zero."""
    fill = "add.u32 %r4, %r4, %r0;" + "".join(
        f"st.shared.b32 [%r4+{512 * i}], 0x3C003C00;" for i in range(4)
    )
    text = f"mov.u32 %r0, smem; mov.u32 %r2, %tid.x; shl.b32 %r4, %r2, 2; {fill}"
    body = PROMOTED.format(strides=STRIDES, product=PRODUCT, fence=fence)
    return findings(text + body, 128, **more)


def test_accumulator_is_read_and_overwritten_without_a_fence() -> None:
    with pytest.raises(EmulationError, match=r"since the last wgmma\.fence.*rule W2"):
        promoted("")
    assert promoted("wgmma.fence.sync.aligned;") == []


def test_a_breach_that_execution_survives_is_a_finding_where_that_is_asked_for() -> None:
    assert set(promoted("", tolerated="W2".__eq__)) == {"W2"}
    with pytest.raises(EmulationError, match="rule W2"):
        promoted("", tolerated="C14".__eq__)


# -- warps of a warpgroup give different numbers of registers (N7) ---------------------------------

UNEQUAL = """
mov.u32 %r2, %tid.x; setp.lt.u32 %p0, %r2, 32;
@%p0 bra A; setmaxnreg.dec.sync.aligned.u32 48; bra E; A: setmaxnreg.dec.sync.aligned.u32 40;
E: mov.b32 %r1, 0;
"""


def test_warpgroup_gives_different_numbers_of_registers() -> None:
    with pytest.raises(EmulationError, match=r"executes \.dec 4[08].*rule N7"):
        findings(UNEQUAL, 128)
    assert set(findings(UNEQUAL, 128, tolerated="N7".__eq__)) == {"N7"}


# -- a tensor map is rewritten while a load reads through it (T13) ---------------------------------

WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra W;"
REWRITTEN = """
mov.u32 %r0, smem; add.u32 %r1, %r0, 8192; mov.u32 %r2, %tid.x; setp.eq.u32 %p0, %r2, 0;
ld.param.u64 %rd0, [map]; mov.b32 %r4, 0; mov.b32 %r5, 1024;
@%p0 mbarrier.init.shared::cta.b64 [%r1], 1; bar.warp.sync -1;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r5;
@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \
[%r0], [%rd0, {{%r4, %r4}}], [%r1];
@%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group.read 0;
{before}
@%p0 tensormap.replace.tile.global_dim.global.b1024.b32 [%rd0], 1, 4;
{behind}
"""


def rewritten(*, drained: bool, **more: Any) -> list[str]:
    """Bulk groups have nothing to do with loads: waiting for them does not drain any."""
    source, map_ = aligned((8, 64), np.uint16), aligned((128,), np.uint8)
    tensor = TensorMap(
        int(source.ctypes.data), Element.F16, (64, 8), (128,), (64, 8), (1, 1)
    )  # fmt: skip
    map_[...] = np.frombuffer(encode(tensor), np.uint8)
    waits = {"before": WAIT, "behind": ""} if drained else {"before": "", "behind": WAIT}
    return findings(REWRITTEN.format(**waits), 32, arrays={"map": map_, "a": source}, **more)


def test_tensor_map_is_rewritten_under_a_load() -> None:
    with pytest.raises(EmulationError, match="rule T13"):
        rewritten(drained=False)
    assert rewritten(drained=True) == []
    assert rewritten(drained=False, tolerated="T13".__eq__) == ["T13"]


# -- a CTA exits while a bulk store reads its shared memory (N9, switch S23) -----------------------

LAST = """
mov.u32 %r0, smem; mov.u32 %r2, %tid.x; setp.eq.u32 %p0, %r2, 0; ld.param.u64 %rd0, [out];
shl.b32 %r3, %r2, 2; add.u32 %r3, %r3, %r0; st.shared.b32 [%r3], %r2;
fence.proxy.async.shared::cta; bar.sync 0;
@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r0], 128;
@%p0 cp.async.bulk.commit_group; {wait}
"""


@pytest.mark.parametrize(
    ("verdict", "wait", "found"),
    [
        (Verdict.WARNING, "", ["N9"]),
        (Verdict.ERROR, "", ["N9"]),
        (Verdict.OFF, "", []),
        (Verdict.ERROR, "@%p0 cp.async.bulk.wait_group.read 1;", ["N9"]),
        (Verdict.ERROR, "@%p0 cp.async.bulk.wait_group.read 0;", []),
    ],
)
def test_exit_under_a_store(verdict: Verdict, wait: str, found: list[str]) -> None:
    out = aligned((32,), np.uint32)
    switches = Switches(store_at_exit=verdict)
    assert findings(LAST.format(wait=wait), 32, switches, arrays={"out": out}) == found


# -- a CTA exits while its own tcgen05.commit has yet to arrive (N9) -------------------------------

COMMITTED = """
mov.u32 %r1, smem; mov.u32 %r2, %tid.x; setp.eq.u32 %p0, %r2, 0;
@%p0 mbarrier.init.shared::cta.b64 [%r1], 1; bar.sync 0;
@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1];
{wait}
"""
LATE = "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra W;"


def test_exit_before_the_own_commit_arrives() -> None:
    early, strict = COMMITTED.format(wait=""), Switches(store_at_exit=Verdict.ERROR)
    assert findings(early, 32, target=BLACKWELL) == ["N9"]
    assert findings(early, 32, Switches(store_at_exit=Verdict.OFF), target=BLACKWELL) == []
    with pytest.raises(EmulationError, match=r"has exited, so that the mbarrier is gone.*rule N9"):
        findings(early, 32, strict, target=BLACKWELL)
    assert findings(early, 32, strict, tolerated="N9".__eq__, target=BLACKWELL) == ["N9"]
    assert findings(COMMITTED.format(wait=LATE), 32, strict, target=BLACKWELL) == []


# -- a CTA exits while another one reads its shared memory (N9) ------------------------------------

READ = """
mov.u32 %r1, smem; mov.u32 %r3, %cluster_ctarank; mov.u32 %r2, %tid.x; st.shared.b32 [%r1], %r3;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
setp.eq.u32 %p1, %r3, 0; @%p1 bra END;
mov.b32 %r4, 0; S: add.s32 %r4, %r4, 1; setp.lt.s32 %p2, %r4, 3000; @%p2 bra S;
mapa.shared::cluster.u32 %r5, %r1, 0; ld.shared::cluster.b32 %r6, [%r5];
END: {stay}
"""
STAY = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


def test_exit_before_another_cta_has_read() -> None:
    with pytest.raises(EmulationError, match="rule N9"):
        findings(READ.format(stay=""), 32, cluster=2)
    found = findings(READ.format(stay=""), 32, cluster=2, tolerated="N9".__eq__)
    assert set(found) == {"N9"}
    assert findings(READ.format(stay=STAY), 32, cluster=2) == []


# -- tensor memory that was released (C12), an address for each lane (C16) -------------------------

LOADED = """
mov.u32 %r0, smem; mov.u32 %r2, %tid.x; mov.b32 %r6, 32;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], %r6; ld.shared.b32 %r8, [%r0];
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r8], {{%r2}}; tcgen05.wait::st.sync.aligned;
shl.b32 %r9, %r2, 16; add.u32 %r9, %r9, %r8;
{before}
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, %r6;
{behind}
"""
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r7}, [ADDRESS]; tcgen05.wait::ld.sync.aligned;"


@pytest.mark.parametrize(
    ("address", "late", "rules"),
    [
        ("%r8", False, set[str]()),
        ("%r8", True, {"C12", "C14"}),
        ("%r9", False, {"C16"}),
    ],
)
def test_loads_of_tensor_memory(address: str, late: bool, rules: set[str]) -> None:
    load = LOAD.replace("ADDRESS", address)
    parts = {"before": "", "behind": load} if late else {"before": load, "behind": ""}
    text = LOADED.format(**parts)
    if rules:
        with pytest.raises(EmulationError, match=r"rule C1[26]"):
            findings(text, 32, target=BLACKWELL)
    found = findings(text, 32, target=BLACKWELL, tolerated={"C12", "C16"}.__contains__)
    assert set(found) == rules


# -- every warp initializes the mbarrier (B2) ------------------------------------------------------

INITIALIZED = """
mov.u32 %r0, smem; elect.sync _|%p0, -1;
@%p0 mbarrier.init.shared::cta.b64 [%r0], 1; bar.sync 0;
mov.u32 %r2, %tid.x; setp.eq.u32 %p1, %r2, 0; @%p1 mbarrier.arrive.shared::cta.b64 _, [%r0];
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r0], 0; @!%p2 bra W;
"""


def test_every_warp_initializes_an_mbarrier() -> None:
    with pytest.raises(EmulationError, match=r"is live; invalidate it first.*rule B2"):
        findings(INITIALIZED, 64)
    assert "B2" in findings(INITIALIZED, 64, tolerated="B2".__eq__)
    assert findings(INITIALIZED, 32) == []

"""A product of one tile per block in PTX: its last stage is not released, and the epilogue has the
memory of the first one. What NVIDIA's `dense_gemm` does, in few lines and with 2 stages."""

from __future__ import annotations

STAGES = 2
STAGE = 8192
"""Bytes of 64 rows of 64 elements."""
A, B = 1024, 1024 + STAGES * STAGE
FULL, EMPTY = 0, 8 * STAGES
DESCRIPTOR = 1 << 62 | 64 << 32 | 1 << 16
"""Rows of 128 bytes, swizzled, groups of 8 of them 1024 bytes apart, K-major."""
ACCUMULATORS = ", ".join(f"%f{n}" for n in range(32))


def wait(number: str, first: int, parity: str, label: str) -> str:
    """Until the phase of iteration ``number`` is complete, or the one before with the other
    parity."""
    return f"""
    and.b32 %slot, {number}, 1;
    shr.u32 %phase, {number}, 1;
    {parity}
    and.b32 %phase, %phase, 1;
    shl.b32 %at, %slot, 3;
    add.u32 %at, %at, %shared;
    add.u32 %at, %at, {first};
{label}:
    mbarrier.try_wait.parity.shared.b64 %done, [%at], %phase;
    @!%done bra {label};"""


_PRODUCT = f"""
    wgmma.fence.sync.aligned;
    mul.lo.u32 %a, %slot, {STAGE};
    add.u32 %a, %a, %shared;
    add.u32 %b, %a, {B};
    add.u32 %a, %a, {A};
    shr.u32 %a, %a, 4;
    shr.u32 %b, %b, 4;
    cvt.u64.u32 %left, %a;
    cvt.u64.u32 %right, %b;
    add.s64 %left, %left, {DESCRIPTOR};
    add.s64 %right, %right, {DESCRIPTOR};
    wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
        {{{ACCUMULATORS}}}, %left, %right, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;"""


def _copy(tensor: str, to: int) -> str:
    return f"""
    mul.lo.u32 %a, %slot, {STAGE};
    add.u32 %a, %a, %shared;
    add.u32 %a, %a, {to};
    @%one cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
        [%a], [{tensor}, {{%i, %i}}], [%at];"""


def _store(at: int) -> str:
    return f"""
    add.u32 %a, %shared, {at};
    @%one cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [c, {{%zero, %zero}}], [%a];"""


_PRODUCER = f"""
PRODUCER:
    elect.sync _|%one, -1;
    mov.u32 %i, 0;
COPY:{wait("%i", EMPTY, "xor.b32 %phase, %phase, 1;", "WAIT_EMPTY")}
    add.u32 %at, %at, {FULL - EMPTY};
    @%one mbarrier.arrive.expect_tx.shared.b64 _, [%at], {2 * STAGE};{_copy("a", A)}{_copy("b", B)}
    add.u32 %i, %i, 1;
    setp.lt.s32 %more, %i, %n;
    @%more bra COPY;
    bra END;"""

_CONSUMER = f"""
    mov.u32 %i, 0;{wait("%i", FULL, "", "WAIT_FIRST")}{_PRODUCT}
    mov.u32 %i, 1;
    setp.ge.s32 %more, %i, %n;
    @%more bra EPILOGUE;
MULTIPLY:{wait("%i", FULL, "", "WAIT_FULL")}{_PRODUCT}
    wgmma.wait_group.sync.aligned 1;
    xor.b32 %slot, %slot, 1;
    shl.b32 %at, %slot, 3;
    add.u32 %at, %at, %shared;
    add.u32 %at, %at, {EMPTY};
    mbarrier.arrive.shared.b64 _, [%at], 1;
    add.u32 %i, %i, 1;
    setp.lt.s32 %more, %i, %n;
    @%more bra MULTIPLY;
EPILOGUE:
    wgmma.wait_group.sync.aligned 0;
    bar.sync 1, 128;
    shl.b32 %at, %tid, 2;
    add.u32 %at, %at, %shared;
    st.shared.f32 [%at+{A}], %f0;
    st.shared.f32 [%at+{A + 512}], %f1;
    fence.proxy.async.shared::cta;
    bar.sync 1, 128;
    setp.ge.u32 %more, %tid, 32;
    @%more bra END;
    elect.sync _|%one, -1;{_store(A)}{_store(A + 512)}
    @%one cp.async.bulk.commit_group;
    @%one cp.async.bulk.wait_group.read 0;"""

PTX = f"""
.version 8.7
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 memory[];
.visible .entry one_tile(
    .param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .align 64 .b8 c[128],
    .param .u32 n
)
.reqntid 160, 1, 1
{{
    .reg .b32 %tid, %n, %i, %slot, %phase, %at, %shared, %a, %b, %zero;
    .reg .b64 %left, %right;
    .reg .pred %done, %one, %more, %first;
    .reg .f32 %f<32>;
    mov.u32 %tid, %tid.x;
    mov.u32 %zero, 0;
    mov.u32 %shared, memory;
    ld.param.u32 %n, [n];
    setp.ne.u32 %first, %tid, 0;
    @%first bra READY;
    mbarrier.init.shared.b64 [%shared+{FULL}], 1;
    mbarrier.init.shared.b64 [%shared+{FULL + 8}], 1;
    mbarrier.init.shared.b64 [%shared+{EMPTY}], 128;
    mbarrier.init.shared.b64 [%shared+{EMPTY + 8}], 128;
READY:
    fence.mbarrier_init.release.cluster;
    bar.sync 0;
    setp.ge.u32 %more, %tid, 128;
    @%more bra PRODUCER;{_CONSUMER}
    bra END;{_PRODUCER}
END:
    ret;
}}
"""

"""Two warpgroups that hand turns of their products to each other at numbered barriers, in PTX.

What flash-attn-4 does on Hopper, in few lines: what a tile has once is loaded behind the first
stage, the first turns have no order, and one warpgroup arrives for itself once.
"""

from __future__ import annotations

from tests.schedgen.lift.one_tile import ACCUMULATORS, DESCRIPTOR, STAGE, STAGES, wait

ONCE, RING = 1024, 1024 + 2 * STAGE
"""Rows of both warpgroups, and the stages."""
FULL, EMPTY, LOADED = 0, 8 * STAGES, 16 * STAGES
THREADS = 256
"""Of both warpgroups; the barrier of one takes as many."""
FIRST = f"bar.arrive 2, {THREADS};"

_PRODUCT = f"""
    wgmma.fence.sync.aligned;
    mul.lo.u32 %b, %slot, {STAGE};
    add.u32 %b, %b, %shared;
    add.u32 %b, %b, {RING};
    shr.u32 %b, %b, 4;
    cvt.u64.u32 %right, %b;
    add.s64 %right, %right, {DESCRIPTOR};
    wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
        {{{ACCUMULATORS}}}, %left, %right, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;"""

_RELEASE = f"""
    wgmma.wait_group.sync.aligned 0;
    shl.b32 %at, %slot, 3;
    add.u32 %at, %at, %shared;
    add.u32 %at, %at, {EMPTY};
    mbarrier.arrive.shared.b64 _, [%at], 1;"""


def _multiply(label: str, full: str, end: str) -> str:
    """Turns until ``end``; the next one may be that."""
    return f"""
    setp.ge.s32 %more, %i, {end};
    @%more bra {label}_DONE;
{label}:{wait("%i", FULL, "", full)}
    bar.sync %own, {THREADS};{_PRODUCT}
    bar.arrive %next, {THREADS};{_RELEASE}
    add.u32 %i, %i, 1;
    setp.lt.s32 %more, %i, {end};
    @%more bra {label};
{label}_DONE:"""


_CONSUMER = f"""
    shr.u32 %group, %tid, 7;
    add.u32 %own, %group, 2;
    sub.u32 %next, 3, %group;
    mul.lo.u32 %a, %group, {STAGE};
    add.u32 %a, %a, %shared;
    add.u32 %a, %a, {ONCE};
    shr.u32 %a, %a, 4;
    cvt.u64.u32 %left, %a;
    add.s64 %left, %left, {DESCRIPTOR};
    setp.ne.u32 %more, %group, 0;
    @%more bra BEGUN;
    {FIRST}
BEGUN:
    add.u32 %at, %shared, {LOADED};
WAIT_ONCE:
    mbarrier.try_wait.parity.shared.b64 %done, [%at], 0;
    @!%done bra WAIT_ONCE;
    mov.u32 %i, 0;{wait("%i", FULL, "", "WAIT_FIRST")}{_PRODUCT}{_RELEASE}
    mov.u32 %i, 1;"""
LOOP = _multiply("MULTIPLY", "WAIT_FULL", "%n")


def copy(tensor: str, to: str) -> str:
    return f"""
    @%one cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
        [{to}], [{tensor}, {{%i, %i}}], [%at];"""


_STAGE = f"""
    add.u32 %at, %at, {FULL - EMPTY};
    @%one mbarrier.arrive.expect_tx.shared.b64 _, [%at], {STAGE};
    mul.lo.u32 %b, %slot, {STAGE};
    add.u32 %b, %b, %shared;
    add.u32 %b, %b, {RING};{copy("b", "%b")}"""

_PRODUCER = f"""
PRODUCER:
    elect.sync _|%one, -1;
    mov.u32 %i, 0;{wait("%i", EMPTY, "xor.b32 %phase, %phase, 1;", "WAIT_EMPTY")}{_STAGE}
    add.u32 %at, %shared, {LOADED};
    @%one mbarrier.arrive.expect_tx.shared.b64 _, [%at], {2 * STAGE};
    add.u32 %a, %shared, {ONCE};{copy("a", "%a")}
    add.u32 %a, %a, {STAGE};{copy("a", "%a")}
    mov.u32 %i, 1;
    setp.ge.s32 %more, %i, %n;
    @%more bra END;
COPY:{wait("%i", EMPTY, "xor.b32 %phase, %phase, 1;", "WAIT_AGAIN")}{_STAGE}
    add.u32 %i, %i, 1;
    setp.lt.s32 %more, %i, %n;
    @%more bra COPY;"""

PTX = f"""
.version 8.7
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 memory[];
.visible .entry turns(
    .param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .u32 n, .param .u32 m
)
.reqntid {THREADS + 32}, 1, 1
{{
    .reg .b32 %tid, %n, %i, %slot, %phase, %at, %shared, %a, %b, %group, %own, %next, %m;
    .reg .b64 %left, %right;
    .reg .pred %done, %one, %more, %first;
    .reg .f32 %f<32>;
    mov.u32 %tid, %tid.x;
    mov.u32 %shared, memory;
    ld.param.u32 %n, [n];
    ld.param.u32 %m, [m];
    max.s32 %m, %m, 0;
    sub.u32 %m, %n, %m;
    setp.ne.u32 %first, %tid, 0;
    @%first bra READY;
    mbarrier.init.shared.b64 [%shared+{FULL}], 1;
    mbarrier.init.shared.b64 [%shared+{FULL + 8}], 1;
    mbarrier.init.shared.b64 [%shared+{EMPTY}], {THREADS};
    mbarrier.init.shared.b64 [%shared+{EMPTY + 8}], {THREADS};
    mbarrier.init.shared.b64 [%shared+{LOADED}], 1;
READY:
    fence.mbarrier_init.release.cluster;
    bar.sync 0;
    setp.ge.u32 %more, %tid, {THREADS};
    @%more bra PRODUCER;{_CONSUMER}{LOOP}
    bra END;{_PRODUCER}
END:
    ret;
}}
"""

DIVIDED = PTX.replace(
    LOOP, _multiply("MULTIPLY", "WAIT_FULL", "%m") + _multiply("AGAIN", "WAIT_AGAIN_FULL", "%n")
)
"""With the loop of products divided: its last m turns are in a loop of their own."""

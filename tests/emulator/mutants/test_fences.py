"""Fences between products of one shape: whether threads touch the accumulators there."""

from __future__ import annotations

import pytest

from schedgen.emulator.machine.switches import Switches, Uninitialized
from tests.emulator.mutants.campaigns import benchmark, campaign, line

PRODUCT = (
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
    "{%f1, %f2, %f3, %f4}, %rd2, %rd3, 1, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;"
)
FENCE, WAIT = "wgmma.fence.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"
START = """.reg .f32 %f<9>; .shared .align 128 .b8 tiles[2304];
mov.b32 %r7, tiles; shr.u32 %r7, %r7, 4; cvt.u64.u32 %rd2, %r7; add.s64 %rd3, %rd2, 128;
or.b64 %rd2, %rd2, 0x1000080000; or.b64 %rd3, %rd3, 0x1000080000;
mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;"""
"""Tiles of 64 x 16 and 8 x 16 elements without a swizzle, whatever is in them."""


def why(between: str) -> str:
    """Why the fence behind ``between`` may go, in front of the second one of two products."""
    text = "\n".join([START, FENCE, PRODUCT, between, FENCE, PRODUCT, WAIT])
    one = campaign(
        text, threads=128, switches=Switches(uninitialized=Uninitialized.WARNING), arch="sm_90a"
    )
    assert one.end(one.mutants[0]).end == "undetected", "the kernel itself is silent"
    second = line(text, FENCE, 1)
    mutant = next(m for m in one.mutants if m.instruction.line == second)
    assert mutant.operator == "wgmma.fence removed"
    return benchmark("emulated_mutants.fences").untouched(one, mutant, [0])


@pytest.mark.parametrize("between", ["mov.b32 %r7, 0;", WAIT])
def test_a_fence_that_nobody_needs(between: str) -> None:
    assert "no thread touches the accumulators" in why(between)


@pytest.mark.parametrize(
    "touches",
    [
        "mov.f32 %f1, 0f00000000;",  # which the emulator lets pass: it depends on nothing
        "mov.f32 %f1, 0f3F800000;",  # which is an error without the fence (W2)
    ],
)
def test_a_fence_behind_an_access_to_an_accumulator(touches: str) -> None:
    assert why(f"{WAIT}\n{touches}") == ""

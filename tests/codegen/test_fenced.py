"""Accesses to registers of products behind `wgmma.fence`, in PTX."""

from __future__ import annotations

import pytest

from schedgen.codegen.fenced import Unfenced, unfenced

FENCE = "wgmma.fence.sync.aligned;"
D = "{" + ", ".join(f"%f{n}" for n in range(4)) + "}"
A = "{" + ", ".join(f"%r{n}" for n in range(4)) + "}"
PRODUCT = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {D}, {A}, %rd0, p, 1, 1, 0;"
SHARED = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {D}, %rd1, %rd0, p, 1, 1, 0, 0;"


def module(*lines: str) -> str:
    head = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry kernel() {
.reg .pred p;
.reg .f32 %f<8>;
.reg .b32 %r<8>;
.reg .b64 %rd<8>;
"""
    return head + "\n".join(lines) + "\nret;\n}\n"


@pytest.mark.parametrize(
    "between",
    ["mov.b32 %r2, %r5;", "mul.f32 %f3, %f3, %f7;", "add.f32 %f6, %f0, %f1;"],
    ids=["A", "D", "read"],
)
def test_access_behind_the_fence(between: str) -> None:
    assert unfenced(module(between, FENCE, PRODUCT)) == ()
    found = unfenced(module(FENCE, between, PRODUCT))
    assert [(one.line, one.product) for one in found] == [(10, 11)]


def test_other_registers_and_products_before() -> None:
    assert unfenced(module(FENCE, "mov.b32 %r5, %r6;", PRODUCT, PRODUCT, SHARED)) == ()
    assert unfenced(module(FENCE, "mov.b32 %r1, %r6;", SHARED)) == ()


def test_back_edge_of_a_loop() -> None:
    """What the end of a turn moves is used by the next one."""
    loop = ("$L:", PRODUCT, *COMPLETE, "mov.b32 %r1, %r5;", "@p bra $L;")
    assert unfenced(module(FENCE, *loop)) == (Unfenced("%r1", 14, 11),)
    assert unfenced(module("$L:", FENCE, *loop[1:])) == ()


def test_branches() -> None:
    """On one way there is no fence; what comes behind a jump is not reached from above."""
    one = ("mov.b32 %r1, %r5;", "@p bra $L;", FENCE, "$L:", PRODUCT)
    assert [found.register for found in unfenced(module(*one))] == ["%r1"]
    jump = ("bra.uni $L;", "$M:", "mov.b32 %r1, %r5;", "ret;", "$L:", PRODUCT)
    assert unfenced(module(FENCE, *jump)) == ()


COMMIT, COMPLETE = (
    "wgmma.commit_group.sync.aligned;",
    (
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;",
    ),
)
BEHIND = "wgmma.wait_group"


def test_registers_of_unfinished_products() -> None:
    move = "mov.b32 %r5, %r1;"
    assert unfenced(module(FENCE, PRODUCT, COMMIT, move)) == (Unfenced("%r1", 12, 10, BEHIND),)
    assert unfenced(module(FENCE, PRODUCT, *COMPLETE, move)) == ()


def test_groups_behind_a_product() -> None:
    """A wait that leaves one group leaves that of the product if none is behind it."""
    wait, move = "wgmma.wait_group.sync.aligned 1;", "mov.b32 %r5, %r1;"
    assert unfenced(module(FENCE, PRODUCT, COMMIT, COMMIT, wait, move)) == ()
    found = unfenced(module(FENCE, PRODUCT, COMMIT, wait, move))
    assert [one.missing for one in found] == [BEHIND]


def test_ways_with_fewer_groups() -> None:
    """The group that stands for a product is committed on one of two ways."""
    wait, move = "wgmma.wait_group.sync.aligned 1;", "mov.b32 %r5, %r1;"
    lines = (FENCE, PRODUCT, COMMIT, "@p bra $L;", COMMIT, "$L:", wait, move)
    assert [one.register for one in unfenced(module(*lines))] == ["%r1"]

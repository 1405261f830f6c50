"""Exchange between lanes, against the pseudocode of the ISA lane by lane."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedgen.emulator.instructions.warp_level import POISON
from schedgen.emulator.machine.lanes import EmulationError
from tests.emulator.instructions.execution import execute, lanes, signed

VALUES = lanes([(7 * lane + 3) % 101 for lane in range(32)], 32)
MASKS = [0xFFFFFFFF, 0x0000FFFF, 0x0F0F00F0, 0x80000000]


def bits(mask: int) -> np.ndarray:
    return np.array([mask >> lane & 1 for lane in range(32)], np.bool_)


def source(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """PTX ISA 9.7.9.6."""
    b, clamp, segment = b & 31, c & 31, c >> 8 & 31
    first, last = lane & segment, lane & segment | clamp & ~segment & 31
    match mode:
        case "up":
            j, inside = lane - b, lane - b >= last
        case "down":
            j, inside = lane + b, lane + b <= last
        case "bfly":
            j, inside = lane ^ b, lane ^ b <= last
        case _:
            j = first | b & ~segment & 31
            inside = j <= last
    return (j if inside else lane), inside


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 40), st.sampled_from([0x1F, 0, 0x1C1F, 0x1800, 0x181F, 0x100F]), st.booleans()
)
def test_shuffles(b: int, c: int, immediate: bool) -> None:
    for mode in ("up", "down", "bfly", "idx"):
        operands = f"{b}, {c}" if immediate else "%r2, %r3"
        text = f"shfl.sync.{mode}.b32 %r0|%p0, %r1, {operands}, -1;"
        found = execute(text, r1=VALUES, r2=lanes([b], 32), r3=lanes([c], 32))
        wanted = [source(mode, lane, b, c) for lane in range(32)]
        assert found["r0"].tolist() == [int(VALUES[j]) for j, _ in wanted]
        assert found["p0"].tolist() == [inside for _, inside in wanted]


def test_shuffle_with_another_source_per_lane() -> None:
    b = lanes([(5 * lane) % 32 for lane in range(32)], 32)
    found = execute("shfl.sync.idx.b32 %r0, %r1, %r2, 31, -1;", r1=VALUES, r2=b)["r0"]
    assert np.array_equal(found, VALUES[b])


def test_shuffle_of_some_lanes() -> None:
    active = bits(0xFFFF)
    found = execute("shfl.sync.down.b32 %r0, %r1, 8, 31, 0xffff;", active=active, r1=VALUES)["r0"]
    assert np.array_equal(found[:8], VALUES[8:16])
    assert found[8:16].tolist() == [POISON] * 8  # undefined: their sources take no part
    assert found[16:].tolist() == [0] * 16
    # Each half with its own mask, as one instruction.
    masks = lanes([0xFFFF if lane < 16 else 0xFFFF0000 for lane in range(32)], 32)
    found = execute("shfl.sync.bfly.b32 %r0, %r1, 16, 31, %r2;", r1=VALUES, r2=masks)["r0"]
    assert found.tolist() == [POISON] * 32
    found = execute("shfl.sync.bfly.b32 %r0, %r1, 8, 31, %r2;", r1=VALUES, r2=masks)["r0"]
    assert np.array_equal(found, VALUES[np.arange(32) ^ 8])


@pytest.mark.parametrize("mask", MASKS)
def test_votes(mask: int) -> None:
    active = bits(mask)
    for predicate in (np.arange(32) % 3 == 0, np.ones(32, np.bool_), np.zeros(32, np.bool_)):
        seen = predicate[active]
        given_: dict[str, Any] = {"active": active, "p1": predicate, "r1": lanes([mask], 32)}
        for operand in (str(mask), "%r1"):
            text = "".join(
                f"vote.sync.{mode}.pred %p{n}, %p1, {operand};"
                for n, mode in ((2, "all"), (3, "any"), (4, "uni"))
            )
            found = execute(text + f"vote.sync.ballot.b32 %r0, !%p1, {operand};", **given_)
            wanted = {"p2": seen.all(), "p3": seen.any(), "p4": seen.all() or not seen.any()}
            for name, verdict in wanted.items():
                assert found[name].tolist() == [bool(verdict and a) for a in active]
            ballot = sum(1 << int(lane) for lane in np.flatnonzero(~predicate & active))
            assert found["r0"].tolist() == [ballot if a else 0 for a in active]


def test_votes_of_two_groups() -> None:
    masks = lanes([0xFFFF if lane < 16 else 0xFFFF0000 for lane in range(32)], 32)
    predicate = np.arange(32) < 16
    text = "vote.sync.all.pred %p0, %p1, %r1; vote.sync.ballot.b32 %r0, %p1, %r1;"
    found = execute(text, p1=predicate, r1=masks)
    assert found["p0"].tolist() == [True] * 16 + [False] * 16
    assert found["r0"].tolist() == [0xFFFF] * 16 + [0] * 16


def test_matches() -> None:
    active = bits(0xFFFFFF)
    a = lanes([lane % 3 for lane in range(32)], 64)
    found = execute("match.any.sync.b64 %r0, %rd1, 0xffffff;", active=active, rd1=a)["r0"]
    for lane in range(24):
        assert found[lane] == sum(1 << other for other in range(24) if other % 3 == lane % 3)
    text = "match.all.sync.b32 %r0|%p0, %r1, 0xffffff; match.all.sync.b32 %r2|_, %r3, 0xffffff;"
    found = execute(text, active=active, r1=lanes([5], 32), r3=VALUES)
    assert found["r0"].tolist() == [0xFFFFFF] * 24 + [0] * 8
    assert found["p0"].tolist() == [True] * 24 + [False] * 8
    assert found["r2"].tolist() == [0] * 32


REDUCTIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, mask: int) -> None:
    a = np.random.default_rng(1).integers(0, 1 << 32, 32, np.uint32)
    active = bits(mask)
    for type_ in ("b32",) if name in ("and", "or", "xor") else ("u32", "s32"):
        values = [signed(v, 32) if type_ == "s32" else v for v in a[active].tolist()]
        text = f"redux.sync.{name}.{type_} %r0, %r1, {mask};"
        found = execute(text, active=active, r1=a)["r0"]
        wanted = reduce(REDUCTIONS[name], values) & 0xFFFFFFFF
        assert found.tolist() == [wanted if on else 0 for on in active]


def test_reductions_of_floats() -> None:
    def reduced(name: str, values: list[float]) -> int:
        a = np.resize(np.array(values, np.float32), 32)
        return int(execute(f"redux.sync.{name}.f32 %f0, %f1, -1;", f1=a)["f0"][0])

    nan, inf = float("nan"), float("inf")
    assert reduced("max", [1, -3, 2, nan]) == 0x40000000
    assert reduced("max.abs", [1, -3, 2]) == 0x40400000
    assert reduced("min", [1, -3, -inf]) == 0xFF800000
    assert reduced("min.NaN", [1, -3, nan]) == 0x7FFFFFFF
    assert reduced("min", [nan]) == 0x7FFFFFFF
    assert reduced("min", [0.0, -0.0]) == 0x80000000
    assert reduced("max", [-0.0, 0.0]) == 0
    assert reduced("max", [-0.0]) == 0x80000000


def test_who_executes() -> None:
    active = bits(0x00F0_0A00)
    found = execute("activemask.b32 %r0; elect.sync %r2|%p0, 0xf00a00;", active=active)
    assert found["r0"].tolist() == [0x00F0_0A00 if on else 0 for on in active]
    assert found["p0"].tolist() == [lane == 9 for lane in range(32)]
    assert found["r2"].tolist() == [9 if on else 0 for on in active]
    found = execute("elect.sync _|%p0, -1;")
    assert found["p0"].tolist() == [lane == 0 for lane in range(32)]
    masks = lanes([0xFF if lane < 8 else 0xFFFFFF00 for lane in range(32)], 32)
    found = execute("elect.sync %r2|%p0, %r1;", r1=masks)
    assert np.flatnonzero(found["p0"]).tolist() == [0, 8]
    assert found["r2"].tolist() == [0] * 8 + [8] * 24


@pytest.mark.parametrize(
    "text",
    [
        "shfl.sync.idx.b32 %r0, %r1, 0, 31, 0xffff;",
        "vote.sync.any.pred %p0, %p1, 1;",
        "elect.sync _|%p0, 0xfffffffe;",
    ],
)
def test_a_lane_outside_of_its_mask(text: str) -> None:
    with pytest.raises(EmulationError, match="not in its member mask"):
        execute(text)


@pytest.mark.parametrize(
    "text",
    [
        "shfl.sync.idx.b64 %rd0, %rd1, 0, 31, -1;",
        "shfl.sync.b32 %r0, %r1, 0, 31, -1;",
        "vote.sync.none.pred %p0, %p1, -1;",
        "vote.sync.ballot.pred %p0, %p1, -1;",
        "redux.sync.and.u32 %r0, %r1, -1;",
        "redux.sync.add.f32 %f0, %f1, -1;",
        "redux.sync.max.NaN.u32 %r0, %r1, -1;",
        "match.any.sync.b32 %r0|%p0, %r1, -1;",
        "elect.sync %r0, -1;",
    ],
)
def test_forms_that_do_not_exist(text: str) -> None:
    with pytest.raises(EmulationError):
        execute(text)

"""mov: values, vectors, special registers and symbols."""

from __future__ import annotations

import numpy as np
import pytest

from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.ptx.errors import PtxError
from tests.emulator.instructions.execution import execute, lanes


def test_packing_and_unpacking() -> None:
    random = np.random.default_rng(0)
    words = random.integers(0, 1 << 64, 32, np.uint64)
    found = execute("mov.b64 {%r1, %r2}, %rd1; mov.b64 %rd0, {%r1, %r2};", rd1=words)
    assert found["r1"].tolist() == [word & 0xFFFFFFFF for word in words.tolist()]
    assert found["r2"].tolist() == [word >> 32 for word in words.tolist()]
    assert np.array_equal(found["rd0"], words)
    found = execute(
        "mov.b64 {%rs1, %rs2, %rs3, %rs4}, %rd1; mov.b64 %rd0, {%rs4, %rs3, %rs2, %rs1};", rd1=words
    )
    assert found["rs3"].tolist() == [word >> 32 & 0xFFFF for word in words.tolist()]
    assert np.array_equal(
        found["rd0"].view(np.uint16).reshape(32, 4)[:, ::-1].ravel(), words.view(np.uint16)
    )
    found = execute("mov.b64 {_, %r1}, %rd1; mov.b64 {%r2, _}, %rd1;", rd1=words)
    assert np.array_equal(found["r1"], words.view(np.uint32)[1::2])
    assert np.array_equal(found["r2"], words.view(np.uint32)[::2])


def test_small_vectors() -> None:
    words = lanes([0x04030201, 0xFFFEFDFC], 32)
    found = execute("mov.b32 {%rs1, %rs2}, %r1; mov.b32 %r0, {%rs2, %rs1};", r1=words)
    assert found["r0"].tolist()[:2] == [0x02010403, 0xFDFCFFFE]
    found = execute(
        "mov.b32 {%rb1, %rb2, %rb3, %rb4}, %r1; mov.b32 %r0, {%rb4, %rb3, %rb2, %rb1};", r1=words
    )
    assert found["r0"].tolist()[:2] == [0x01020304, 0xFCFDFEFF]
    found = execute(
        "mov.b16 {%rb1, %rb2}, %rs1; mov.b16 %rs0, {%rb2, %rb1};", rs1=lanes([0x1234], 16)
    )
    assert found["rs0"][0] == 0x3412


def test_128_bits() -> None:
    a, b = lanes(range(32), 64), lanes([1 << 40], 64)
    text = "mov.b128 %rq1, {%rd1, %rd2}; mov.b128 %rq2, %rq1; mov.b128 {%rd3, %rd4}, %rq2;"
    found = execute(text, rd1=a, rd2=b)
    assert np.array_equal(found["rd3"], a)
    assert np.array_equal(found["rd4"], b)
    found = execute(
        "mov.b128 %rq1, {%r1, %r2, %r3, %r4}; mov.b128 {%r5, %r6, %r7, %r8}, %rq1;",
        r1=lanes([1], 32),
        r2=lanes([2], 32),
        r3=lanes([3], 32),
        r4=lanes([4], 32),
    )
    assert [int(found[f"r{n}"][5]) for n in (5, 6, 7, 8)] == [1, 2, 3, 4]
    active = np.arange(32) < 4
    found = execute("mov.b128 %rq0, {%rd1, %rd2};", active=active, rd1=a, rd2=b)
    assert found["rq0"][:, 1].tolist() == [1 << 40] * 4 + [0] * 28


def test_parts_of_a_wide_register_can_be_taken_apart() -> None:
    """The halves of a 128-bit register, as another instruction may leave them, need not be
    contiguous."""
    text = "mov.b128 {%rd1, %rd2}, %rq1; mov.b64 {%r1, %r2}, %rd2; mov.b64 {%rs1, _, _, _}, %rd2;"
    words = np.arange(64, dtype=np.uint64).reshape(32, 2) << np.uint64(33)
    found = execute(text, rq1=words)
    assert found["r2"].tolist() == [2 * (2 * lane + 1) for lane in range(32)]


def test_constants_and_special_registers() -> None:
    found = execute(
        "mov.b32 %r0, 0f3F800000; mov.f32 %f0, 0f40000000; mov.b64 %rd0, -1; mov.pred %p0, -1;"
        "mov.pred %p1, 0; mov.u32 %r1, %laneid; mov.u64 %rd1, %clock64; mov.u32 %r2, buffer;"
        "mov.b64 %rd2, buffer+4; mov.f64 %fd0, 0d3FF8000000000000; mov.b16 %rs0, 7;"
    )
    assert found["r0"][0] == 0x3F800000
    assert found["f0"].view(np.float32)[0] == 2
    assert found["rd0"][0] == 2**64 - 1
    assert found["p0"].all()
    assert not found["p1"].any()
    assert found["r1"].tolist() == list(range(32))
    assert found["rd1"][0] == 1 << 40
    assert found["r2"][0] == 0x1000000 + 64  # the CTA's window and the offset in it
    assert found["rd2"][0] == 0x1000000 + 68
    assert found["fd0"].view(np.float64)[0] == 1.5
    assert found["rs0"][0] == 7


def test_masked() -> None:
    active = np.arange(32) % 2 == 0
    found = execute(
        "mov.b64 {%r0, %r2}, %rd1;", active=active, r0=lanes([5], 32), rd1=lanes([9], 64)
    )
    assert found["r0"].tolist() == [9, 5] * 16
    assert found["r2"].tolist() == [0] * 32


@pytest.mark.parametrize(
    "text",
    [
        "mov.b32 {%r1, %r2}, %rd1;",
        "mov.b64 %rd0, {%r1, %r2, %r3};",
        "mov.b64 %rd0, {%rs1, %rs2};",
        "mov.u64 %rd0, {%r1, %r2};",
        "mov.b64 %r0, %rd1;",
        "mov.b32 %r0, %p1;",
        "mov.ftz.f32 %f0, %f1;",
    ],
)
def test_forms_that_do_not_exist(text: str) -> None:
    with pytest.raises((EmulationError, PtxError)):
        execute(text)

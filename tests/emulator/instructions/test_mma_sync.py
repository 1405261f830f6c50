"""mma.sync against integer sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from schedgen.emulator.layouts.formats import from_float32, to_float32
from schedgen.emulator.machine.lanes import EmulationError
from tests.emulator.instructions.launches import aligned, launch
from tests.emulator.instructions.matrices import codes

T = np.arange(32)


def names(first: int, count: int) -> str:
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def fragment(matrix: NDArray[Any], halves: int, bits: int) -> NDArray[np.uint32]:
    """(32, registers) by the figures of the ISA: row t/4 (+ 8), elements from q (t mod 4) on."""
    q = 32 // bits
    columns: list[NDArray[np.uint32]] = []
    for first in range(0, matrix.shape[1], 4 * q):
        for half in range(halves):
            rows = matrix[T // 4 + 8 * half]
            at = first + q * (T % 4)
            word = np.zeros(32, np.uint32)
            for i in range(q):
                word |= rows[T, at + i].astype(np.uint32) << np.uint32(bits * i)
            columns.append(word)
    return np.stack(columns, axis=1)


@pytest.mark.parametrize(
    ("d", "a", "b", "k"),
    [
        ("f32", "f16", "f16", 8),
        ("f32", "bf16", "bf16", 16),
        ("f16", "f16", "f16", 16),
        ("f32", "tf32", "tf32", 4),
        ("f32", "tf32", "tf32", 8),
        ("f32", "e4m3", "e5m2", 32),
        ("s32", "u8", "s8", 32),
        ("s32", "s8", "s8", 16),
    ],
)
def test_all_types(d: str, a: str, b: str, k: int) -> None:
    random = np.random.default_rng(0)
    left, right = random.integers(0, 4, (16, k)), random.integers(-3, 4, (8, k))
    if b == "u8":
        right = abs(right)
    old = random.integers(-9, 9, (16, 8))
    bits = 8 * codes(left, a).dtype.itemsize
    held_a = fragment(codes(left, a), 2, bits)
    held_b = fragment(codes(right, b), 1, bits)
    row = T[:, None] // 4 + np.array([0, 0, 8, 8])
    column = 2 * (T[:, None] % 4) + np.array([0, 1, 0, 1])
    kind = np.int32 if d == "s32" else np.float32
    words = old[row, column].astype(kind).view(np.uint32)
    if d == "f16":
        each = from_float32(old[row, column].astype(np.float32), "f16").astype(np.uint32)
        words = each[:, ::2] | each[:, 1::2] << np.uint32(16)
    counts = held_a.shape[1], held_b.shape[1], words.shape[1]
    data = aligned((32, sum(counts)), np.uint32)
    data[...] = np.concatenate([held_a, held_b, words], axis=1)
    loads = "".join(f"ld.global.b32 %r{10 + i}, [%rd1+{4 * i}];" for i in range(sum(counts)))
    stores = "".join(f"st.global.b32 [%rd1+{4 * i}], %r{50 + i};" for i in range(counts[2]))
    first_c = 10 + counts[0] + counts[1]
    pitch = 4 * sum(counts)
    launch(
        f"""ld.param.u64 %rd0, [data]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, {pitch};
        add.u64 %rd1, %rd1, %rd0; {loads}
        mma.sync.aligned.m16n8k{k}.row.col.{d}.{a}.{b}.{d} {names(50, counts[2])},
        {names(10, counts[0])}, {names(10 + counts[0], counts[1])}, {names(first_c, counts[2])};
        {stores}""",
        {"data": data},
        target="sm_90a",
    )
    found = data[:, : counts[2]].copy()
    expected = left @ right.T + old
    if d == "f16":
        halves = found.view(np.uint16).reshape(32, 4)
        assert np.array_equal(to_float32(halves, "f16"), expected[row, column])
    else:
        assert np.array_equal(found.view(kind), expected[row, column])


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("m16n8k16.row.col.f32.f16.bf16.f32", r"no product m16n8k16 of \.f16 and \.bf16"),
        ("m16n8k64.row.col.f32.f16.f16.f32", r"no product m16n8k64 of \.f16"),
        ("m8n8k4.row.col.f32.f16.f16.f32", "only shapes m16n8kK"),
        ("m16n8k16.row.col.f16.bf16.bf16.f16", r"accumulators \.f16 and \.f16 are not supported"),
        ("m16n8k16.row.col.f32.f16.f16.f32", "operand 2 has 3 registers, 4 expected"),
    ],
)
def test_what_is_refused(form: str, message: str) -> None:
    text = f"mma.sync.aligned.{form} {names(0, 4)}, {names(4, 3)}, {names(8, 2)}, {names(0, 4)};"
    with pytest.raises(EmulationError, match=message):
        launch(text, target="sm_90a")

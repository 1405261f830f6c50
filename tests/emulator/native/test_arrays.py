"""What looks at arrays and lists natively says what numpy says."""

from __future__ import annotations

import numpy as np
import pytest

from schedgen.emulator.native import registers
from schedgen.emulator.native.elements import exchange
from schedgen.emulator.native.registers import held, kept, snapshot, value_of
from schedgen.emulator.order.dense import distinct
from schedgen.emulator.order.places import Blocks, Grid, Place, Span, different, fill

SIZE = 4096


def _place(values: np.random.Generator, kind: int) -> Place:
    if kind == 0:
        start = int(values.integers(0, SIZE - 1))
        return Span(start, int(values.integers(start + 1, SIZE + 1)))
    if kind == 1:
        width, row = int(values.integers(1, 65)), int(values.integers(0, 60))
        column = int(values.integers(0, 64 - width + 1))
        return Grid(64, row, int(values.integers(1, 64 - row + 1)), column, width)
    width = int(values.choice([1, 2, 4, 8, 16]))
    if kind == 3:
        near = SIZE // 2 // width + np.arange(100)
        return Blocks(width, values.choice(near, int(values.integers(20, 100)), replace=False))
    index = values.choice(SIZE // width, int(values.integers(1, 30)), replace=False)
    return Blocks(width, index.astype(np.int64))


@pytest.mark.parametrize("kind", range(4), ids=["span", "grid", "blocks", "near blocks"])
def test_numbers_in_places(kind: int) -> None:
    values = np.random.default_rng(kind)
    for turn in range(400):
        top = int(values.choice([1, 3, 50, 200]))
        numbers = values.integers(-3, top, SIZE).astype(np.int32)
        if turn % 3:
            numbers = np.repeat(numbers[: SIZE // 64], 64)
        where = _place(values, kind)
        different(where, numbers)  # it becomes native when it comes again
        found, wanted = different(where, numbers), distinct(where.get(numbers))
        assert found == wanted or (found is None and len(wanted) > 64)
        other = numbers.copy()
        where.put(other, 777)
        fill(where, numbers, 777)
        assert (numbers == other).all()


def test_places_outside() -> None:
    where, numbers = Span(SIZE - 1, SIZE + 1), np.zeros(SIZE, np.int32)
    assert different(where, numbers) is None
    assert different(where, numbers) is None
    with pytest.raises(IndexError, match="not inside"):
        fill(where, numbers, 1)


@pytest.mark.parametrize("kind", [np.bool_, np.uint32, np.uint64])
def test_the_value_of_all_lanes(kind: type[np.generic]) -> None:
    values, native = np.random.default_rng(0), value_of()
    for _ in range(300):
        first = kind(values.integers(0, 2) if kind is np.bool_ else values.integers(0, 1 << 32))
        every = [np.full(32, first) for _ in range(int(values.integers(1, 5)))]
        if values.random() < 0.5:
            every[-1].view(np.uint8)[values.integers(32)] ^= 1
        assert native(*every) == registers.alike(*every)


def test_what_has_no_value_yet() -> None:
    native = value_of()
    for lanes in (3, np.zeros(16, np.uint32), np.zeros(64, np.uint32)[::2], np.zeros(32)):
        assert native(lanes) is NotImplemented
    assert native(np.zeros(32, np.uint32), np.zeros(32, np.uint64)) is NotImplemented


def test_registers_that_were_not_written() -> None:
    now: list[object] = [np.zeros(32) for _ in range(8)]
    before: list[object] = [None] * 8
    snapshot((1, 3, 4))(now, before)
    assert [one is None for one in before] == [True, False, True, False, False, True, True, True]
    assert kept((1, 3, 4))(now, before)
    assert not kept((1, 2))(now, before)
    assert held((3, 1))(now, [now[3], now[1]])
    assert not held((3, 1))(now, [now[1], now[3]])
    now[3] = object()
    assert not kept((1, 3))(now, before)
    snapshot((3,))(now, before)
    assert before[3] is now[3]
    assert not kept((1, 3))(now, before)  # it is no array


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_stores_of_several_warps(kind: type[np.generic]) -> None:
    values, native = np.random.default_rng(0), exchange()
    for _ in range(300):
        parts, count = int(values.integers(1, 5)), int(values.integers(1, 65))
        view = values.integers(0, 3, SIZE).astype(kind)
        index = values.choice(SIZE, parts * count, replace=False).astype(np.int64)
        index = index.reshape(parts, count)
        new = view[index]
        for part in range(parts):
            if values.random() < 0.5:
                new[part, values.integers(count)] = 7
        bits = native(view, index, new, parts)
        wanted = view.copy()
        assert bits is not None
        wanted[index] = new
        assert (view == wanted).all()
        assert [bool(bits >> part & 1) for part in range(parts)] == [
            not (new[part] == 7).any() for part in range(parts)
        ]


def test_stores_that_numpy_makes() -> None:
    native, view = exchange(), np.zeros(10, np.uint32)
    index, new = np.array([3, 1]), np.array([1, 2], np.uint32)
    assert native(view, np.array([3, 11]), new, 1) is None
    assert native(view, index, new.astype(np.uint64), 1) is None
    assert native(view[::2], index, new, 1) is None
    assert native(view, index, new[:1], 1) is None
    assert not view.any()

"""Boxes against a loop over their elements."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.layouts.swizzle import Swizzle, swizzle
from schedgen.emulator.layouts.tiles import block, box_chunks, box_shape, filling, rows


@dataclass(frozen=True)
class Map:
    address: int = 1 << 20
    element_bytes: int = 2
    dims: tuple[int, ...] = (64, 32)
    strides: tuple[int, ...] = (256,)
    box: tuple[int, ...] = (8, 4)
    element_strides: tuple[int, ...] = (1, 1)
    swizzle: Swizzle = Swizzle.NONE


@st.composite
def boxes(draw: st.DrawFn) -> tuple[Map, tuple[int, ...]]:
    rank = draw(st.integers(1, 4))
    size = draw(st.sampled_from([1, 2, 4, 8]))
    dims = tuple(draw(st.lists(st.integers(1, 20), min_size=rank, max_size=rank)))
    outer = draw(st.lists(st.integers(1, 4), min_size=rank - 1, max_size=rank - 1))
    steps = draw(st.lists(st.integers(1, 3), min_size=rank - 1, max_size=rank - 1))
    tensor = Map(
        element_bytes=size,
        dims=dims,
        strides=tuple(256 * 20**n for n in range(rank - 1)),
        box=(16 * draw(st.integers(1, 2)) // size, *outer),
        element_strides=(1, *steps),
    )
    start = draw(st.lists(st.integers(-5, 25), min_size=rank, max_size=rank))
    return tensor, tuple(start)


@given(boxes())
def test_blocks_name_the_elements_of_their_box(case: tuple[Map, tuple[int, ...]]) -> None:
    tensor, start = case
    shape = box_shape(tensor)
    size = tensor.element_bytes
    expected: dict[tuple[int, ...], int] = {}  # place of an element in the box -> address
    extents = [-(-n // s) for n, s in zip(tensor.box, tensor.element_strides, strict=True)]
    for place in product(*(range(n) for n in extents)):
        at = [c + i * s for c, i, s in zip(start, place, tensor.element_strides, strict=True)]
        if all(0 <= x < n for x, n in zip(at, tensor.dims, strict=True)):
            steps = zip(at, (size, *tensor.strides), strict=True)
            expected[place] = tensor.address + sum(x * pitch for x, pitch in steps)
    found = block(tensor, start)
    if found is None:
        assert not expected
        return
    box = np.full(shape, -1, np.int64)
    box[found.place] = found.addresses().reshape(found.shape)
    assert found.end == max(expected.values()) + size
    for place in product(*(range(n) for n in extents)):
        inner, *outer = place
        one = box[(*reversed(outer), slice(inner * size, (inner + 1) * size))]
        address = expected.get(place)
        assert one.tolist() == (
            [-1] * size if address is None else [*range(address, address + size)]
        )


@pytest.mark.parametrize("mode", [Swizzle.NONE, Swizzle.B32, Swizzle.B64, Swizzle.B128])
def test_boxes_are_dense_and_swizzled_by_absolute_address(mode: Swizzle) -> None:
    tensor = Map(box=(mode.value.span // 2, 24), swizzle=mode)
    shape = box_shape(tensor)
    start = 5 * 1024 + 128
    found = box_chunks(shape, start, mode)
    bytes_ = start + np.arange(np.prod(shape), dtype=np.int64)
    assert np.array_equal(found, swizzle(bytes_, mode)[::16] // 16)


def test_gather_takes_four_rows() -> None:
    tensor = Map(box=(64, 1), swizzle=Swizzle.B128)
    assert box_shape(tensor, rows=4) == (4, 128)
    found = rows(tensor, (16, 3, 40, 0, 31))
    assert [one.place[0].start for one in found] == [0, 2, 3]
    assert [one.address for one in found] == [(1 << 20) + 32 + 256 * row for row in (3, 0, 31)]
    assert all(one.shape == (1, 96) for one in found)


@pytest.mark.parametrize(
    ("change", "count", "message"),
    [
        ({"box": (4, 4)}, None, "rows of 8 bytes: they must be a multiple of 16"),
        ({"element_strides": (2, 1)}, None, "element stride 2 in dimension 0"),
        ({"box": (64, 4), "swizzle": Swizzle.B64}, None, "128 bytes exceeds its swizzle of 64"),
        ({"box": (16, 4), "swizzle": Swizzle.B64}, None, "do not fill the swizzle is not known"),
        ({}, 4, "a box of 1 row"),
    ],
)
def test_boxes_that_are_refused(change: dict[str, object], count: int, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        box_shape(replace(Map(), **change), count)  # pyright: ignore[reportArgumentType]


def test_alignment_and_filling() -> None:
    with pytest.raises(LayoutError, match="0x40 of a tensor copy is not a multiple of 128"):
        box_chunks((4, 64), 64, Swizzle.B64)
    assert filling(2, nan=False) == b"\0\0"
    assert np.isnan(np.frombuffer(filling(2, nan=True), np.float16)[0])
    assert np.isnan(np.frombuffer(filling(4, nan=True), np.float32)[0])

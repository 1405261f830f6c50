"""Boxes against a loop over their elements."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedgen.emulator.launch.tensor_map import Element, Fill, Interleave, TensorMap
from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.layouts.swizzle import Swizzle, swizzle
from schedgen.emulator.layouts.tiles import block, box_chunks, box_shape, fill, padded, rows

BASE = TensorMap(
    address=1 << 20,
    element=Element.F16,
    dims=(64, 32),
    strides=(256,),
    box=(8, 4),
    element_strides=(1, 1),
)
ELEMENTS = {1: Element.U8, 2: Element.BF16, 4: Element.F32, 8: Element.U64}


@st.composite
def boxes(draw: st.DrawFn) -> tuple[TensorMap, tuple[int, ...]]:
    rank = draw(st.integers(1, 4))
    size = draw(st.sampled_from([1, 2, 4, 8]))
    dims = tuple(draw(st.lists(st.integers(1, 20), min_size=rank, max_size=rank)))
    outer = draw(st.lists(st.integers(1, 4), min_size=rank - 1, max_size=rank - 1))
    steps = draw(st.lists(st.integers(1, 3), min_size=rank - 1, max_size=rank - 1))
    tensor = replace(
        BASE,
        element=ELEMENTS[size],
        dims=dims,
        strides=tuple(256 * 20**n for n in range(rank - 1)),
        box=(16 * draw(st.integers(1, 2)) // size, *outer),
        element_strides=(1, *steps),
    )
    start = draw(st.lists(st.integers(-5, 25), min_size=rank, max_size=rank))
    return tensor, tuple(start)


@given(boxes())
def test_blocks_name_the_elements_of_their_box(case: tuple[TensorMap, tuple[int, ...]]) -> None:
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
    assert found.rows() is found.rows()
    assert not found.rows().flags.writeable
    addresses = found.rows()[:, None] + np.arange(found.shape[-1])
    box[found.place] = addresses.reshape(found.shape)
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
    tensor = replace(BASE, box=(mode.value.span // 2, 24), swizzle=mode)
    shape = box_shape(tensor)
    assert shape == (24, mode.value.span)
    start = 5 * 1024 + 128
    found = box_chunks(24 * mode.value.span, start, mode)
    bytes_ = start + np.arange(24 * mode.value.span, dtype=np.int64)
    assert np.array_equal(found, swizzle(bytes_, mode)[::16] // 16)


def test_gather_takes_four_rows() -> None:
    tensor = replace(BASE, box=(64, 1), swizzle=Swizzle.B128)
    assert box_shape(tensor, rows=4) == (4, 128)
    found = rows(tensor, (16, 3, 40, 0, 31))
    assert [one.place[0].start for one in found] == [0, 2, 3]
    assert [one.address for one in found] == [(1 << 20) + 32 + 256 * row for row in (3, 0, 31)]
    assert all(one.shape == (1, 96) for one in found)


def test_boxes_that_are_refused() -> None:
    with pytest.raises(LayoutError, match="rows of 32 bytes and a swizzle of 64"):
        box_shape(replace(BASE, box=(16, 4), swizzle=Swizzle.B64))
    with pytest.raises(LayoutError, match="a box of 1 row"):
        box_shape(BASE, 4)
    with pytest.raises(LayoutError, match="interleaved tensor maps are not supported"):
        box_shape(replace(BASE, interleave=Interleave.B16))
    with pytest.raises(LayoutError, match="0x40 of a tensor copy is not a multiple of 128"):
        box_chunks(256, 64, Swizzle.B64)


def test_filling() -> None:
    assert fill(BASE) is None
    half = fill(replace(BASE, fill=Fill.NAN))
    assert half is not None
    assert np.isnan(np.frombuffer(half, np.float16)[0])
    single = fill(replace(BASE, element=Element.TF32, fill=Fill.NAN))
    assert single is not None
    assert np.isnan(np.frombuffer(single, np.float32)[0])


def test_values_of_four_and_six_bits() -> None:
    tensor = replace(BASE, element=Element.U4_PADDED, dims=(256, 8), box=(128, 2))
    tensor = replace(tensor, swizzle=Swizzle.B128)
    assert box_shape(tensor) == (2, 64)
    found = block(tensor, (128, 7))
    assert found is not None
    assert (found.address, found.shape) == ((1 << 20) + 64 + 7 * 256, (1, 64))
    box = np.arange(128, dtype=np.uint8).reshape(2, 64)
    wide = padded(box, tensor.element)
    assert wide.shape == (2, 128)
    assert wide[1, 16:32].tolist() == [*range(72, 80), *[0] * 8]
    assert padded(box[:, :48], Element.U6_PADDED)[0, 16:32].tolist() == [*range(12, 24), *[0] * 4]
    with pytest.raises(LayoutError, match="coordinate 3 of 4-bit elements is inside of a byte"):
        block(replace(tensor, element=Element.U4), (3, 0))


def test_addresses_go_round() -> None:
    """As they do on an H200: 2^30 times 2^34 bytes, less 2^30 rows, take as many rows away."""
    room, row = 1 << 30, 256
    around = replace(
        BASE, dims=(64, room, 33, room + 1), strides=(row, row, (1 << 34) - row),
        box=(8, 4, 1, 1), element_strides=(1, 1, 1, 1),
    )  # fmt: skip
    begin, size = 10, 3
    found = block(around, (0, room - size, begin + size, room))
    assert found is not None
    assert (found.address, found.shape) == (BASE.address + begin * row, (1, 1, size, 16))
    assert block(around, (0, room - size + 4, begin + size, room)) is None

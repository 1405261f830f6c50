"""Tensor maps: bits that CuTe DSL and the driver were seen to write, rules, and refusals."""

import struct
from dataclasses import replace

import pytest

from schedgen.emulator.launch.tensor_map import (
    Element,
    Fill,
    Interleave,
    Promotion,
    TensorMap,
    TensorMapError,
)
from schedgen.emulator.launch.tensor_map_bits import MEANINGLESS, decode, encode
from schedgen.emulator.layouts import tiles
from schedgen.emulator.layouts.swizzle import Swizzle

PLAIN = TensorMap(0x7F0000000000, Element.F16, (512, 256), (1024,), (16, 8), (1, 1))
DEEP = TensorMap(
    0x7F0000000000,
    Element.F16,
    (64, 33, 32, 9, 5),
    (128, 65536, 1 << 20, 1 << 24),
    (8, 7, 6, 5, 4),
    (1,) * 5,
)


def words(*values: int) -> bytes:
    """Return a tensor map of little-endian 64-bit words, the rest arbitrary."""
    return struct.pack("<8Q", *values) + b"\xee" * 64


TYPES = {  # low half of the second word, written by cuTensorMapEncodeTiled, driver 13.0, H200
    Element.U8: 0x10,
    Element.U16: 0x90,
    Element.U32: 0x110,
    Element.S32: 0x190,
    Element.U64: 0x210,
    Element.S64: 0x290,
    Element.F16: 0x310,
    Element.F32: 0x390,
    Element.F64: 0x490,
    Element.BF16: 0x510,
    Element.F32_FTZ: 0x410,
    Element.TF32: 0x10390,
    Element.TF32_FTZ: 0x10410,
}
STRIDES = DEEP.strides
DRIVER: tuple[tuple[TensorMap, dict[int, int]], ...] = (  # likewise: words unlike PLAIN or DEEP
    (PLAIN, {}),
    (replace(PLAIN, swizzle=Swizzle.B32), {1: 0x4000002310}),
    (replace(PLAIN, swizzle=Swizzle.B64), {1: 0x4000004310}),
    (replace(PLAIN, swizzle=Swizzle.B128), {1: 0x4000006310}),
    (replace(PLAIN, promotion=Promotion.B64), {1: 0x4000020310}),
    (replace(PLAIN, promotion=Promotion.B128), {1: 0x4000040310}),
    (replace(PLAIN, promotion=Promotion.B256), {1: 0x4000060310}),
    (replace(PLAIN, fill=Fill.NAN), {1: 0x4000008310}),
    (replace(PLAIN, address=(1 << 57) - 16), {0: 0x1FFFFFFFFFFFFF0}),
    (replace(PLAIN, box=(256, 256)), {6: 0xFF << 56, 7: 0xFF}),
    (replace(PLAIN, strides=(0,)), {1: 0x310}),
    (
        replace(PLAIN, dims=(1 << 32, 1 << 32), strides=(1 << 33,)),
        {1: 0x2000000000000310, 4: 0xFFFFFFFFFFFFFFFF},
    ),
    (DEEP, {}),
    (replace(DEEP, element_strides=(8, 1, 1, 1, 1)), {6: 0x0700000700000004}),
    (replace(DEEP, element_strides=(1, 8, 1, 1, 1)), {6: 0x0700003800000004}),
    (replace(DEEP, element_strides=(1, 1, 1, 1, 8)), {6: 0x0700700000000004}),
    (
        replace(DEEP, strides=((5 << 36) + 16, *STRIDES[1:])),
        {1: 0x100000340, 3: 0x500100000},
    ),
    (
        replace(DEEP, strides=(*STRIDES[:3], (8 << 36) + 16)),
        {3: 0x800000000001},
    ),
)


def driver_words(base: TensorMap, changes: dict[int, int]) -> bytes:
    """Return what the driver writes for PLAIN or DEEP, with some words changed."""
    if base.rank == 2:
        values = [0x7F0000000000, 0x4000000310, 0, 0, 0xFF000001FF, 0, 0x0F << 56, 7]
    else:
        values = [0x7F0000000000, 0x800000340, 0x1000000001000, 0x100000]
        values += [0x200000003F, 0x80000001F, 0x0700000000000004, 0x3040506]
    for at, value in changes.items():
        values[at] = value
    return words(*values)


@pytest.mark.parametrize(("tensor", "changes"), DRIVER)
def test_maps_of_the_driver(tensor: TensorMap, changes: dict[int, int]) -> None:
    data = driver_words(tensor, changes)
    assert decode(data) == tensor
    assert encode(tensor)[:64] == data[:64]


@pytest.mark.parametrize(("element", "flags"), TYPES.items())
def test_elements_of_the_driver(element: Element, flags: int) -> None:
    tensor = replace(PLAIN, element=element, strides=(8192,))
    data = driver_words(tensor, {1: 0x20000000000 | flags})
    assert decode(data) == tensor
    assert encode(tensor)[:64] == data[:64]


@pytest.mark.parametrize(
    ("interleave", "swizzle", "flags"),
    [
        (Interleave.B16, Swizzle.NONE, 0xB20),
        (Interleave.B16, Swizzle.B128, 0x6B20),
        (Interleave.B32, Swizzle.B32, 0x3320),
    ],
)
def test_interleave_of_the_driver(interleave: Interleave, swizzle: Swizzle, flags: int) -> None:
    tensor = TensorMap(
        0x7F0000000000, Element.F16, (64, 33, 32), (128, 65536), (8, 7, 6), (1, 1, 1),
        swizzle, interleave,
    )  # fmt: skip
    data = words(
        0x7F0000000000, 0x800000000 | flags, 0x1000, 0, 0x200000003F, 0x1F, 0x07 << 56, 0x506
    )
    assert decode(data) == tensor
    assert encode(tensor)[:64] == data[:64]


@pytest.mark.parametrize(
    ("element", "flags", "swizzle"),
    [
        (Element.F32, 0x2C6392, Swizzle.B128_ATOM32),
        (Element.F32, 0x3C6392, Swizzle.B128_ATOM64),
        (Element.TF32, 0x2D6392, Swizzle.B128_ATOM32),
        (Element.BF16, 0x246512, Swizzle.B128),
        (Element.U4, 0x040592, Swizzle.NONE),
        (Element.U4_PADDED, 0x046612, Swizzle.B128),
        (Element.U6_PADDED, 0x040692, Swizzle.NONE),
    ],
)
def test_flags_of_cute_dsl(element: Element, flags: int, swizzle: Swizzle) -> None:
    box0 = 128 if element.bits < 8 else 32
    data = words(0x562E08D71500, 0x80 << 32 | flags, 0, 0, 0xFF000001FF, 0, box0 - 1 << 56, 0x3F)
    tensor = decode(data)
    assert (tensor.element, tensor.swizzle) == (element, swizzle)
    assert tensor.promotion is Promotion.B128
    assert (tensor.dims, tensor.strides, tensor.box) == ((512, 256), (2048,), (box0, 64))
    again = int.from_bytes(encode(tensor), "little")
    assert again == int.from_bytes(data[:64], "little") & ~MEANINGLESS


def test_copies_take_it_as_it_is() -> None:
    assert tiles.box_shape(PLAIN) == (8, 32)
    part = tiles.block(PLAIN, (504, 255))
    assert part is not None
    assert (part.address, part.shape) == (PLAIN.address + 255 * 1024 + 504 * 2, (1, 16))


def test_what_an_element_is() -> None:
    assert PLAIN.element_bytes == 2
    with pytest.raises(TensorMapError, match="4 bits"):
        _ = replace(PLAIN, element=Element.U4).element_bytes


@pytest.mark.parametrize("bit", [60, 64, 66, 67, 86, 95, 240, 255, 431, 439, 480, 511])
def test_unknown_bits_are_refused(bit: int) -> None:
    data = int.from_bytes(encode(PLAIN), "little") | 1 << bit
    with pytest.raises(TensorMapError, match="whose meaning is not known"):
        decode(data.to_bytes(128, "little"))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (0x310 | 14 << 7, "element"),
        (0x1B10, "interleave"),
        (0x082310, "swizzle"),
        (0x360, "dimensions"),
    ],
)
def test_unknown_values_are_refused(flags: int, message: str) -> None:
    with pytest.raises(TensorMapError, match=message):
        decode(driver_words(PLAIN, {1: 0x40 << 32 | flags}))


def test_too_few_bytes() -> None:
    with pytest.raises(TensorMapError, match="128 bytes, this one 63"):
        decode(bytes(63))


def test_the_swizzle_that_maps_cannot_hold() -> None:
    with pytest.raises(TensorMapError, match="B96"):
        encode(replace(PLAIN, swizzle=Swizzle.B96))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"address": 8}, "address 0x8 is not a multiple of 16"),
        ({"address": 1 << 57}, "below 2^57"),
        ({"dims": (512, 0)}, "extent 0 of dimension 1"),
        ({"box": (16, 257)}, "extent of the box 257 of dimension 1"),
        ({"element_strides": (1, 9)}, "element stride 9 of dimension 1"),
        ({"strides": (1 << 40,)}, "not below 2^40"),
        ({"strides": (24,)}, "stride 24 of dimension 1 is not a multiple of 16"),
        ({"box": (4, 8)}, "row of the box has 8 bytes"),
        ({"box": (64, 8), "swizzle": Swizzle.B64}, "more than the B64 swizzle"),
        ({"interleave": Interleave.B16}, "needs 3 dimensions"),
        ({"element": Element.U16, "fill": Fill.NAN}, "U16 cannot be filled with NaN"),
        ({"element": Element.U4_PADDED}, "needs a box of 128"),
        ({"element": Element.U4, "box": (32, 8), "dims": (511, 8)}, "two U4 share a byte"),
        ({"element": Element.U6_PADDED, "address": 16}, "not a multiple of 32"),
        ({"dims": (1,) * 6, "box": (16,) * 6, "strides": (16,) * 5}, "6 dimensions"),
    ],
)
def test_rules(change: dict[str, object], message: str) -> None:
    with pytest.raises(TensorMapError, match=message.replace("^", r"\^")):
        replace(PLAIN, **change).check()  # pyright: ignore[reportArgumentType]

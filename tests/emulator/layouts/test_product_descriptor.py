"""Instruction descriptors packed here by the tables of PTX ISA section 9.7.16.4.2."""

import pytest

from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.layouts.product_descriptor import decode_product


def packed(a: int, b: int, d: int, m: int, n: int, options: int = 0) -> int:
    return options | d << 4 | a << 7 | b << 10 | n >> 3 << 17 | m >> 4 << 24


def scaled(a: int, b: int, m: int, n: int, options: int = 0) -> int:
    return options | a << 7 | b << 10 | n >> 3 << 17 | m >> 7 << 27


def test_fields_of_plain_kinds() -> None:
    found = decode_product("f16", packed(1, 1, 1, 128, 256, 1 << 16 | 1 << 13))
    assert (found.a, found.b, found.d) == ("bf16", "bf16", "f32")
    assert (found.m, found.n, found.k, found.bits) == (128, 256, 16, 16)
    assert (found.transpose_a, found.transpose_b) == (False, True)
    assert (found.negate_a, found.negate_b) == (True, False)
    found = decode_product("f8f6f4", packed(0, 5, 0, 64, 8))
    assert (found.a, found.b, found.d, found.k, found.bits) == ("e4m3", "e2m1", "f16", 32, 8)
    found = decode_product("i8", packed(1, 0, 2, 128, 32, 1 << 3))
    assert (found.a, found.b, found.d, found.saturate) == ("s8", "u8", "s32", True)
    found = decode_product("tf32", packed(2, 2, 1, 256, 16), group=2)
    assert (found.a, found.k, found.bits, found.m) == ("tf32", 8, 32, 256)


def test_fields_of_scaled_kinds() -> None:
    found = decode_product("mxf8f6f4", scaled(1, 3, 128, 64, 1 << 23 | 3 << 29 | 2 << 4))
    assert (found.a, found.b, found.scale) == ("e5m2", "e2m3", "ue8m0")
    assert (found.scale_a, found.scale_b, found.m, found.n) == (3, 2, 128, 64)
    found = decode_product("mxf4nvf4", scaled(1, 1, 256, 128), group=2)
    assert (found.a, found.scale, found.k, found.bits, found.m) == ("e2m1", "ue4m3", 64, 4, 256)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("f16", packed(2, 0, 1, 128, 64), "type 2 of A is invalid for kind::f16; valid are 0"),
        ("tf32", packed(2, 2, 0, 128, 64), "type 0 of D is invalid for kind::tf32"),
        ("f16", packed(0, 0, 1, 128, 64, 1 << 2), "bit 2 is sparsity, which is not supported"),
        ("f16", packed(0, 0, 1, 128, 64, 1 << 23), "bit 23 is set although it must be 0"),
        ("i8", packed(0, 0, 2, 128, 64, 1 << 14), "bit 13 is set although it must be 0"),
        ("f16", packed(0, 0, 1, 32, 64), "M=32, N=64 for kind::f16"),
        ("i8", packed(0, 0, 2, 128, 40), "M=128, N=40"),
        ("i8", packed(0, 0, 2, 128, 8, 1 << 16), "N one of 16, 32"),
        ("f8f6f4", packed(0, 0, 1, 128, 24, 1 << 16), "N one of 16, 32"),
        ("mxf4", scaled(1, 1, 128, 64), "kind::mxf4 scales by UE8M0"),
        ("mxf4", scaled(1, 1, 128, 64, 1 << 23 | 1 << 31), "K = 96, which only sm_103a has"),
    ],
)
def test_what_is_invalid(kind: str, value: int, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        decode_product(kind, value)


def test_shapes_of_table_39_and_stricter_ones() -> None:
    odd = packed(0, 0, 1, 128, 8)
    assert decode_product("f16", odd).n == 8
    with pytest.raises(LayoutError, match="N one of 16, 32, … 256"):
        decode_product("f16", odd, strict_steps=True)
    pair = packed(0, 0, 1, 256, 16)
    assert decode_product("f16", pair, group=2).n == 16
    with pytest.raises(LayoutError, match="N one of 32, 64"):
        decode_product("f16", pair, group=2, strict_steps=True)
    assert decode_product("f16", packed(0, 0, 1, 64, 8), strict_steps=True).m == 64
    assert decode_product("f16", packed(0, 0, 1, 32, 64), stationary=True).m == 32
    with pytest.raises(LayoutError, match="M must be one of"):
        decode_product("f16", packed(0, 0, 1, 64, 64), group=2)
    with pytest.raises(LayoutError, match="cta_group::1 without block scales"):
        decode_product("f16", packed(0, 0, 1, 64, 64), group=2, stationary=True)

"""Instructions about bits, against loops over bits as in the PTX ISA."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emulator.instructions.execution import execute, lanes, signed

WORDS = [
    *(0, 1, 2, 3, 0x80, 0xF0F0, 0x8000_0000, 0x7FFF_FFFF, 0xFFFF_FFFF, 0xDEAD_BEEF),
    *(1 << 63, (1 << 64) - 1, 0x0123_4567_89AB_CDEF, 1 << 40),
]


@pytest.mark.parametrize("width", [32, 64])
def test_counts(width: int) -> None:
    r = "r" if width == 32 else "rd"
    a = lanes(WORDS, width)
    values = a.tolist()

    def found(name: str) -> list[int]:
        return execute(f"{name} %r0, %{r}1;", **{f"{r}1": a})["r0"].tolist()

    assert found(f"popc.b{width}") == [value.bit_count() for value in values]
    assert found(f"clz.b{width}") == [width - value.bit_length() for value in values]
    highest = [value.bit_length() - 1 & 0xFFFFFFFF for value in values]
    assert found(f"bfind.u{width}") == highest
    magnitudes = [~v if (v := signed(value, width)) < 0 else v for value in values]
    assert found(f"bfind.s{width}") == [m.bit_length() - 1 & 0xFFFFFFFF for m in magnitudes]
    assert found(f"bfind.shiftamt.u{width}") == [
        width - value.bit_length() if value else 0xFFFFFFFF for value in values
    ]


@pytest.mark.parametrize("width", [32, 64])
def test_reversal(width: int) -> None:
    r = "r" if width == 32 else "rd"
    a = lanes(WORDS, width)
    wanted = [int(f"{value:0{width}b}"[::-1], 2) for value in a.tolist()]
    assert execute(f"brev.b{width} %{r}0, %{r}1;", **{f"{r}1": a})[f"{r}0"].tolist() == wanted


def extracted(a: int, pos: int, length: int, width: int, is_signed: bool) -> int:
    pos, length, msb = pos & 0xFF, length & 0xFF, width - 1
    sign = a >> min(pos + length - 1, msb) & 1 if is_signed and length else 0
    bits = [a >> pos + i & 1 if i < length and pos + i <= msb else sign for i in range(width)]
    return sum(bit << i for i, bit in enumerate(bits))


def inserted(a: int, b: int, pos: int, length: int, width: int) -> int:
    pos, length = pos & 0xFF, length & 0xFF
    for i in range(min(length, max(width - pos, 0))):
        b = b & ~(1 << pos + i) | (a >> i & 1) << pos + i
    return b


FIELDS = st.lists(
    st.sampled_from([0, 1, 5, 16, 31, 32, 33, 63, 64, 65, 255, 256]), min_size=8, max_size=8
)


@settings(max_examples=15, deadline=None)
@given(FIELDS, FIELDS, st.sampled_from([32, 64]), st.booleans())
def test_fields(starts: list[int], lengths: list[int], width: int, is_signed: bool) -> None:
    r, kind = "r" if width == 32 else "rd", "s" if is_signed else "u"
    a, start, length = lanes(WORDS, width), lanes(starts, 32), lanes(lengths, 32)
    fields = list(zip(start.tolist(), length.tolist(), strict=True))
    given_ = {f"{r}1": a, "r2": start, "r3": length}
    found = execute(f"bfe.{kind}{width} %{r}0, %{r}1, %r2, %r3;", **given_)[f"{r}0"]
    wanted = [
        extracted(value, pos, n, width, is_signed)
        for value, (pos, n) in zip(a.tolist(), fields, strict=True)
    ]
    assert found.tolist() == wanted
    b = lanes(WORDS[3:], width)
    found = execute(f"bfi.b{width} %{r}0, %{r}1, %{r}4, %r2, %r3;", **given_, **{f"{r}4": b})
    wanted = [
        inserted(x, y, pos, n, width)
        for x, y, (pos, n) in zip(a.tolist(), b.tolist(), fields, strict=True)
    ]
    assert found[f"{r}0"].tolist() == wanted


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_extension_and_masks(mode: str) -> None:
    a, count = lanes(WORDS, 32), lanes([0, 1, 5, 8, 31, 32, 33, 40, 0x80000000], 32)
    for kind in "us":
        found = execute(f"szext.{mode}.{kind}32 %r0, %r1, %r2;", r1=a, r2=count)["r0"]
        for value, n, result in zip(a.tolist(), count.tolist(), found.tolist(), strict=True):
            bits = n & 31
            if mode == "clamp" and n >= 32:
                wanted = value
            elif bits == 0:
                wanted = 0
            else:
                wanted = value & ((1 << bits) - 1)
                wanted = signed(wanted, bits) if kind == "s" else wanted
            assert result == wanted & 0xFFFFFFFF
    start, length = lanes([0, 1, 31, 32, 5], 32), lanes([0, 3, 31, 32, 33, 4, 1], 32)
    found = execute(f"bmsk.{mode}.b32 %r0, %r1, %r2;", r1=start, r2=length)["r0"]
    for at, n, result in zip(start.tolist(), length.tolist(), found.tolist(), strict=True):
        if mode == "wrap":
            at, n = at & 31, n & 31  # noqa: PLW2901
        wanted = 0 if at >= 32 else ((1 << min(n, 32)) - 1 << at) & 0xFFFFFFFF
        assert result == wanted


def test_nth_set_bit() -> None:
    """The examples of PTX ISA 9.7.1.17, and a bit that is not there."""
    base, offset = lanes([3, 3, 2, 2, 4, 0], 32), lanes([1, -1, 1, -1, 0, 17], 32)
    found = execute("fns.b32 %r0, 0xaaaaaaaa, %r1, %r2;", r1=base, r2=offset)["r0"]
    assert found.tolist()[:6] == [3, 3, 3, 1, 0xFFFFFFFF, 0xFFFFFFFF]


@pytest.mark.parametrize("a_type", ["u32", "s32"])
@pytest.mark.parametrize("b_type", ["u32", "s32"])
def test_dot_products(a_type: str, b_type: str) -> None:
    random = np.random.default_rng(3)
    a, b, c = (random.integers(0, 1 << 32, 32, np.uint32) for _ in range(3))

    def part(word: int, at: int, bits: int, type_: str) -> int:
        value = word >> bits * at & (1 << bits) - 1
        return signed(value, bits) if type_ == "s32" else value

    for name in ("dp4a", "dp2a.lo", "dp2a.hi"):
        found = execute(f"{name}.{a_type}.{b_type} %r0, %r1, %r2, %r3;", r1=a, r2=b, r3=c)["r0"]
        count, bits, first = (4, 8, 0) if name == "dp4a" else (2, 16, 2 * (name == "dp2a.hi"))
        for x, y, z, result in zip(*(v.tolist() for v in (a, b, c, found)), strict=True):
            total = z + sum(
                part(x, i, bits, a_type) * part(y, first + i, 8, b_type) for i in range(count)
            )
            assert result == total & 0xFFFFFFFF

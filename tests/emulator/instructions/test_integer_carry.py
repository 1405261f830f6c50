"""Long sums, differences and products, against Python's integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emulator.instructions.execution import execute, lanes

LONG = st.lists(st.integers(0, 2**96 - 1), min_size=4, max_size=4)


def words(values: list[int], at: int) -> np.ndarray:
    return lanes([value >> 32 * at for value in values], 32)


def joined(*parts: np.ndarray) -> list[int]:
    return [
        sum(int(part) << 32 * at for at, part in enumerate(row))
        for row in zip(*(part.tolist() for part in parts), strict=True)
    ]


@settings(max_examples=25, deadline=None)
@given(LONG, LONG)
def test_sums_and_differences_of_96_bits(a: list[int], b: list[int]) -> None:
    given_ = {f"r{at + 1}": words(a, at) for at in range(3)}
    given_ |= {f"r{at + 4}": words(b, at) for at in range(3)}
    text = "{0}.cc.u32 %r7, %r1, %r4; {0}c.cc.u32 %r8, %r2, %r5; {0}c.u32 %r9, %r3, %r6;"
    added = execute(text.format("add"), **given_)
    assert joined(added["r7"], added["r8"], added["r9"])[:4] == [
        (x + y) % 2**96 for x, y in zip(a, b, strict=True)
    ]
    taken = execute(text.format("sub"), **given_)
    assert joined(taken["r7"], taken["r8"], taken["r9"])[:4] == [
        (x - y) % 2**96 for x, y in zip(a, b, strict=True)
    ]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_product_of_64_bits_by_32(a: int, b: int) -> None:
    """The example of PTX ISA 9.7.2.6."""
    text = """
        mul.lo.u32 %r0, %r4, %r6; mul.hi.u32 %r1, %r4, %r6;
        mad.lo.cc.u32 %r1, %r5, %r6, %r1; madc.hi.u32 %r2, %r5, %r6, 0;
        mad.lo.cc.u32 %r1, %r4, %r7, %r1; madc.hi.cc.u32 %r2, %r4, %r7, %r2;
        addc.u32 %r3, 0, 0;
        mad.lo.cc.u32 %r2, %r5, %r7, %r2; madc.hi.u32 %r3, %r5, %r7, %r3;
    """
    found = execute(text, r4=words([a], 0), r5=words([a], 1), r6=words([b], 0), r7=words([b], 1))
    assert joined(*(found[f"r{at}"] for at in range(4))) == [a * b] * 32


def test_64_bit_words() -> None:
    a = lanes([2**64 - 1, 5], 64)
    found = execute("add.cc.u64 %rd0, %rd1, 1; addc.u64 %rd2, 0, 0;", rd1=a)
    assert found["rd0"].tolist()[:2] == [0, 6]
    assert found["rd2"].tolist()[:2] == [1, 0]


def test_signed_words_carry_as_unsigned_ones() -> None:
    found = execute("add.cc.s32 %r0, %r1, %r1; addc.s32 %r2, 0, 0;", r1=lanes([-1, 1], 32))
    assert found["r2"].tolist()[:2] == [1, 0]
    found = execute(
        "mad.hi.cc.s32 %r0, %r1, %r1, -1; addc.s32 %r2, 0, 0;", r1=lanes([-1 << 20], 32)
    )
    assert found["r0"].tolist() == [255] * 32
    assert found["r2"].tolist() == [1] * 32


def test_flags_of_inactive_lanes_stay() -> None:
    active = np.arange(32) < 16
    found = execute(
        "add.cc.u32 %r0, %r1, 1;", active=active, carry=np.arange(32) % 2 == 1, r1=lanes([0], 32)
    )
    assert found.carry.tolist() == [False] * 16 + [False, True] * 8


def test_a_sum_without_cc_leaves_the_flag() -> None:
    text = "add.cc.u32 %r0, %r1, 1; add.u32 %r2, %r1, 5; addc.u32 %r3, 0, 0;"
    assert execute(text, r1=lanes([-1], 32))["r3"].tolist() == [1] * 32

"""Integer arithmetic against Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emulator.instructions.execution import execute, lanes, signed
from tests.emulator.instructions.forms import INTEGERS, register

EDGES = [
    *(0, 1, 2, 3, 7, -1, -2, 0x7F, 0x80, 0x7FFF, -0x8000, 0x12345678, -0x80000000, 0x7FFFFFFF),
    *(0xFFFFFFFF, -0x8000000000000000, 0x7FFFFFFFFFFFFFFF, 0x123456789ABCDEF0),
]


def seen(value: int, type_: str) -> int:
    """The low bits as a value of an integer type."""
    bits = int(type_[1:])
    return signed(value, bits) if type_[0] == "s" else value & ((1 << bits) - 1)


def towards_zero(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def clamped(value: int) -> int:
    return max(-(1 << 31), min((1 << 31) - 1, value))


def low_24(value: int, type_: str) -> int:
    return signed(value, 24) if type_ == "s32" else value & 0xFFFFFF


Reference = Callable[[int, int, int, int], int]
"""A function of up to three operands and the width."""

TWO: dict[str, Reference] = {
    "add": lambda a, b, _c, _n: a + b,
    "sub": lambda a, b, _c, _n: a - b,
    "mul.lo": lambda a, b, _c, _n: a * b,
    "mul.hi": lambda a, b, _c, n: a * b >> n,
    "min": lambda a, b, _c, _n: min(a, b),
    "max": lambda a, b, _c, _n: max(a, b),
    "div": lambda a, b, _c, _n: towards_zero(a, b) if b else -1,
    "rem": lambda a, b, _c, _n: a - b * towards_zero(a, b) if b else -1,
}
THREE: dict[str, Reference] = {
    "mad.lo": lambda a, b, c, _n: a * b + c,
    "mad.hi": lambda a, b, c, n: (a * b >> n) + c,
    "sad": lambda a, b, c, _n: c + abs(a - b),
}


def check(
    name: str, type_: str, count: int, reference: Reference, result: str = "", last: str = ""
) -> None:
    """Compares an instruction with a reference on edges and their neighbours."""
    types = [type_] * count
    types[-1] = last or type_
    result = result or type_
    operands = [f"%{register(t)}{n}" for n, t in enumerate(types, 1)]
    text = f"{name}.{type_} %{register(result)}0, {', '.join(operands)};"
    for turn in range(6):
        values = [
            [seen(EDGES[(at * (2 * n + 1) + turn * 5 + n) % len(EDGES)], t) for at in range(32)]
            for n, t in enumerate(types)
        ]
        given_ = {
            operand[1:]: lanes(v, int(t[1:]))
            for operand, v, t in zip(operands, values, types, strict=True)
        }
        found = execute(text, **given_)[f"{register(result)}0"]
        rows = zip(*values, *([[0] * 32] * (3 - count)), strict=True)
        wanted = [reference(a, b, c, int(type_[1:])) for a, b, c in rows]
        assert found.tolist() == lanes(wanted, int(result[1:])).tolist(), text


@pytest.mark.parametrize("type_", INTEGERS)
@pytest.mark.parametrize("name", TWO)
def test_two_operands(name: str, type_: str) -> None:
    check(name, type_, 2, TWO[name])


@pytest.mark.parametrize("type_", INTEGERS)
@pytest.mark.parametrize("name", THREE)
def test_three_operands(name: str, type_: str) -> None:
    check(name, type_, 3, THREE[name])


@pytest.mark.parametrize(("type_", "wide"), [("u16", "u32"), ("s16", "s32"), ("s32", "s64")])
def test_wide_products(type_: str, wide: str) -> None:
    check("mul.wide", type_, 2, lambda a, b, _c, _n: a * b, wide)
    check("mad.wide", type_, 3, lambda a, b, c, _n: a * b + c, wide, wide)


@pytest.mark.parametrize("type_", ["s16", "s32", "s64"])
def test_signs(type_: str) -> None:
    check("abs", type_, 1, lambda a, _b, _c, _n: abs(a))
    check("neg", type_, 1, lambda a, _b, _c, _n: -a)


def test_saturation() -> None:
    check("add.sat", "s32", 2, lambda a, b, _c, _n: clamped(a + b))
    check("sub.sat", "s32", 2, lambda a, b, _c, _n: clamped(a - b))
    check("mad.hi.sat", "s32", 3, lambda a, b, c, _n: clamped((a * b >> 32) + c))
    check("min.relu", "s32", 2, lambda a, b, _c, _n: max(min(a, b), 0))
    check("max.relu", "s32", 2, lambda a, b, _c, _n: max(a, b, 0))


@pytest.mark.parametrize("type_", ["u32", "s32"])
def test_products_of_24_bits(type_: str) -> None:
    def product(a: int, b: int) -> int:
        return low_24(a, type_) * low_24(b, type_)

    check("mul24.lo", type_, 2, lambda a, b, _c, _n: product(a, b))
    check("mul24.hi", type_, 2, lambda a, b, _c, _n: product(a, b) >> 16)
    check("mad24.lo", type_, 3, lambda a, b, c, _n: product(a, b) + c)
    check("mad24.hi", type_, 3, lambda a, b, c, _n: (product(a, b) >> 16) + c)


def test_pairs_of_halves() -> None:
    a, b = lanes(EDGES, 32), lanes(EDGES[5:], 32)

    def each(found: np.ndarray, reference: Callable[[int, int], int]) -> None:
        for x, y, z in zip(a.tolist(), b.tolist(), found.tolist(), strict=True):
            low, high = reference(x & 0xFFFF, y & 0xFFFF), reference(x >> 16, y >> 16)
            assert z == (low & 0xFFFF) | (high & 0xFFFF) << 16

    each(execute("add.s16x2 %r0, %r1, %r2;", r1=a, r2=b)["r0"], lambda x, y: x + y)
    each(execute("max.u16x2 %r0, %r1, %r2;", r1=a, r2=b)["r0"], max)
    each(
        execute("min.relu.s16x2 %r0, %r1, %r2;", r1=a, r2=b)["r0"],
        lambda x, y: max(min(signed(x, 16), signed(y, 16)), 0),
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_upper_half_of_64_bits(a: int, b: int) -> None:
    found = execute("mul.hi.u64 %rd0, %rd1, %rd2;", rd1=lanes([a], 64), rd2=lanes([b], 64))
    assert found["rd0"].tolist() == [a * b >> 64] * 32
    found = execute("mul.hi.s64 %rd0, %rd1, %rd2;", rd1=lanes([a], 64), rd2=lanes([b], 64))
    wanted = signed(a, 64) * signed(b, 64) >> 64
    assert found["rd0"].tolist() == lanes([wanted], 64).tolist()


def test_inactive_lanes_keep_their_values() -> None:
    active = np.arange(32) % 3 == 0
    found = execute("add.s32 %r0, %r1, 5;", active=active, r0=lanes([7], 32), r1=lanes([1], 32))
    assert found["r0"].tolist() == [6 if lane else 7 for lane in active]


def test_immediates_wrap_around() -> None:
    found = execute("add.s32 %r0, %r1, -1;", r1=lanes(range(32), 32))
    assert found["r0"].tolist() == lanes(range(-1, 31), 32).tolist()

"""Logic, shifts and permutations, against definitions bit by bit and byte by byte."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedgen.emulator.machine.lanes import EmulationError
from tests.emulator.instructions.execution import execute, lanes, signed

WORDS = [0, 1, 0xFFFF, 0x8000, 0x80000000, 0xDEADBEEF, 0x0123456789ABCDEF, (1 << 64) - 1]
COUNTS = [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 0xFFFFFFFF]
REGISTERS = {16: "rs", 32: "r", 64: "rd"}


@pytest.mark.parametrize("width", REGISTERS)
def test_bitwise(width: int) -> None:
    r = REGISTERS[width]
    a, b = lanes(WORDS, width), lanes(WORDS[3:], width)
    operations = {"and": a & b, "or": a | b, "xor": a ^ b}
    for name, wanted in operations.items():
        found = execute(f"{name}.b{width} %{r}0, %{r}1, %{r}2;", **{f"{r}1": a, f"{r}2": b})
        assert np.array_equal(found[f"{r}0"], wanted)
    found = execute(f"not.b{width} %{r}0, %{r}1; cnot.b{width} %{r}2, %{r}1;", **{f"{r}1": a})
    assert found[f"{r}0"].tolist() == [~value & (1 << width) - 1 for value in a.tolist()]
    assert found[f"{r}2"].tolist() == [int(value == 0) for value in a.tolist()]


def test_predicates() -> None:
    p, q = np.arange(32) % 2 == 0, np.arange(32) % 3 == 0
    found = execute("not.pred %p0, %p1; xor.pred %p3, %p1, !%p2;", p1=p, p2=q)
    assert np.array_equal(found["p0"], ~p)
    assert np.array_equal(found["p3"], p == q)


@pytest.mark.parametrize("width", REGISTERS)
@pytest.mark.parametrize("immediate", [False, True])
def test_shifts(width: int, immediate: bool) -> None:
    r = REGISTERS[width]
    a = lanes(WORDS, width)
    for count in COUNTS:
        operand = str(count) if immediate else "%r5"
        by = min(count, width)
        given_ = {f"{r}1": a, "r5": lanes([count], 32)}
        for kind, name in (("b", "shl"), ("u", "shr"), ("s", "shr"), ("b", "shr")):
            found = execute(f"{name}.{kind}{width} %{r}0, %{r}1, {operand};", **given_)[f"{r}0"]
            values = [signed(v, width) if kind == "s" else v for v in a.tolist()]
            wanted = [v << by if name == "shl" else v >> by for v in values]
            assert found.tolist() == lanes(wanted, width).tolist()


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_funnel_shifts(mode: str) -> None:
    a, b, c = lanes(WORDS, 32), lanes(WORDS[2:], 32), lanes(COUNTS, 32)
    for direction in "lr":
        found = execute(f"shf.{direction}.{mode}.b32 %r0, %r1, %r2, %r3;", r1=a, r2=b, r3=c)["r0"]
        rows = zip(a.tolist(), b.tolist(), c.tolist(), found.tolist(), strict=True)
        for low, high, count, result in rows:
            by = min(count, 32) if mode == "clamp" else count & 31
            both = high << 32 | low
            wanted = both << by >> 32 if direction == "l" else both >> by
            assert result == wanted & 0xFFFFFFFF


def test_all_tables_of_lop3() -> None:
    # Lanes 0 to 7 have the eight combinations of three bits.
    a, b, c = (lanes([-(lane >> shift & 1) for lane in range(32)], 32) for shift in (2, 1, 0))
    for table in range(256):
        found = execute(f"lop3.b32 %r0, %r1, %r2, %r3, {table};", r1=a, r2=b, r3=c)["r0"]
        assert (
            found.tolist() == lanes([-(table >> lane % 8 & 1) for lane in range(32)], 32).tolist()
        )


def test_lop3_with_a_predicate() -> None:
    q = np.arange(32) % 2 == 0
    a = lanes([0, 0, 4, 4], 32)
    for name, wanted in (("or", q | (a != 0)), ("and", q & (a != 0))):
        found = execute(f"lop3.{name}.b32 %r0|%p0, %r1, %r1, %r1, 0x80, %p1;", r1=a, p1=q)
        assert np.array_equal(found["p0"], wanted)
        assert np.array_equal(found["r0"], a)
    found = execute("lop3.and.b32 _|%p0, %r1, %r1, %r1, 0x80, !%p1;", r1=a, p1=q)
    assert np.array_equal(found["p0"], ~q & (a != 0))
    with pytest.raises(EmulationError, match="constant from 0 to 255"):
        execute("lop3.b32 %r0, %r1, %r1, %r1, %r1;")


def permuted(a: int, b: int, selector: int) -> int:
    octets = (b << 32 | a).to_bytes(8, "little")
    found = 0
    for at in range(4):
        nibble = selector >> 4 * at & 0xF
        octet = octets[nibble & 7]
        if nibble & 8:
            octet = 0xFF if octet & 0x80 else 0
        found |= octet << 8 * at
    return found


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 0xFFFF))
def test_permutation(a: int, b: int, selector: int) -> None:
    given_ = {"r1": lanes([a], 32), "r2": lanes([b], 32), "r3": lanes([selector], 32)}
    wanted = [permuted(a, b, selector)] * 32
    assert execute("prmt.b32 %r0, %r1, %r2, %r3;", **given_)["r0"].tolist() == wanted
    assert execute(f"prmt.b32 %r0, %r1, %r2, {selector};", **given_)["r0"].tolist() == wanted


MODES: dict[str, Callable[[int], list[int]]] = {
    "f4e": lambda c: [c, c + 1, c + 2, c + 3],
    "b4e": lambda c: [c, (c - 1) % 8, (c - 2) % 8, (c - 3) % 8],
    "rc8": lambda c: [c] * 4,
    "ecl": lambda c: [max(c, at) for at in range(4)],
    "ecr": lambda c: [min(c, at) for at in range(4)],
    "rc16": lambda c: [2 * (c % 2), 2 * (c % 2) + 1] * 2,
}


@pytest.mark.parametrize("mode", MODES)
def test_permutation_modes(mode: str) -> None:
    a, b, c = lanes([0x83828180], 32), lanes([0x87868584], 32), lanes(range(32), 32)
    found = execute(f"prmt.b32.{mode} %r0, %r1, %r2, %r3;", r1=a, r2=b, r3=c)["r0"]
    for control, word in enumerate(found.tolist()):
        wanted = [0x80 + source for source in MODES[mode](control % 4)]
        assert list(word.to_bytes(4, "little")) == wanted
        text = f"prmt.b32.{mode} %r0, %r1, %r2, {control};"
        assert execute(text, r1=a, r2=b)["r0"].tolist() == [word] * 32

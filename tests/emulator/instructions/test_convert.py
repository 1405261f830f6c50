"""Conversions between integers and floating-point numbers, against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from schedgen.emulator.machine.lanes import EmulationError
from tests.emulator.instructions.exact import (
    FORMATS,
    MODES,
    PREFIX,
    infinity,
    is_finite,
    rounded,
    samples,
    value,
)
from tests.emulator.instructions.execution import execute, lanes, signed
from tests.emulator.instructions.forms import INTEGERS, register

ALL = ["u8", "s8", *INTEGERS]
EDGES = [0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, -32768, 65535, 0x7FFFFFFF, -0x80000000]
LONG = [*EDGES, 0xFFFFFFFF, 2**53 + 1, 2**62 + 2**38 + 1, -(2**62) - 2**38, 2**63 - 1, -(2**63)]


def limits(type_: str) -> tuple[int, int]:
    bits = int(type_[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if type_[0] == "s" else (0, (1 << bits) - 1)


def wide(type_: str) -> str:
    """The narrowest type of a register that holds it."""
    return {"u8": "u16", "s8": "s16"}.get(type_, type_)


def seen(word: int, type_: str) -> int:
    bits = int(type_[1:])
    return signed(word, bits) if type_[0] == "s" else word & (1 << bits) - 1


@pytest.mark.parametrize("to", ALL)
def test_between_integers(to: str) -> None:
    for source in ALL:
        if source == to:
            continue
        r, held = register(wide(source)), int(wide(source)[1:])
        a = lanes(LONG, held)
        d = register(wide(to))
        given_: dict[str, Any] = {f"{r}1": a}
        values = [seen(word, source) for word in a.tolist()]
        found = execute(f"cvt.{to}.{source} %{d}0, %{r}1;", **given_)[f"{d}0"]
        wanted = [seen(v, to) for v in values]
        assert found.tolist() == lanes(wanted, int(wide(to)[1:])).tolist(), (to, source)
        low, high = limits(to)
        found = execute(f"cvt.sat.{to}.{source} %{d}0, %{r}1;", **given_)[f"{d}0"]
        wanted = [max(low, min(high, v)) for v in values]
        assert found.tolist() == lanes(wanted, int(wide(to)[1:])).tolist(), (to, source)


def test_registers_wider_than_the_type() -> None:
    a = lanes([0x1FF, 0x7F, -1], 32)
    found = execute("cvt.s8.s32 %rs0, %r1; cvt.u8.u32 %rd0, %r1; cvt.s8.s32 %rd1, %r1;", r1=a)
    assert found["rs0"].tolist()[:3] == [0xFFFF, 0x7F, 0xFFFF]
    assert found["rd0"].tolist()[:3] == [0xFF, 0x7F, 0xFF]
    assert found["rd1"].tolist()[:3] == [2**64 - 1, 0x7F, 2**64 - 1]
    half = execute("cvt.rn.f16.f32 %r0, %f1;", f1=np.full(32, -2, np.float32))["r0"]
    assert half.tolist() == [0xC000] * 32  # extended by zeros
    assert execute("cvt.f32.f16 %f0, %r1;", r1=half)["f0"].view(np.float32)[0] == -2


@pytest.mark.parametrize(("to", "mode"), [*product(("f16", "bf16", "f32", "f64"), MODES)])
def test_integers_to_floats(to: str, mode: str) -> None:
    for source in INTEGERS:
        r, bits = register(source), int(source[1:])
        given_: dict[str, Any] = {f"{r}1": lanes([*LONG, *(v + 3 for v in LONG)], bits)}
        text = f"cvt.{mode}.{to}.{source} %{PREFIX[to]}0, %{r}1;"
        found = execute(text, **given_)[f"{PREFIX[to]}0"]
        for word, result in zip(given_[f"{r}1"].tolist(), found.tolist(), strict=True):
            exact = seen(word, source)
            assert result == (rounded(Fraction(exact), to, mode) if exact else 0), (text, exact)


ROUND = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


@pytest.mark.parametrize("source", PREFIX)
@pytest.mark.parametrize("mode", ROUND)
def test_floats_to_integers(source: str, mode: str) -> None:
    codes = samples(source, 3)
    top = 1 << FORMATS[source][0] - 1
    given_: dict[str, Any] = {f"{PREFIX[source]}1": codes}
    for to in ALL if source != "bf16" else INTEGERS:
        d, bits = register(wide(to)), int(to[1:])
        text = f"cvt.{mode}.{to}.{source} %{d}0, %{PREFIX[source]}1;"
        found = execute(text, **given_)[f"{d}0"]
        low, high = limits(to)
        for code, result in zip(codes.tolist(), found.tolist(), strict=True):
            if is_finite(code, source):
                wanted = max(low, min(high, ROUND[mode](value(code, source))))
            elif code & ~top == infinity(source):
                wanted = low if code & top else high
            else:
                wanted = 1 << bits - 1 if source == "f64" or bits == 64 else 0
                wanted = signed(wanted, bits) if to[0] == "s" else wanted
            assert result == wanted & (1 << int(wide(to)[1:])) - 1, (text, hex(code))


@pytest.mark.parametrize(("to", "source"), [*product(PREFIX, PREFIX)])
def test_between_floats(to: str, source: str) -> None:
    narrower = FORMATS[to][1] < FORMATS[source][1] or (to, source) == ("f16", "bf16")
    if to == source:
        return
    for mode in MODES if narrower else [""]:
        for seed in range(4):
            codes = samples(source, seed)
            if {to, source} == {"f16", "bf16"}:
                dotted = f".{mode or 'rn'}"
            else:
                dotted = f".{mode}" if mode else ""
            text = f"cvt{dotted}.{to}.{source} %{PREFIX[to]}0, %{PREFIX[source]}1;"
            given_: dict[str, Any] = {f"{PREFIX[source]}1": codes}
            found = execute(text, **given_)[f"{PREFIX[to]}0"]
            for code, result in zip(codes.tolist(), found.tolist(), strict=True):
                if is_finite(code, source) and value(code, source):
                    wanted = rounded(value(code, source), to, mode or "rn")
                    assert result == wanted, (text, hex(code))
                elif is_finite(code, source):
                    sign = code >> FORMATS[source][0] - 1
                    assert result == sign << FORMATS[to][0] - 1


@pytest.mark.parametrize("type_", ["f32", "f64", "f16", "bf16"])
def test_floats_rounded_to_integers(type_: str) -> None:
    codes = samples(type_, 4)
    r = PREFIX[type_]
    given_: dict[str, Any] = {f"{r}1": codes}
    for mode, function in ROUND.items():
        found = execute(f"cvt.{mode}.{type_}.{type_} %{r}0, %{r}1;", **given_)[f"{r}0"]
        for code, result in zip(codes.tolist(), found.tolist(), strict=True):
            if is_finite(code, type_):
                assert value(result, type_) == function(value(code, type_))
                assert (code ^ result) >> FORMATS[type_][0] - 1 == 0  # zeros keep the sign


def test_flushing_and_saturation() -> None:
    a = np.resize(np.array([1, 0x80000001, 0x3F000000, 0xBF800000, 0x7FC00000], np.uint32), 32)
    found = execute("cvt.ftz.f32.f32 %f0, %f1; cvt.ftz.sat.f32.f32 %f4, %f1;", f1=a)
    assert found["f0"].tolist()[:5] == [0, 0x80000000, 0x3F000000, 0xBF800000, 0x7FFFFFFF]
    assert found["f4"].tolist()[:5] == [0, 0, 0x3F000000, 0, 0]
    found = execute("cvt.ftz.f64.f32 %fd0, %f1; cvt.rpi.ftz.s32.f32 %r0, %f1;", f1=a)
    assert found["fd0"].view(np.float64).tolist()[:3] == [0, -0.0, 0.5]
    assert found["r0"].tolist()[:3] == [0, 0, 1]
    tiny = np.full(32, 1e-40)
    assert execute("cvt.rn.ftz.f32.f64 %f0, %fd1;", fd1=tiny)["f0"].tolist() == [0] * 32
    brain = np.full(32, 1, np.uint16)
    found = execute("cvt.f32.bf16 %f0, %rs1; cvt.ftz.f32.bf16 %f4, %rs1;", rs1=brain)
    assert (found["f0"][0], found["f4"][0]) == (0x10000, 0)


def test_canonical_nan() -> None:
    a = np.resize(np.array([0x7FC00000, 0xFF800001], np.uint32), 32)
    found = execute("cvt.rn.f16.f32 %rs0, %f1; cvt.rn.bf16.f32 %rs4, %f1;", f1=a)
    assert found["rs0"].tolist() == [0x7FFF] * 32
    assert found["rs4"].tolist() == [0x7FFF] * 32
    found = execute("cvt.f32.f16 %f0, %rs1;", rs1=np.full(32, 0xFC01, np.uint16))
    assert found["f0"].tolist() == [0x7FFFFFFF] * 32


@pytest.mark.parametrize("to", ["u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16"])
def test_packing_of_integers(to: str) -> None:
    a, b, c = lanes(EDGES, 32), lanes(EDGES[3:], 32), lanes([0xDEADBEEF], 32)
    bits = int(to[1:])
    third = "" if bits == 16 else ".b32"
    operand = "" if bits == 16 else ", %r3"
    found = execute(f"cvt.pack.sat.{to}.s32{third} %r0, %r1, %r2{operand};", r1=a, r2=b, r3=c)
    low, high = limits(to)
    for x, y, result in zip(a.tolist(), b.tolist(), found["r0"].tolist(), strict=True):
        upper, lower = (max(low, min(high, signed(v, 32))) & (1 << bits) - 1 for v in (x, y))
        rest = 0xDEADBEEF << 2 * bits if bits < 16 else 0
        assert result == (rest | upper << bits | lower) & 0xFFFFFFFF


@pytest.mark.parametrize(
    "text",
    [
        "cvt.s32.f32 %r0, %f1;",  # a rounding mode is needed
        "cvt.f32.s32 %f0, %r1;",
        "cvt.f16.f32 %rs0, %f1;",
        "cvt.rn.f64.f32 %fd0, %f1;",
        "cvt.rn.s32.s32 %r0, %r1;",
        "cvt.rzi.f32.f64 %f0, %fd1;",
        "cvt.rn.satfinite.f32.f64 %f0, %fd1;",
        "cvt.u32 %r0, %r1;",
        "cvt.u32.u64 %r0, %r1;",
        "cvt.u64.u32 %r0, %r1;",
        "cvt.rn.tf32.f64 %r0, %fd1;",
        "cvt.pack.sat.u16.s32 %r0, %r1, %r2, %r3;",
    ],
)
def test_forms_that_do_not_exist(text: str) -> None:
    with pytest.raises(EmulationError, match=rf"line \d+: {text.split(maxsplit=1)[0]}"):
        execute(text)

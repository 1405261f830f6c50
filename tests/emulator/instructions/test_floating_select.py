"""min, max, abs, neg, copysign and testp, against the pseudocode of the ISA."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from schedgen.emulator.machine.lanes import EmulationError
from tests.emulator.instructions.exact import FORMATS, PREFIX, infinity, is_finite, samples, value
from tests.emulator.instructions.execution import execute

CANONICAL = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF}


def is_nan(code: int, type_: str) -> bool:
    return code & (1 << FORMATS[type_][0] - 1) - 1 > infinity(type_)


def key(code: int, type_: str) -> tuple[float, int]:
    """Orders values, -0 below +0."""
    sign = code >> FORMATS[type_][0] - 1
    magnitude = float(value(code, type_)) if is_finite(code, type_) else (-1) ** sign * math.inf
    return magnitude, -sign


def picked(a: int, b: int, type_: str, largest: bool, keep_nan: bool) -> int | None:
    """A code, or None for NaN."""
    nans = is_nan(a, type_), is_nan(b, type_)
    if all(nans) or (keep_nan and any(nans)):
        return None
    if any(nans):
        return b if nans[0] else a
    first, last = sorted((a, b), key=lambda code: key(code, type_))
    return last if largest else first


@pytest.mark.parametrize("type_", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("extra", ["", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"])
@pytest.mark.parametrize("name", ["min", "max"])
def test_extremes(name: str, extra: str, type_: str) -> None:
    r, top = PREFIX[type_], 1 << FORMATS[type_][0] - 1
    for seed in range(8):
        a, b = samples(type_, 2 * seed), samples(type_, 2 * seed + 1)
        b[:8] = a[:8] ^ np.array(top, a.dtype)  # equal magnitudes
        text = f"{name}{extra}.{type_} %{r}0, %{r}1, %{r}2;"
        given_: dict[str, Any] = {f"{r}1": a, f"{r}2": b}
        found = execute(text, **given_)[f"{r}0"]
        for x, y, result in zip(a.tolist(), b.tolist(), found.tolist(), strict=True):
            if "abs" in extra:
                code = picked(x & ~top, y & ~top, type_, name == "max", "NaN" in extra)
                code = code if code is None else code | (x ^ y) & top
            else:
                code = picked(x, y, type_, name == "max", "NaN" in extra)
            assert result == (CANONICAL[type_] if code is None else code), (text, x, y)


def test_doubles() -> None:
    a, b = samples("f64", 1, 64)[:32], samples("f64", 2, 64)[:32]
    found = execute("max.f64 %fd0, %fd1, %fd2;", fd1=a, fd2=b)["fd0"]
    for x, y, result in zip(a.tolist(), b.tolist(), found.tolist(), strict=True):
        code = picked(x, y, "f64", True, False)
        assert is_nan(result, "f64") if code is None else result == code


@pytest.mark.parametrize("extra", ["", ".NaN", ".abs", ".NaN.abs"])
def test_three_operands(extra: str) -> None:
    a, b, c = (samples("f32", n) for n in (1, 2, 3))
    found = execute(f"max{extra}.f32 %f0, %f1, %f2, %f3;", f1=a, f2=b, f3=c)["f0"]
    mask = 0x7FFFFFFF if "abs" in extra else 0xFFFFFFFF
    for *row, result in zip(*(v.tolist() for v in (a, b, c, found)), strict=True):
        x, y, z = (code & mask for code in row)
        code = picked(x, y, "f32", True, "NaN" in extra)
        code = picked(0x7FFFFFFF if code is None else code, z, "f32", True, "NaN" in extra)
        assert result == (0x7FFFFFFF if code is None else code)


def test_flushing() -> None:
    a = np.resize(np.array([1, 0x80000001, 0x007FFFFF], np.uint32), 32)
    found = execute("max.ftz.f32 %f0, %f1, %f2; abs.ftz.f32 %f4, %f1;", f1=a, f2=a)
    assert found["f0"].tolist()[:3] == [0, 0x80000000, 0]
    assert found["f4"].tolist()[:3] == [0, 0, 0]
    half = np.resize(np.array([1, 0x8001, 0x0400], np.uint16), 32)
    assert execute("neg.ftz.f16 %rs0, %rs1;", rs1=half)["rs0"].tolist()[:3] == [0x8000, 0, 0x8400]


@pytest.mark.parametrize("type_", ["f16", "bf16"])
def test_pairs_are_two_halves(type_: str) -> None:
    a, b = samples(type_, 1, 64), samples(type_, 2, 64)
    for name in ("min.NaN", "max.xorsign.abs", "abs", "neg"):
        one = name in ("abs", "neg")
        second = "" if one else ", %r2"
        both = execute(
            f"{name}.{type_}x2 %r0, %r1{second};", r1=a.view(np.uint32), r2=b.view(np.uint32)
        )
        for at in (0, 1):
            second = "" if one else ", %rs2"
            half = execute(f"{name}.{type_} %rs0, %rs1{second};", rs1=a[at::2], rs2=b[at::2])
            assert np.array_equal(both["r0"].view(np.uint16)[at::2], half["rs0"])


@pytest.mark.parametrize("type_", ["f32", "f64", "f16", "bf16"])
def test_signs(type_: str) -> None:
    r, top = PREFIX[type_], 1 << FORMATS[type_][0] - 1
    a = samples(type_, 5)
    given_: dict[str, Any] = {f"{r}1": a}
    absolute = execute(f"abs.{type_} %{r}0, %{r}1;", **given_)[f"{r}0"].tolist()
    negative = execute(f"neg.{type_} %{r}0, %{r}1;", **given_)[f"{r}0"].tolist()
    for code, x, y in zip(a.tolist(), absolute, negative, strict=True):
        if is_nan(code, type_):
            assert is_nan(x, type_)
            assert is_nan(y, type_)
        else:
            assert (x, y) == (code & ~top, code ^ top)


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_properties(type_: str) -> None:
    r = PREFIX[type_]
    a, b = samples(type_, 7), samples(type_, 8)
    given_: dict[str, Any] = {f"{r}1": a, f"{r}2": b}

    def holds(name: str) -> list[bool]:
        return execute(f"testp.{name}.{type_} %p0, %{r}1;", **given_)["p0"].tolist()

    codes = a.tolist()
    top, mantissa = 1 << FORMATS[type_][0] - 1, FORMATS[type_][1]
    finite = [is_finite(code, type_) for code in codes]
    nan = [is_nan(code, type_) for code in codes]
    subnormal = [0 < code & ~top < 1 << mantissa for code in codes]
    assert holds("finite") == finite
    assert holds("notanumber") == nan
    assert holds("number") == [not n for n in nan]
    assert holds("infinite") == [code & ~top == infinity(type_) for code in codes]
    assert holds("subnormal") == subnormal
    assert holds("normal") == [f and not s for f, s in zip(finite, subnormal, strict=True)]
    found = execute(f"copysign.{type_} %{r}0, %{r}1, %{r}2;", **given_)[f"{r}0"]
    wanted = [x & top | y & ~top for x, y in zip(codes, b.tolist(), strict=True)]
    assert found.tolist() == wanted


@pytest.mark.parametrize(
    "text",
    [
        "min.xorsign.f32 %f0, %f1, %f2;",
        "max.abs.f32 %f0, %f1, %f2;",
        "max.NaN.f64 %fd0, %fd1, %fd2;",
        "max.xorsign.abs.f32 %f0, %f1, %f2, %f3;",
        "abs.ftz.bf16 %rs0, %rs1;",
    ],
)
def test_forms_that_do_not_exist(text: str) -> None:
    with pytest.raises(EmulationError):
        execute(text)

"""Comparison and selection, against definitions over Python numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from schedgen.emulator.machine.lanes import EmulationError
from tests.emulator.instructions.exact import FORMATS, PREFIX, infinity, is_finite, samples, value
from tests.emulator.instructions.execution import execute, lanes, signed
from tests.emulator.instructions.forms import CMP, INTEGERS, UNORDERED, register

EDGES = [0, 1, -1, 5, -5, 0x7FFF, -0x8000, 0x7FFFFFFF, -0x80000000, 2**63 - 1, -(2**63)]
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
}


def number(code: int, type_: str) -> float:
    """The value of a code, infinite and NaN ones too."""
    width, _, _ = FORMATS[type_]
    if is_finite(code, type_):
        return float(value(code, type_))
    magnitude = code & (1 << width - 1) - 1
    if magnitude > infinity(type_):
        return math.nan
    return -math.inf if code >> width - 1 else math.inf


def holds(name: str, x: float, y: float) -> bool:
    """A comparison by PTX ISA 9.3.1.2."""
    unordered = math.isnan(x) or math.isnan(y)
    if name in ("num", "nan"):
        return unordered == (name == "nan")
    if name.endswith("u"):
        return unordered or COMPARE[name[:-1]](x, y)
    return not unordered and COMPARE[name](x, y)


@pytest.mark.parametrize("type_", INTEGERS)
def test_integers(type_: str) -> None:
    r, bits = register(type_), int(type_[1:])
    a, b = lanes(EDGES, bits), lanes([*EDGES[3:], *EDGES[:1]], bits)
    given_: dict[str, Any] = {f"{r}1": a, f"{r}2": b}
    names = [*CMP, *(["lo", "ls", "hi", "hs"] if type_[0] == "u" else [])]
    for name in names:
        found = execute(f"setp.{name}.{type_} %p0, %{r}1, %{r}2;", **given_)["p0"]
        rows = zip(a.tolist(), b.tolist(), strict=True)
        values = [
            (signed(x, bits), signed(y, bits)) if type_[0] == "s" else (x, y) for x, y in rows
        ]
        assert found.tolist() == [COMPARE[name](x, y) for x, y in values]


@pytest.mark.parametrize("type_", ["f32", "f64", "f16", "bf16"])
def test_floats(type_: str) -> None:
    r = PREFIX[type_]
    for seed in range(4):
        a, b = samples(type_, 2 * seed), samples(type_, 2 * seed + 1)
        b[:6] = a[:6]
        given_: dict[str, Any] = {f"{r}1": a, f"{r}2": b}
        for name in (*CMP, *UNORDERED):
            found = execute(f"setp.{name}.{type_} %p0, %{r}1, %{r}2;", **given_)["p0"]
            rows = zip(a.tolist(), b.tolist(), strict=True)
            wanted = [holds(name, number(x, type_), number(y, type_)) for x, y in rows]
            assert found.tolist() == wanted, name


@pytest.mark.parametrize("type_", ["f16", "bf16"])
def test_pairs(type_: str) -> None:
    a, b = samples(type_, 1, 64), samples(type_, 2, 64)
    given_: dict[str, Any] = {"r1": a.view(np.uint32), "r2": b.view(np.uint32)}
    given_["p1"] = np.arange(32) % 2 == 0
    found = execute(f"setp.leu.and.{type_}x2 %p0|%p2, %r1, %r2, !%p1;", **given_)
    for at, name in ((0, "p0"), (1, "p2")):
        rows = zip(a[at::2].tolist(), b[at::2].tolist(), strict=True)
        wanted = [holds("leu", number(x, type_), number(y, type_)) for x, y in rows]
        assert found[name].tolist() == [w and lane % 2 == 1 for lane, w in enumerate(wanted)]
    flags = execute(f"set.leu.u32.{type_}x2 %r0, %r1, %r2;", **given_)["r0"].view(np.uint16)
    ones = execute(f"set.leu.{type_}x2.{type_}x2 %r0, %r1, %r2;", **given_)["r0"].view(np.uint16)
    one = 0x3C00 if type_ == "f16" else 0x3F80
    for x, y, flag, code in zip(a.tolist(), b.tolist(), flags.tolist(), ones.tolist(), strict=True):
        wanted = holds("leu", number(x, type_), number(y, type_))
        assert (flag, code) == ((0xFFFF, one) if wanted else (0, 0))


@pytest.mark.parametrize("join", ["and", "or", "xor"])
def test_joined_with_a_predicate(join: str) -> None:
    a, b, c = lanes([1, 2, 3], 32), lanes([2], 32), np.arange(32) % 2 == 0
    combine = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[join]
    less = a < b
    found = execute(f"setp.lt.{join}.u32 %p0|%p2, %r1, %r2, %p1;", r1=a, r2=b, p1=c)
    assert np.array_equal(found["p0"], combine(less, c))
    assert np.array_equal(found["p2"], combine(~less, c))
    found = execute(f"setp.lt.{join}.u32 _|%p2, %r1, %r2, !%p1;", r1=a, r2=b, p1=c)
    assert np.array_equal(found["p2"], combine(~less, ~c))
    found = execute(f"set.lt.{join}.f32.u32 %f0, %r1, %r2, %p1;", r1=a, r2=b, p1=c)
    assert np.array_equal(found["f0"].view(np.float32), combine(less, c).astype(np.float32))
    found = execute(f"set.lt.{join}.s32.u32 %r0, %r1, %r2, %p1;", r1=a, r2=b, p1=c)
    assert np.array_equal(found["r0"] == 0xFFFFFFFF, combine(less, c))


def test_flushing() -> None:
    subnormal, zero = lanes([1], 32), lanes([0x80000000], 32)
    found = execute(
        "setp.eq.f32 %p0, %f1, %f2; setp.eq.ftz.f32 %p2, %f1, %f2;", f1=subnormal, f2=zero
    )
    assert (found["p0"][0], found["p2"][0]) == (False, True)
    half = np.full(32, 1, np.uint16)
    found = execute("setp.gt.f16 %p0, %rs1, 0; setp.gt.ftz.f16 %p2, %rs1, 0;", rs1=half)
    assert (found["p0"][0], found["p2"][0]) == (True, False)


def test_selection() -> None:
    p = np.arange(32) % 3 == 0
    a, b = lanes(range(32), 64), lanes([7], 64)
    found = execute("selp.b64 %rd0, %rd1, %rd2, %p1;", rd1=a, rd2=b, p1=p)["rd0"]
    assert np.array_equal(found, np.where(p, a, b))
    found = execute("selp.f32 %f0, 0f3F800000, 0f00000000, !%p1;", p1=p)["f0"].view(np.float32)
    assert np.array_equal(found, (~p).astype(np.float32))
    c = np.resize(np.array([0.0, -0.0, 1, -1, math.nan, -1e-40], np.float32), 32)
    found = execute("slct.b32.f32 %r0, 1, 2, %f1; slct.ftz.b32.f32 %r2, 1, 2, %f1;", f1=c)
    assert found["r0"].tolist()[:6] == [1, 1, 1, 2, 2, 2]
    assert found["r2"].tolist()[:6] == [1, 1, 1, 2, 2, 1]
    found = execute("slct.u64.s32 %rd0, %rd1, %rd2, %r1;", rd1=a, rd2=b, r1=lanes([0, -1], 32))
    assert found["rd0"].tolist()[:4] == [0, 7, 2, 7]


def test_inactive_lanes_keep_their_predicates() -> None:
    active = np.arange(32) < 8
    found = execute("setp.eq.s32 %p0, %r1, %r1;", active=active, r1=lanes([3], 32))
    assert np.array_equal(found["p0"], active)


@pytest.mark.parametrize(
    "text",
    [
        "setp.lo.s32 %p0, %r1, %r2;",
        "setp.lt.b32 %p0, %r1, %r2;",
        "setp.equ.u32 %p0, %r1, %r2;",
        "setp.lt.nand.s32 %p0, %r1, %r2, %p1;",
        "setp.lt.and.s32 %p0, %r1, %r2;",
        "setp.lt.ftz.f64 %p0, %fd1, %fd2;",
        "setp.lt.s32 %r0, %r1, %r2;",
        "set.lt.u64.s32 %rd0, %r1, %r2;",
        "selp.pred %p0, %p1, %p2, %p3;",
        "slct.s32 %r0, %r1, %r2, %r3;",
    ],
)
def test_forms_that_do_not_exist(text: str) -> None:
    with pytest.raises(EmulationError):
        execute(text)

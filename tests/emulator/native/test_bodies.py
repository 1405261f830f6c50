"""Instructions as machine code give the bits of numpy, form by form, on awkward operands."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from schedgen.emulator.machine.elementwise import Elementwise, described
from schedgen.emulator.machine.lanes import Decoder, WarpState
from schedgen.emulator.native.bodies import bodies
from schedgen.emulator.native.engine import engine
from schedgen.emulator.native.lowering import lowered
from schedgen.emulator.native.runs import calls_of, native, prepared
from tests.emulator.instructions.execution import ALL, Warp, decoded_all

KINDS = {"16": "rs", "32": "r", "64": "rd"}
SPECIAL = np.array(
    [
        0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001,
        0x00000001, 0x807FFFFF, 0x00800000, 0x80800000, 0x3F800000, 0xBF800000, 0x7F7FFFFF,
        0xFF7FFFFF, 0x33800000, 0x477FE000, 0x477FF000, 0x387FC000, 0x33000000, 0x42FE0000,
        0xC2FC0000, 0xC3160000, 0x43000000, 0x3F808000, 0x3F818000, 0x0000FFFF, 0xFFFFFFFF,
        0x7FFFFFFF, 0x00000020, 0x0000001F, 0x00000040,
    ],
    np.uint32,
)  # fmt: skip
"""Zeros, infinities, NaNs, subnormal and largest values, ties of narrow types, widths."""


def _integers() -> Iterator[str]:
    for bits, r in KINDS.items():
        for sign in "us":
            type_ = f"{sign}{bits}"
            for opcode in ("add", "sub", "mul.lo", "min", "max"):
                yield f"{opcode}.{type_} %{r}0, %{r}1, %{r}2;"
            yield f"mad.lo.{type_} %{r}0, %{r}1, %{r}2, %{r}3;"
            yield f"add.{type_} %{r}0, %{r}1, -3;"
            if bits != "64":
                wide = KINDS[str(2 * int(bits))]
                yield f"mul.hi.{type_} %{r}0, %{r}1, %{r}2;"
                yield f"mul.wide.{type_} %{wide}0, %{r}1, %{r}2;"
            yield f"shr.{type_} %{r}0, %{r}1, %r2;"
            for by in (0, 3, int(bits) - 1, int(bits), 200):
                yield f"shr.{type_} %{r}0, %{r}1, {by};"
            for operator in ("eq", "ne", "lt", "le", "gt", "ge"):
                yield f"setp.{operator}.{type_} %p0, %{r}1, %{r}2;"
        for operator in ("lo", "ls", "hi", "hs"):
            yield f"setp.{operator}.u{bits} %p0, %{r}1, %{r}2;"
        yield f"neg.s{bits} %{r}0, %{r}1;"
        for opcode in ("and", "or", "xor"):
            yield f"{opcode}.b{bits} %{r}0, %{r}1, %{r}2;"
            yield f"{opcode}.b{bits} %{r}0, %{r}1, 112;"
        yield f"not.b{bits} %{r}0, %{r}1;"
        yield f"shl.b{bits} %{r}0, %{r}1, %r2;"
        yield f"shl.b{bits} %{r}0, %{r}1, {int(bits) - 1};"
        yield f"shr.b{bits} %{r}0, %{r}1, %r2;"
        yield f"setp.ne.b{bits} %p0, %{r}1, %{r}2;"
        yield f"selp.b{bits} %{r}0, %{r}1, %{r}2, %p1;"
        yield f"selp.b{bits} %{r}0, 1, %{r}2, %p1;"
        yield f"mov.b{bits} %{r}0, %{r}1;"
        yield f"mov.b{bits} %{r}0, 7;"
        for other, s in KINDS.items():
            for signs in ("uu", "us", "su", "ss"):
                yield f"cvt.{signs[0]}{bits}.{signs[1]}{other} %{r}0, %{s}1;"
    for opcode in ("and", "or", "xor"):
        yield f"{opcode}.pred %p0, %p1, %p2;"
    yield "not.pred %p0, %p1;"
    yield "mov.pred %p0, %p1;"
    yield "mov.pred %p0, -1;"
    yield "mov.b64 %rd0, {%r1, %r2};"
    yield "mov.b64 {%r0, %r1}, %rd2;"
    yield "mov.b64 {_, %r0}, %rd2;"
    yield "mov.b64 {%r0, _}, %rd2;"
    yield "mov.b32 %r0, {%rs1, %rs2};"
    yield "mov.b32 {%rs0, %rs1}, %r2;"
    for table in (0x00, 0x01, 0x96, 0xCA, 0xE8, 0xF8, 0x80, 0xFF):
        yield f"lop3.b32 %r0, %r1, %r2, %r3, {table:#x};"
    for selector in (0x5410, 0x7632, 0x3210, 0x0123, 0xBA98, 0xFEDC, 0x7531, 0x8F08):
        yield f"prmt.b32 %r0, %r1, %r2, {selector:#x};"


def _floats() -> Iterator[str]:
    for opcode in ("add", "sub", "mul"):
        for modifiers in (".f32", ".rn.f32"):
            yield f"{opcode}{modifiers} %f0, %f1, %f2;"
        yield f"{opcode}.f32 %f0, %f1, 0f3F8CCCCD;"
        yield f"{opcode}.rn.f32x2 %rd0, %rd1, %rd2;"
    yield "fma.rn.f32 %f0, %f1, %f2, %f3;"
    yield "mad.rn.f32 %f0, %f1, %f2, %f3;"
    yield "fma.rn.f32x2 %rd0, %rd1, %rd2, %rd3;"
    yield "div.rn.f32 %f0, %f1, %f2;"
    yield "div.full.f32 %f0, %f1, %f2;"
    for opcode in ("min", "max"):
        for modifiers in (".f32", ".NaN.f32"):
            yield f"{opcode}{modifiers} %f0, %f1, %f2;"
            yield f"{opcode}{modifiers} %f0, %f1, 0fC2FE0000;"
    for operator in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu",
                     "num", "nan"):  # fmt: skip
        yield f"setp.{operator}.f32 %p0, %f1, %f2;"
    yield "abs.f32 %f0, %f1;"
    yield "neg.f32 %f0, %f1;"
    yield "selp.f32 %f0, %f1, 0f3F800000, %p1;"
    for opcode in ("ex2", "lg2", "rcp", "sqrt", "rsqrt", "sin", "cos"):
        for flush in ("", ".ftz"):
            yield f"{opcode}.approx{flush}.f32 %f0, %f1;"
    yield "tanh.approx.f32 %f0, %f1;"
    yield "cvt.f32.bf16 %f0, %rs1;"
    yield "cvt.f32.f16 %f0, %rs1;"
    yield "cvt.rn.f32.s32 %f0, %r1;"
    yield "cvt.rn.f32.u32 %f0, %r1;"
    for narrow in ("bf16", "f16"):
        yield f"cvt.rn.{narrow}.f32 %rs0, %f1;"
        yield f"cvt.rn.{narrow}x2.f32 %r0, %f1, %f2;"


FORMS = (*_integers(), *_floats())
LEFT = (
    "add.ftz.f32 %f0, %f1, %f2;",
    "add.rz.f32 %f0, %f1, %f2;",
    "add.rm.f32 %f0, %f1, %f2;",
    "add.sat.f32 %f0, %f1, %f2;",
    "fma.rp.f32 %f0, %f1, %f2, %f3;",
    "fma.rn.ftz.f32 %f0, %f1, %f2, %f3;",
    "max.ftz.f32 %f0, %f1, %f2;",
    "max.f32 %f0, %f1, %f2, %f3;",
    "min.relu.s32 %r0, %r1, %r2;",
    "add.sat.s32 %r0, %r1, %r2;",
    "add.f64 %fd0, %fd1, %fd2;",
    "setp.lt.ftz.f32 %p0, %f1, %f2;",
    "setp.lt.f64 %p0, %fd1, %fd2;",
    "cvt.rz.bf16x2.f32 %r0, %f1, %f2;",
    "cvt.rn.relu.bf16x2.f32 %r0, %f1, %f2;",
    "cvt.sat.u16.s32 %rs0, %r1;",
    "cvt.rni.s32.f32 %r0, %f1;",
    "ex2.approx.ftz.bf16x2 %r0, %r1;",
    "div.s32 %r0, %r1, %r2;",
    "prmt.b32.f4e %r0, %r1, %r2, 1;",
    "mul.hi.s64 %rd0, %rd1, %rd2;",
)
"""What numpy computes: modifiers and types that no body knows."""


@cache
def _steps() -> tuple[Decoder, dict[str, Elementwise]]:
    decoder, steps = decoded_all(FORMS)
    found: dict[str, Elementwise] = {}
    for text, (step,) in zip(FORMS, steps, strict=True):
        assert isinstance(step, Elementwise), text
        found[text] = step
    prepared(found.values())
    return decoder, found


def _operands(decoder: Decoder, values: np.random.Generator) -> dict[str, NDArray[np.uint64]]:
    found: dict[str, NDArray[np.uint64]] = {}
    for name in decoder.slot:
        match int(values.integers(4)):
            case 0:
                words = values.choice(SPECIAL, 64)
            case 1:
                words = values.standard_normal(64).astype(np.float32).view(np.uint32)
            case 2:
                words = values.integers(0, 64, 64).astype(np.uint32)
            case _:
                words = values.integers(0, 1 << 32, 64).astype(np.uint32)
        found[name] = words.view(np.uint64)
    return found


def _filled(
    decoder: Decoder, lanes: NDArray[np.bool_], data: dict[str, NDArray[np.uint64]]
) -> Warp:
    warp = Warp(decoder, lanes)
    for name, bits in data.items():
        if decoder.types[decoder.slot[name]] != "b128":
            warp[name[1:]] = bits & np.uint64(1) if name.startswith("%p") else bits
    return warp


def _same(one: WarpState, other: WarpState, text: str) -> None:
    for first, second in zip(one.registers, other.registers, strict=True):
        assert first.dtype == second.dtype
        assert first.tobytes() == second.tobytes(), text


def test_there_is_an_engine() -> None:
    """Where tests run, what they test has to be there."""
    assert engine() is not None


@pytest.mark.medium
@pytest.mark.parametrize("full", [True, False], ids=["all lanes", "some lanes"])
def test_forms(full: bool) -> None:
    values, made = np.random.default_rng(0), engine()
    decoder, steps = _steps()
    for text, step in steps.items():
        if calls_of(step) is None and made is not None and not made.half and "f16" in text:
            continue
        run = native([step], None)
        assert run is not None, text
        for _ in range(6):
            lanes = ALL if full else values.random(32) < 0.5
            data = _operands(decoder, values)
            one, other = _filled(decoder, lanes, data), _filled(decoder, lanes, data)
            with np.errstate(all="ignore"):
                step(one)
            done = run.full(other.registers) if full else run.masked(lanes, other.registers)
            assert done is True
            _same(one, other, text)


def test_bodies_are_tested() -> None:
    """Every body belongs to a form above, but for what puts results into some lanes."""
    used: set[str] = set()
    for step in _steps()[1].values():
        used |= {call.body for call in lowered(described(step.key), step) or ()}
    numbered = {name for name in used if name.split(".")[0] in ("lop3", "prmt")}
    assert len(numbered) == 16
    left = {name for name in bodies() if name not in used}
    assert {name.split(".")[0] for name in left} == {"put"}


@pytest.mark.parametrize("text", LEFT)
def test_what_is_left_to_numpy(text: str) -> None:
    decoder, ((step,),) = decoded_all((text,))
    assert not isinstance(step, Elementwise) or calls_of(step) is None
    assert decoder

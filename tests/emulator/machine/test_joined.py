"""Elementwise instructions that are computed together give what they give one after the other."""

from __future__ import annotations

import random

import numpy as np
import pytest

from schedgen.emulator.machine.elementwise import Elementwise
from schedgen.emulator.machine.joined import Functions, Joined
from schedgen.emulator.machine.lanes import Lanes
from schedgen.emulator.native.runs import split
from tests.emulator.instructions.execution import ALL, Warp, decoded_all, decoded_twice

FORMS = (
    "add.f32 %f{}, %f{}, %f{};",
    "fma.rn.f32 %f{}, %f{}, %f{}, 0f3F8CCCCD;",
    "max.NaN.f32 %f{}, %f{}, %f{};",
    "ex2.approx.ftz.f32 %f{}, %f{};",
    "mul.rn.f32x2 %rd{}, %rd{}, %rd{};",
    "cvt.rn.bf16x2.f32 %r{}, %f{}, %f{};",
    "cvt.f32.bf16 %f{}, %rs{};",
    "cvt.rni.s32.f32 %r{}, %f{};",
    "mov.b64 %rd{}, {{%r{}, %r{}}};",
    "mov.b64 {{%r{}, %r{}}}, %rd{};",
    "mov.b64 {{_, %r{}}}, %rd{};",
    "mov.b64 {{%r{}, _}}, %rd{};",
    "mov.b32 {{%rs{}, %rs{}}}, %r{};",
    "mov.b32 %r{}, %f{};",
    "mov.u32 %r{}, 7;",
    "add.s32 %r{}, %r{}, 12;",
    "mad.lo.s32 %r{}, %r{}, %r{}, %r{};",
    "mul.hi.s32 %r{}, %r{}, %r{};",
    "mul.wide.u32 %rd{}, %r{}, %r{};",
    "shl.b32 %r{}, %r{}, 3;",
    "shr.s32 %r{}, %r{}, %r{};",
    "lop3.b32 %r{}, %r{}, %r{}, %r{}, 0x96;",
    "prmt.b32 %r{}, %r{}, %r{}, 0x5410;",
    "setp.lt.f32 %p{}, %f{}, %f{};",
    "selp.b32 %r{}, %r{}, %r{}, %p{};",
    "not.pred %p{}, %p{};",
    "add.f16x2 %r{}, %r{}, %r{};",
    "min.s16 %rs{}, %rs{}, %rs{};",
)
FEW = 4
"""Registers of each kind: results are overwritten, and most operands are earlier results."""


def _text(numbers: random.Random, count: int) -> str:
    chosen = numbers.choices(FORMS, k=count // 2)
    unrolled = [form for form in numbers.choices(FORMS, k=3) for _ in range(count // 6)]
    lines = [*chosen, *unrolled]
    return "\n".join(
        line.format(*(numbers.randrange(FEW) for _ in range(line.count("{}")))) for line in lines
    )


@pytest.mark.parametrize("compiled", [True, False], ids=["native", "numpy"])
@pytest.mark.parametrize("full", [True, False], ids=["all lanes", "some lanes"])
@pytest.mark.parametrize("seed", range(40))
def test_random_code(seed: int, full: bool, compiled: bool) -> None:
    numbers, values = random.Random(seed), np.random.default_rng(seed)
    decoder, (steps,) = decoded_all((_text(numbers, 60),))
    active = ALL if full else values.random(32) < 0.5
    one, other = Warp(decoder, active), Warp(decoder, active)
    for name in decoder.slot:
        bits = values.integers(0, 256, 8 * 32, np.uint8).view(np.uint64)
        if values.random() < 0.5:  # floats of ordinary size in each half
            bits = values.standard_normal(64).astype(np.float32).view(np.uint64)
        if decoder.types[decoder.slot[name]] != "b128":
            one[name[1:]] = other[name[1:]] = bits
    together = [step for step in steps if isinstance(step, Elementwise)]
    assert len(together) == len(steps)
    with np.errstate(all="ignore"):
        for step in steps:
            step(one)
        parts = split(together) if compiled else [together]
        for part in parts:
            Joined(part, compiled=compiled)(other)
    for first, second in zip(one.registers, other.registers, strict=True):
        assert first.dtype == second.dtype
        assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("full", [True, False], ids=["all lanes", "some lanes"])
def test_templates(full: bool) -> None:
    """Steps with other registers put in place do what those do that were decoded for them."""
    numbers, values = random.Random(0), np.random.default_rng(0)
    lines = [_text(numbers, 60) for _ in range(4)]
    decoder, steps, again = decoded_twice("\n".join(lines))
    active = ALL if full else values.random(32) < 0.5
    one, other = Warp(decoder, active), Warp(decoder, active)
    for name in decoder.slot:
        if decoder.types[decoder.slot[name]] != "b128":
            bits = values.integers(0, 256, 8 * 32, np.uint8).view(np.uint64)
            one[name[1:]] = other[name[1:]] = bits
    with np.errstate(all="ignore"):
        for step, template in zip(steps, again, strict=True):
            assert isinstance(template, Elementwise)
            step(one)
            template(other)
    for first, second in zip(one.registers, other.registers, strict=True):
        assert first.dtype == second.dtype
        assert first.tobytes() == second.tobytes()


def test_runs_that_differ_in_registers_share_a_function() -> None:
    text = "add.f32 %f{0}, %f{1}, 0f3F800000;\nmul.f32 %f{1}, %f{0}, %f{0};"
    decoder, (first, second) = decoded_all((text.format(1, 2), text.format(5, 3)))
    functions, warp = Functions(), Warp(decoder, ALL)
    warp["f2"], warp["f3"] = np.full(32, 2, np.float32), np.full(32, 3, np.float32)
    for steps in (first, second):
        Joined([step for step in steps if isinstance(step, Elementwise)], functions)(warp)
    assert [warp[name].view(np.float32)[0] for name in ("f1", "f2", "f5", "f3")] == [3, 9, 4, 16]


def test_what_is_alike_is_computed_once() -> None:
    lines = [f"add.f32 %f{i}, %f{i}, 0f3F800000;\nmul.f32 %f{i}, %f{i}, %f{i};" for i in range(8)]
    decoder, (steps,) = decoded_all(("\n".join(lines),))
    found = [step for step in steps if isinstance(step, Elementwise)]
    calls: list[int] = []

    def counted(a: Lanes, b: Lanes) -> Lanes:
        calls.append(a.size)
        return a + b

    replaced = [
        Elementwise(step.run, step.key, counted, step.sources, step.targets)
        if index % 2 == 0
        else step
        for index, step in enumerate(found)
    ]
    joined = Joined(replaced, compiled=False)
    joined(Warp(decoder, ALL))
    calls.clear()
    joined(Warp(decoder, ALL))
    assert calls == [8 * 32]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_warps_together(count: int) -> None:
    """Values, literals, results that several take, and what is done to a slice of a group."""
    text = "\n".join(
        f"mul.f32 %f{i}, %f{i}, 0f40000000;\nadd.f32 %f{i}, %f{i}, %f9;" for i in range(1, 5)
    )
    text += "\nmov.b32 %r1, 7;\nadd.f32 %f5, %f1, %f2;\nadd.f32 %f6, %f3, %f4;"
    decoder, (steps,) = decoded_all((text,))
    joined = Joined([step for step in steps if isinstance(step, Elementwise)])
    pairs = [(Warp(decoder, ALL), Warp(decoder, ALL)) for _ in range(count)]
    for number, pair in enumerate(pairs):
        for warp in pair:
            for i in (*range(1, 5), 9):
                warp[f"f{i}"] = np.arange(32, dtype=np.float32) + 100 * i + number
    for one, _ in pairs:
        joined(one)
    others = [other for _, other in pairs]
    assert joined.together(others)
    for one, other in pairs:
        for first, second in zip(one.registers, other.registers, strict=True):
            assert first.dtype == second.dtype
            assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("count", [1, 2])
def test_registers_that_are_strided(count: int) -> None:
    """As those that are parts of others are; bytes of arrays in a row are joined in another way."""
    text = "add.f32 %f1, %f1, %f3;\nadd.f32 %f2, %f2, %f4;\nmul.f32 %f5, %f1, %f2;"
    decoder, (steps,) = decoded_all((text,))
    joined = Joined([step for step in steps if isinstance(step, Elementwise)])
    warps = [Warp(decoder, ALL) for _ in range(count)]
    for number, warp in enumerate(warps):
        wide = np.arange(64, dtype=np.float32) + number
        for i in range(1, 5):
            warp.registers[decoder.slot[f"%f{i}"]] = wide.view(np.uint32)[i % 2 :: 2]
    assert joined.together(warps)
    for number, warp in enumerate(warps):
        even, odd = np.arange(64, dtype=np.float32).reshape(-1, 2).T + number
        assert (warp["f5"].view(np.float32) == (2 * odd) * (2 * even)).all()


def test_registers_that_nobody_else_has_are_not_kept() -> None:
    text = "add.f32 %f1, %f2, %f3;\nmul.f32 %f4, %f1, %f1;\nadd.f32 %f5, %f5, %f4;"
    decoder, (steps,) = decoded_all((text,))
    run = [step for step in steps if isinstance(step, Elementwise)]
    warp = Warp(decoder, ALL)
    for name in ("f2", "f3", "f5"):
        warp[name] = np.ones(32, np.float32)
    before = warp["f1"]
    Joined(run, wanted={decoder.slot["%f4"]})(warp)
    assert warp["f1"] is before  # only the run itself has it
    assert warp["f4"].view(np.float32)[0] == 4
    assert warp["f5"].view(np.float32)[0] == 5  # it adds to what it was

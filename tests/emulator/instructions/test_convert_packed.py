"""Conversions of packed formats: which half goes where, modifiers, and rounding by fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from schedgen.emulator.layouts.formats import from_float32, to_float32
from schedgen.emulator.machine.lanes import EmulationError
from tests.emulator.instructions.exact import is_finite, rounded, samples, value
from tests.emulator.instructions.execution import execute


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("mode", ["rn", "rz"])
def test_two_singles_to_halves(element: str, mode: str) -> None:
    for seed in range(6):
        a, b = samples("f32", 2 * seed), samples("f32", 2 * seed + 1)
        found = execute(f"cvt.{mode}.{element}x2.f32 %r0, %f1, %f2;", f1=a, f2=b)["r0"].tolist()
        for x, y, word in zip(a.tolist(), b.tolist(), found, strict=True):
            for code, result in ((x, word >> 16), (y, word & 0xFFFF)):
                if is_finite(code, "f32") and value(code, "f32"):
                    assert result == rounded(value(code, "f32"), element, mode)
                elif code & 0x7FFFFFFF > 0x7F800000:
                    assert result == 0x7FFF


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_without_nan_and_with(element: str) -> None:
    """The quick way without NaNs gives what the slow one gives."""
    random = np.random.default_rng(4)
    a = random.standard_normal(32).astype(np.float32)
    b = random.standard_normal(32).astype(np.float32) * np.float32(1e-6)
    clean = execute(f"cvt.rn.{element}x2.f32 %r0, %f1, %f2;", f1=a, f2=b)["r0"]
    a[31] = np.nan
    other = execute(f"cvt.rn.{element}x2.f32 %r0, %f1, %f2;", f1=a, f2=b)["r0"]
    assert np.array_equal(clean[:31], other[:31])
    assert other[31] >> 16 == 0x7FFF


def test_modifiers() -> None:
    a = np.resize(np.array([-1, 1e9, np.nan, -np.inf], np.float32), 32)
    zero = np.zeros(32, np.float32)
    found = execute("cvt.rn.relu.f16x2.f32 %r0, %f1, %f2;", f1=a, f2=zero)["r0"]
    assert (found >> 16).tolist()[:4] == [0, 0x7C00, 0x7FFF, 0]
    found = execute("cvt.rn.satfinite.f16x2.f32 %r0, %f1, %f2;", f1=a, f2=zero)["r0"]
    assert (found >> 16).tolist()[:4] == [0xBC00, 0x7BFF, 0x7FFF, 0xFBFF]
    found = execute("cvt.rn.relu.satfinite.bf16.f32 %rs0, %f1;", f1=a)["rs0"]
    assert found.tolist()[:4] == [0, 0x4E6E, 0x7FFF, 0]


@pytest.mark.parametrize("mode", ["rn", "rz", "rna"])
def test_tf32(mode: str) -> None:
    a = samples("f32", 3)
    a[:4] = [0x3F801000, 0x3F803000, 0x3F800FFF, 0xBF801000]
    found = execute(f"cvt.{mode}.tf32.f32 %r0, %f1;", f1=a)["r0"]
    assert not (found & np.uint32(0x1FFF)).any()
    assert (
        found.tolist()[:4]
        == {
            "rn": [0x3F800000, 0x3F804000, 0x3F800000, 0xBF800000],
            "rz": [0x3F800000, 0x3F802000, 0x3F800000, 0xBF800000],
            "rna": [0x3F802000, 0x3F804000, 0x3F800000, 0xBF802000],
        }[mode]
    )
    limit = execute("cvt.rna.satfinite.tf32.f32 %r0, %f1;", f1=np.full(32, np.inf, np.float32))
    assert limit["r0"][0] == 0x7F7FE000


@pytest.mark.parametrize("element", ["e4m3", "e5m2", "e2m3", "e3m2"])
def test_formats_of_a_byte(element: str) -> None:
    a, b = samples("f32", 1), samples("f32", 2)
    a[:16], b[:16] = samples("f32", 3)[:16] & 0xBFFFFFFF, 0x3F800000
    text = f"cvt.rn.satfinite.{element}x2.f32 %rs0, %f1, %f2;"
    found = execute(text, f1=a, f2=b)["rs0"]
    with np.errstate(invalid="ignore"):  # signalling NaNs
        upper, lower = (from_float32(v.view(np.float32), element, satfinite=True) for v in (a, b))
    assert np.array_equal(found >> 8, upper)
    assert np.array_equal(found & 0xFF, lower)
    relu = execute(text.replace(".satfinite", ".satfinite.relu"), f1=a, f2=b)["rs0"]
    assert not (to_float32((relu >> 8).astype(np.uint8), element) < 0).any()
    # And back, through f16, which holds all of them.
    back = execute(f"cvt.rn.f16x2.{element}x2 %r0, %rs1;", rs1=found)["r0"]
    upper = (back >> 16).astype(np.uint16).view(np.float16).astype(np.float32)
    wanted = to_float32((found >> 8).astype(np.uint8), element)
    assert np.array_equal(upper, wanted, equal_nan=True)
    again = execute(f"cvt.rn.satfinite.{element}x2.f16x2 %rs0, %r1;", r1=back)["rs0"]
    assert np.array_equal(again, found)


def test_formats_of_half_a_byte() -> None:
    values = np.resize(np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -6, 0.25, 0.75, 100], np.float32), 32)
    codes = [0, 1, 2, 3, 4, 5, 6, 7, 15, 0, 2, 7]
    one = np.ones(32, np.float32)
    found = execute("cvt.rn.satfinite.e2m1x2.f32 %rb0, %f1, %f2;", f1=values, f2=one)["rb0"]
    assert found.tolist()[:12] == [code << 4 | 2 for code in codes]
    back = execute("cvt.rn.f16x2.e2m1x2 %r0, %rb1;", rb1=found)["r0"].view(np.float16)
    assert back[::2].tolist() == [1.0] * 32
    assert back[1::2].tolist()[:9] == values.tolist()[:9]
    brain = execute("cvt.rn.bf16x2.f32 %r0, %f1, %f2;", f1=values, f2=one)["r0"]
    again = execute("cvt.rn.satfinite.e2m1x2.bf16x2 %rb0, %r1;", r1=brain)["rb0"]
    assert np.array_equal(again, found)


def test_scale_factors() -> None:
    values = np.resize(np.array([1, 3, 4, 0.75, 2.0**-127, 2.0**127], np.float32), 32)
    one = np.ones(32, np.float32)
    down = execute("cvt.rz.ue8m0x2.f32 %rs0, %f1, %f2;", f1=values, f2=one)["rs0"]
    up = execute("cvt.rp.satfinite.ue8m0x2.f32 %rs0, %f1, %f2;", f1=values, f2=one)["rs0"]
    assert (down >> 8).tolist()[:6] == [127, 128, 129, 126, 0, 254]
    assert (up >> 8).tolist()[:6] == [127, 129, 129, 127, 0, 254]
    assert (down & 0xFF).tolist() == [127] * 32
    brain = execute("cvt.rn.bf16x2.ue8m0x2 %r0, %rs1;", rs1=down)["r0"]
    assert (brain >> 16).tolist()[:6] == [0x3F80, 0x4000, 0x4080, 0x3F00, 0x0040, 0x7F00]
    again = execute("cvt.rp.ue8m0x2.bf16x2 %rs0, %r1;", r1=brain)["rs0"]
    assert np.array_equal(again, down)


@pytest.mark.parametrize(("element", "bits"), [("f16", 13), ("bf16", 16)])
def test_stochastic_rounding(element: str, bits: int) -> None:
    """Up where random bits and truncated bits give a carry; without bias."""
    random = np.random.default_rng(5)
    a = random.uniform(-8, 8, 32).astype(np.float32)
    excess = Fraction(0)
    for _ in range(20):
        noise = random.integers(0, 1 << 32, 32, np.uint32)
        text = f"cvt.rs.{element}x2.f32 %r0, %f1, %f2, %r3;"
        found = execute(text, f1=a, f2=-a, r3=noise)["r0"].tolist()
        for x, z, word in zip(a.view(np.uint32).tolist(), noise.tolist(), found, strict=True):
            for code, result, r in ((x, word >> 16, z >> 16), (x ^ 1 << 31, word & 0xFFFF, z)):
                exact = value(code, "f32")
                down, up = (rounded(exact, element, mode) for mode in ("rz", "rp"))
                up = up if exact > 0 else rounded(exact, element, "rm")
                step = abs(value(up, element) - value(down, element))
                part = abs(exact - value(down, element)) / step if step else Fraction(0)
                truncated = int(part * (1 << bits))
                carry = truncated + (r & (1 << bits) - 1) >= 1 << bits
                assert result == (up if carry else down)
                excess += carry - part
    assert abs(excess) < 3 * math.sqrt(20 * 64 / 4)


@pytest.mark.parametrize(
    "text",
    [
        "cvt.rn.e4m3x2.f32 %rs0, %f1, %f2;",  # needs .satfinite
        "cvt.rn.satfinite.e4m3x2.f32 %rs0, %f1;",
        "cvt.rm.f16x2.f32 %r0, %f1, %f2;",
        "cvt.rn.f16x2.bf16x2 %r0, %r1;",
        "cvt.rn.f32.e4m3x2 %f0, %rs1;",
        "cvt.rs.satfinite.e4m3x4.f32 %r0, {%f1, %f2, %f3, %f4}, %r5;",
        "cvt.rn.satfinite.s2f6x2.f32 %rs0, %f1, %f2;",
    ],
)
def test_forms_that_do_not_exist(text: str) -> None:
    with pytest.raises(EmulationError):
        execute(text)

"""Approximate functions: special values of the ISA's tables, and errors below its bounds."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from schedgen.emulator.machine.lanes import EmulationError
from tests.emulator.instructions.execution import execute, lanes

INF, NAN = math.inf, math.nan
SUBNORMAL = 1e-40


def apply(name: str, values: list[float]) -> np.ndarray:
    a = np.resize(np.array(values, np.float32), 32)
    return execute(f"{name} %f0, %f1;", f1=a)["f0"].view(np.float32)[: len(values)]


@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [
        ("rcp.approx.f32", [-INF, -0.0, 0.0, INF], [-0.0, -INF, INF, 0.0]),
        ("rcp.approx.ftz.f32", [SUBNORMAL, -SUBNORMAL, 2.0**127], [INF, -INF, 0.0]),
        ("sqrt.approx.f32", [-0.0, 0.0, INF, 4.0], [-0.0, 0.0, INF, 2.0]),
        ("rsqrt.approx.f32", [-0.0, 0.0, INF, 4.0], [-INF, INF, 0.0, 0.5]),
        ("rsqrt.approx.ftz.f32", [SUBNORMAL, -SUBNORMAL], [INF, -INF]),
        ("sin.approx.f32", [-0.0, 0.0], [-0.0, 0.0]),
        ("cos.approx.f32", [-0.0, 0.0], [1.0, 1.0]),
        ("lg2.approx.f32", [-0.0, 0.0, INF, 8.0], [-INF, -INF, INF, 3.0]),
        ("lg2.approx.ftz.f32", [SUBNORMAL], [-INF]),
        ("ex2.approx.f32", [-INF, -0.0, 0.0, INF, -149.0], [0.0, 1.0, 1.0, INF, 2.0**-149]),
        ("ex2.approx.ftz.f32", [-INF, -SUBNORMAL, INF, -127.0, -126.0], [0, 1, INF, 0, 2.0**-126]),
        ("tanh.approx.f32", [-INF, -0.0, 0.0, INF, SUBNORMAL], [-1, -0.0, 0.0, 1, SUBNORMAL]),
    ],
)
def test_special_values(name: str, values: list[float], wanted: list[float]) -> None:
    found = apply(name, values)
    assert np.array_equal(found.view(np.uint32), np.array(wanted, np.float32).view(np.uint32))


@pytest.mark.parametrize("name", ["rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"])
def test_nan_is_canonical(name: str) -> None:
    values = [NAN, -1.0 if name in ("sqrt", "rsqrt", "lg2") else NAN]
    assert apply(f"{name}.approx.f32", values).view(np.uint32).tolist() == [0x7FFFFFFF] * 2


FUNCTIONS: dict[str, tuple[Callable[[float], float], float]] = {
    "rcp": (lambda x: 1 / x, 2.0**-23),
    "sqrt": (math.sqrt, 2.0**-23),
    "rsqrt": (lambda x: 1 / math.sqrt(x), 2.0**-22.9),
    "lg2": (math.log2, 2.0**-22),
    "ex2": (lambda x: 2.0**x, 2.0**-22),
    "tanh": (math.tanh, 2.0**-11),
    "sin": (math.sin, 2.0**-20.5),
    "cos": (math.cos, 2.0**-20.5),
}
"""Function and bound of the relative error (absolute for sin and cos)."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors(name: str) -> None:
    function, bound = FUNCTIONS[name]
    random = np.random.default_rng(2)
    for a in random.uniform(0.01, 6, (8, 32)).astype(np.float32):
        found = execute(f"{name}.approx.f32 %f0, %f1;", f1=a)["f0"].view(np.float32)
        for x, y in zip(a.tolist(), found.tolist(), strict=True):
            wanted = function(x)
            assert abs(y - wanted) <= bound * (1 if name in ("sin", "cos") else abs(wanted))


def test_division() -> None:
    a = np.resize(np.array([1, -3, 5e-40, INF, 2.0, 0], np.float32), 32)
    b = np.resize(np.array([3, 7, 2, 2.0**127, 2.0**127, 0], np.float32), 32)
    exact = (a.astype(np.float64) / np.where(b == 0, 1, b)).astype(np.float32)
    full = execute("div.full.f32 %f0, %f1, %f2;", f1=a, f2=b)["f0"].view(np.float32)
    assert np.array_equal(full[:5], exact[:5])
    assert full.view(np.uint32)[5] == 0x7FFFFFFF
    quick = execute("div.approx.f32 %f0, %f1, %f2;", f1=a, f2=b)["f0"]
    assert np.array_equal(quick.view(np.float32)[:3], exact[:3])
    assert quick.tolist()[3:5] == [0x7FFFFFFF, 0]  # 1 / b counts as zero
    flushed = execute("div.full.ftz.f32 %f0, %f1, %f2;", f1=a, f2=b)["f0"]
    assert flushed[2] == 0


def test_halves() -> None:
    codes = np.resize(np.array([0x3C00, 0xC000, 0xFC00, 0x7C00, 0x7E00], np.uint16), 32)
    found = execute("ex2.approx.f16 %rs0, %rs1; tanh.approx.f16 %rs4, %rs1;", rs1=codes)
    assert found["rs0"].tolist()[:5] == [0x4000, 0x3400, 0, 0x7C00, 0x7FFF]
    assert found["rs4"].tolist()[2:5] == [0xBC00, 0x3C00, 0x7FFF]
    brain = np.resize(np.array([0x3F80, 0xC000, 0xFF80, 0x0001, 0xC2FE], np.uint16), 32)
    found = execute("ex2.approx.ftz.bf16 %rs0, %rs1;", rs1=brain)
    assert found["rs0"].tolist()[:5] == [0x4000, 0x3E80, 0, 0x3F80, 0]
    pairs = codes.astype(np.uint32) << 16 | np.uint32(0x3C00)
    found = execute("ex2.approx.f16x2 %r0, %r1;", r1=pairs)["r0"]
    assert found.tolist()[:3] == [0x40004000, 0x34004000, 0x4000]


def test_gross_doubles() -> None:
    a = np.resize(np.array([3.0, -0.0, INF, 1e-310, 4.0, NAN]), 32)
    found = execute("rcp.approx.ftz.f64 %fd0, %fd1; rsqrt.approx.ftz.f64 %fd4, %fd1;", fd1=a)
    assert not (found["fd0"] & np.uint64(0xFFFFFFFF)).any()
    inverse = found["fd0"].view(np.float64)
    assert inverse[0] == pytest.approx(1 / 3, rel=2.0**-19)
    assert inverse.tolist()[1:5] == [-INF, 0, INF, 0.25]
    assert found["fd0"][5] == 0x7FFFFFFF00000000
    assert found["fd4"].view(np.float64).tolist()[2:5] == [0, INF, 0.5]
    found = execute("rsqrt.approx.f64 %fd0, %fd1;", fd1=a)["fd0"].view(np.float64)
    assert found[0] == pytest.approx(1 / math.sqrt(3), rel=1e-15)


@pytest.mark.parametrize("text", ["ex2.f32 %f0, %f1;", "sin.approx.sat.f32 %f0, %f1;"])
def test_forms_that_do_not_exist(text: str) -> None:
    with pytest.raises(EmulationError):
        execute(text, f1=lanes([0], 32))

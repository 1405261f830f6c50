"""Arithmetic of f32, f64, f32x2 and mixed forms against exact fractions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedgen.emulator.machine.lanes import EmulationError
from tests.emulator.instructions.exact import MODES, PREFIX, is_finite, rounded, samples, value
from tests.emulator.instructions.execution import execute, lanes

OPERATIONS: dict[str, Callable[[Fraction, Fraction, Fraction], Fraction]] = {
    "add": lambda a, b, _: a + b,
    "sub": lambda a, b, _: a - b,
    "mul": lambda a, b, _: a * b,
    "div": lambda a, b, _: a / b,
    "fma": lambda a, b, c: a * b + c,
    "rcp": lambda a, _b, _c: 1 / a,
}
COUNTS = {"fma": 3, "rcp": 1}


def check(name: str, type_: str, mode: str, *codes: np.ndarray) -> None:
    """Compares lanes whose operands are finite and whose exact result is not zero."""
    prefix = PREFIX[type_]
    operands = ", ".join(f"%{prefix}{n}" for n in range(1, 1 + len(codes)))
    given_ = {f"{prefix}{n}": code for n, code in enumerate(codes, 1)}
    found = execute(f"{name}.{mode}.{type_} %{prefix}0, {operands};", **given_)[f"{prefix}0"]
    for *row, result in zip(*(code.tolist() for code in codes), found.tolist(), strict=True):
        if not all(is_finite(code, type_) for code in row):
            continue
        values = [value(code, type_) for code in row]
        if name in ("div", "rcp") and values[-1] == 0:
            continue
        a, b, c = (*values, *[Fraction(0)] * (3 - len(values)))
        exact = OPERATIONS[name](a, b, c)
        if exact:
            assert result == rounded(exact, type_, mode), (name, type_, mode, row)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_rounded_once(name: str, type_: str, mode: str) -> None:
    for seed in range(4):
        codes = [samples(type_, 10 * seed + n) for n in range(COUNTS.get(name, 2))]
        check(name, type_, mode, *codes)


@pytest.mark.parametrize("mode", MODES)
def test_sums_that_almost_cancel(mode: str) -> None:
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(32).astype(np.float32) for _ in range(2))
    c = -(a * b) + np.float32(2.0**-30) * random.integers(-2, 3, 32).astype(np.float32)
    check("fma", "f32", mode, *(x.astype(np.float32).view(np.uint32) for x in (a, b, c)))


@pytest.mark.medium
@settings(max_examples=20, deadline=None)
@given(st.integers(15, 23), st.integers(-100, 100), st.integers(0, 2**22), st.sampled_from([1, -1]))
def test_fma_where_rounding_twice_errs(k: int, exponent: int, offset: int, sign: int) -> None:
    """Sums that lie beside a tie of float32 by less than float64 can tell."""
    near = [1 + 2.0**-k, sign * (1 - 2.0**-k)]  # their product is close to 1
    step = np.arange(32, dtype=np.uint32)
    c = np.float32(2.0**exponent).view(np.uint32) + np.uint32(offset) + step
    rows = [np.full(32, near[0] * 2.0**exponent, np.float32), np.full(32, near[1] * 2.0**-24)]
    check("fma", "f32", "rn", *(row.astype(np.float32).view(np.uint32) for row in rows), c)
    # Subnormal results, whose ties have fewer bits.
    rows = [np.full(32, near[0] * 2.0**-100), np.full(32, near[1] * 2.0**-50)]
    c = np.uint32(offset | 1 << 21) + step
    check("fma", "f32", "rn", *(row.astype(np.float32).view(np.uint32) for row in rows), c)


@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("mode", MODES)
def test_square_roots(type_: str, mode: str) -> None:
    prefix = PREFIX[type_]
    for seed in range(3):
        codes = samples(type_, seed)
        found = execute(f"sqrt.{mode}.{type_} %{prefix}0, %{prefix}1;", **{f"{prefix}1": codes})
        for code, result in zip(codes.tolist(), found[f"{prefix}0"].tolist(), strict=True):
            if not is_finite(code, type_) or value(code, type_) <= 0:
                continue
            exact, root = value(code, type_), value(result, type_)
            below, above = value(result - 1, type_), value(result + 1, type_)
            match mode:
                case "rn":
                    assert ((below + root) / 2) ** 2 <= exact <= ((above + root) / 2) ** 2
                case "rp":
                    assert below**2 < exact <= root**2
                case _:
                    assert root**2 <= exact < above**2


SPECIAL = [0x0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFF800001]


def test_infinities_and_nans() -> None:
    a, b = lanes(SPECIAL * 4, 32), lanes([code for code in SPECIAL for _ in range(4)], 32)
    x, y = a.view(np.float32), b.view(np.float32)
    with np.errstate(all="ignore"):
        wanted = {"add.f32": x + y, "sub.f32": x - y, "mul.f32": x * y, "div.rn.f32": x / y}
    for name, values in wanted.items():
        found = execute(f"{name} %f0, %f1, %f2;", f1=a, f2=b)["f0"]
        assert np.array_equal(found, np.where(np.isnan(values), 0x7FFFFFFF, values.view(np.uint32)))


@pytest.mark.parametrize("mode", MODES)
def test_signs_of_zero(mode: str) -> None:
    zero, minus = 0, 0x80000000
    cancelled = minus if mode == "rm" else zero
    one, minus_one, tiny = 0x3F800000, 0xBF800000, 1
    for a, b, wanted in [
        (one, minus_one, cancelled),
        (zero, minus, cancelled),
        (minus, minus, minus),
        (zero, zero, zero),
    ]:
        found = execute(f"add.{mode}.f32 %f0, %f1, %f2;", f1=lanes([a], 32), f2=lanes([b], 32))
        assert found["f0"][0] == wanted
    text = f"fma.{mode}.f32 %f0, %f1, %f2, %f3;"
    found = execute(text, f1=lanes([one], 32), f2=lanes([minus_one], 32), f3=lanes([one], 32))
    assert found["f0"][0] == cancelled
    # A product that is too small is not exactly zero, and not negative.
    found = execute(text, f1=lanes([tiny], 32), f2=lanes([tiny], 32), f3=lanes([zero], 32))
    assert found["f0"][0] == (1 if mode == "rp" else zero)
    double = execute(
        f"add.{mode}.f64 %fd0, %fd1, %fd2;", fd1=np.full(32, 1.0), fd2=np.full(32, -1.0)
    )
    assert double["fd0"][0] == (1 << 63 if mode == "rm" else 0)


def test_flushing() -> None:
    subnormal, smallest, minus = 0x007FFFFF, 0x00800000, 0x80000000
    a = lanes([subnormal, subnormal | minus, smallest, 0x3F800000], 32)
    b = lanes([0, 0x80000000, 0x3F000000, 0x3F800000], 32)
    assert execute("add.f32 %f0, %f1, %f2;", f1=a, f2=b)["f0"][0] == subnormal
    found = execute("add.ftz.f32 %f0, %f1, %f2;", f1=a, f2=b)["f0"]
    assert found.tolist()[:4] == [0, minus, 0x3F000000, 0x40000000]
    found = execute("mul.ftz.f32 %f0, %f1, %f2;", f1=a, f2=b)["f0"]
    assert found.tolist()[:4] == [0, 0, 0, 0x3F800000]  # half of the smallest is subnormal
    found = execute("fma.rn.ftz.f32 %f0, %f1, %f2, %f1;", f1=a, f2=b)["f0"]
    assert found.tolist()[2] == 0x00C00000
    # 2^-126 * (1 - 2^-24) has the bits of a normal number, and is flushed though it rounds up.
    edge = execute(
        "mul.ftz.f32 %f0, %f1, %f2;", f1=lanes([0x3F7FFFFF], 32), f2=lanes([smallest], 32)
    )
    assert edge["f0"][0] == 0


def test_saturation() -> None:
    a = np.resize(np.array([-1, -0.0, 0.25, 1, 3, np.inf, np.nan], np.float32), 32)
    found = execute("add.sat.f32 %f0, %f1, %f2;", f1=a, f2=np.float32(0))["f0"].view(np.float32)
    assert found.tolist()[:7] == [0, 0, 0.25, 1, 1, 1, 0]
    assert not np.signbit(found).any()
    found = execute("fma.rn.sat.f32 %f0, %f1, %f1, %f2;", f1=a, f2=np.float32(0))["f0"]
    assert found.view(np.float32).tolist()[:7] == [1, 0, 0.0625, 1, 1, 1, 0]


@pytest.mark.parametrize("name", ["add", "sub.rm", "mul.rz", "add.rm.ftz", "fma.rn", "fma.rp.ftz"])
def test_pairs_of_singles(name: str) -> None:
    words = [
        samples("f32", n).astype(np.uint64) | samples("f32", n + 9).astype(np.uint64) << 32
        for n in range(3)
    ]
    count = 3 if name.startswith("fma") else 2
    operands = ", ".join(f"%rd{n}" for n in range(1, count + 1))
    given_: dict[str, Any] = {f"rd{n}": word for n, word in enumerate(words[:count], 1)}
    both = execute(f"{name}.f32x2 %rd0, {operands};", **given_)["rd0"]
    for shift in (0, 32):
        halves: dict[str, Any] = {
            f"f{n}": (word >> shift).astype(np.uint32) for n, word in enumerate(words, 1)
        }
        one = execute(f"{name}.f32 %f0, {operands.replace('rd', 'f')};", **halves)["f0"]
        assert np.array_equal((both >> shift).astype(np.uint32), one)


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_mixed_forms(element: str) -> None:
    a, b, c = samples(element, 1), samples(element, 2), samples("f32", 3)
    widened = execute(f"cvt.f32.{element} %f0, %rs1; cvt.f32.{element} %f4, %rs2;", rs1=a, rs2=b)
    given_ = {"rs1": a, "rs2": b, "f3": c, "f1": widened["f0"], "f2": widened["f4"]}
    for mode in MODES:
        found = execute(f"fma.{mode}.f32.{element} %f0, %rs1, %rs2, %f3;", **given_)["f0"]
        assert np.array_equal(found, execute(f"fma.{mode}.f32 %f0, %f1, %f2, %f3;", **given_)["f0"])
        for name in ("add", "sub"):
            found = execute(f"{name}.{mode}.sat.f32.{element} %f0, %rs1, %f3;", **given_)["f0"]
            wanted = execute(f"{name}.{mode}.sat.f32 %f0, %f1, %f3;", **given_)["f0"]
            assert np.array_equal(found, wanted)


def test_fma_of_doubles_is_exact() -> None:
    third = 1 / 3
    found = execute("fma.rn.f64 %fd0, %fd1, %fd2, %fd3;", fd1=third, fd2=3.0, fd3=-1.0)["fd0"]
    assert found.view(np.float64)[0] == float(Fraction(third) * 3 - 1)


@pytest.mark.parametrize(
    "text",
    [
        "fma.f32 %f0, %f1, %f2, %f3;",  # a rounding mode is needed
        "div.f32 %f0, %f1, %f2;",
        "add.rna.f32 %f0, %f1, %f2;",
        "add.sat.f64 %fd0, %fd1, %fd2;",
        "mul.ftz.f64 %fd0, %fd1, %fd2;",
        "add.sat.f32x2 %rd0, %rd1, %rd2;",
        "add.f32 %f0, %f1;",
        "add.f32 %rd0, %f1, %f2;",
        "add.relu.f32 %f0, %f1, %f2;",
    ],
)
def test_forms_that_do_not_exist(text: str) -> None:
    with pytest.raises(EmulationError, match=rf"line \d+: {text.split(maxsplit=1)[0]}"):
        execute(text)

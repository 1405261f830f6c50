"""Arithmetic of 16-bit formats against exact fractions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from schedgen.emulator.machine.lanes import EmulationError
from tests.emulator.instructions.exact import is_finite, rounded, samples, value
from tests.emulator.instructions.execution import execute

OPERATIONS: dict[str, Callable[[Fraction, Fraction, Fraction], Fraction]] = {
    "add": lambda a, b, _: a + b,
    "sub": lambda a, b, _: a - b,
    "mul": lambda a, b, _: a * b,
    "fma.rn": lambda a, b, c: a * b + c,
}


@pytest.mark.parametrize("type_", ["f16", "bf16"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_rounded_once(name: str, type_: str) -> None:
    for seed in range(8):
        codes = [samples(type_, 3 * seed + n) for n in range(3)]
        count = 3 if name == "fma.rn" else 2
        operands = ", ".join(f"%rs{n}" for n in range(1, count + 1))
        given_: dict[str, Any] = {f"rs{n}": code for n, code in enumerate(codes, 1)}
        found = execute(f"{name}.{type_} %rs0, {operands};", **given_)["rs0"]
        for a, b, c, result in zip(*(v.tolist() for v in (*codes, found)), strict=True):
            if not all(is_finite(code, type_) for code in (a, b, c)):
                continue
            exact = OPERATIONS[name](*(value(code, type_) for code in (a, b, c)))
            if exact:
                assert result == rounded(exact, type_, "rn"), (a, b, c)


@pytest.mark.parametrize("type_", ["f16", "bf16"])
@pytest.mark.parametrize("name", [*OPERATIONS, "fma.rn.relu"])
def test_pairs_are_two_halves(name: str, type_: str) -> None:
    codes = [samples(type_, n, 64) for n in range(3)]
    count = 3 if name.startswith("fma") else 2
    operands = ", ".join(f"%r{n}" for n in range(1, count + 1))
    given_: dict[str, Any] = {f"r{n}": c.view(np.uint32) for n, c in enumerate(codes, 1)}
    both = execute(f"{name}.{type_}x2 %r0, {operands};", **given_)["r0"].view(np.uint16)
    for at in (0, 1):
        half: dict[str, Any] = {f"rs{n}": code[at::2] for n, code in enumerate(codes, 1)}
        one = execute(f"{name}.{type_} %rs0, {operands.replace('%r', '%rs')};", **half)["rs0"]
        assert np.array_equal(both[at::2], one)


def test_modifiers() -> None:
    one, minus, tiny, nan, inf = 0x3C00, 0xBC00, 0x0001, 0x7E00, 0x7C00
    a = np.resize(np.array([one, minus, tiny, nan, inf], np.uint16), 32)
    zero = np.zeros(32, np.uint16)
    given_: dict[str, Any] = {"rs1": a, "rs2": np.full(32, one, np.uint16), "rs3": zero}
    found = execute("fma.rn.sat.f16 %rs0, %rs1, %rs2, %rs1;", **given_)["rs0"]
    assert found.tolist()[:5] == [one, 0, 2, 0, one]
    found = execute("fma.rn.relu.f16 %rs0, %rs1, %rs2, %rs3;", **given_)["rs0"]
    assert found.tolist()[:5] == [one, 0, tiny, 0x7FFF, inf]
    found = execute("add.ftz.f16 %rs0, %rs1, %rs3;", **given_)["rs0"]
    assert found.tolist()[:5] == [one, minus, 0, 0x7FFF, inf]
    found = execute("sub.f16 %rs0, %rs1, %rs1;", **given_)["rs0"]
    assert found.tolist()[:5] == [0, 0, 0, 0x7FFF, 0x7FFF]


@pytest.mark.parametrize(
    "text",
    [
        "add.rz.f16 %rs0, %rs1, %rs2;",
        "add.ftz.bf16 %rs0, %rs1, %rs2;",
        "add.sat.bf16 %rs0, %rs1, %rs2;",
        "fma.rn.sat.relu.f16 %rs0, %rs1, %rs2, %rs3;",
        "fma.f16 %rs0, %rs1, %rs2, %rs3;",
        "fma.rn.oob.f16 %rs0, %rs1, %rs2, %rs3;",
        "mul.f32.bf16 %f0, %rs1, %f2;",
    ],
)
def test_forms_that_do_not_exist(text: str) -> None:
    with pytest.raises(EmulationError):
        execute(text)

"""Integers that depend on counters: their text, where they stand, and progressions of them."""

from __future__ import annotations

import pytest

from schedgen.codegen.ir import code, plus
from schedgen.codegen.numbers import Affine, Number, progression
from schedgen.codegen.printing import expression

VALUES = {"i": 3, "j": 5}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Affine(0), "0"),
        (Affine(-5), "-5"),
        (Affine(2, (("i", -1),)), "2 - i"),
        (Affine(0, (("i", -1),)), "0 - i"),
        (Affine(1, (("i", 4), ("j", 1))), "4 * i + j + 1"),
        (Affine(-1, (("i", 1),)), "i - 1"),
        (Affine(-2, (("i", -3), ("j", 1))), "j - 2 - 3 * i"),
    ],
)
def test_text(value: Affine, text: str) -> None:
    assert value.text == text
    wanted = value.constant + sum(factor * VALUES[name] for name, factor in value.terms)
    assert eval(text, dict(VALUES)) == wanted


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Affine(0), "t"),
        (Affine(3), "t + 3"),
        (Affine(-1), "t - 1"),
        (Affine(0, (("i", 1),)), "t + i"),
        (Affine(0, (("i", 32),)), "t + 32 * i"),
        (Affine(1, (("i", 1),)), "t + (i + 1)"),
        (Affine(2, (("i", -1),)), "t + (2 - i)"),
    ],
)
def test_summand(value: Affine, text: str) -> None:
    """Python adds up what it knows before anything that only the GPU knows."""
    assert expression(code("{}{}", "t", Number(value, summand=True))) == text


@pytest.mark.parametrize(
    ("template", "text"),
    [("f({}, x)", "f(2 * i, x)"), ("a[{}]", "a[2 * i]"), ("8 * {}", "8 * (2 * i)")],
)
def test_factor(template: str, text: str) -> None:
    assert expression(code(template, Number(Affine(0, (("i", 2),))))) == text


def test_plus() -> None:
    assert [expression(plus("t", number)) for number in (-1, 0, 2)] == ["t - 1", "t", "t + 2"]


def numbers(*values: int, modulus: int = 0) -> list[Number]:
    return [Number(Affine(value), modulus=modulus) for value in values]


def test_progression() -> None:
    assert progression(numbers(1, 4, 7)) == 3
    assert progression(numbers(3, 2, 1)) == -1
    assert progression(numbers(1, 4, 8)) is None
    assert progression([Number(Affine(0, (("i", 1),))), *numbers(1)]) is None


def test_progression_of_a_ring() -> None:
    """Two turns of a ring later slot and parity are the same."""
    assert progression(numbers(4, 5, 6, 7, 0, 1, modulus=8)) == 1
    assert progression(numbers(3, 0, 1, modulus=4)) == 1
    assert progression(numbers(4, 5, 7, modulus=8)) is None


def test_along() -> None:
    """The value at each count, whatever the loop begins with."""
    assert Affine(96).along("i", 32, 3).text == "32 * i"
    assert Affine(7).along("i", 1, 2).text == "i + 5"
    assert Affine(7).along("i", 0, 2).text == "7"

"""Arithmetic over parameters."""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction

import pytest

from schedgen.expressions import (
    evaluate,
    evaluate_int,
    parse,
)
from tests.schedgen.expressions.test_mistakes import failure

VALUES = {"tile_n": 128, "seq_k": 1000, "keys": 130, "kib": 1024, "causal": False, "acc": "tmem"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tile_n * 2", 256),
        ("ceil(seq_k / tile_n)", 8),
        ("floor(-seq_k / tile_n)", -8),
        ("keys * 3/4", Fraction(195, 2)),
        ("max(30, 6*kib, abs(-5))", 6144),
        ("seq_k // tile_n + seq_k % tile_n", 7 + 104),
        ("0.1 + 0.2 == 0.3", True),
        ("acc == 'tmem' and not causal", True),
        ("acc != 'smem'", True),
        ("causal == false", True),
        ("causal and 1 / 0 > 1", False),
        ("not causal or 1 / 0 > 1", True),
        ("acc", "tmem"),
    ],
)
def test_evaluate(text: str, expected: Fraction | int | bool | str) -> None:
    value = evaluate(parse(text), VALUES)
    assert value == expected
    assert isinstance(value, bool) is isinstance(expected, bool)


def test_evaluate_compares_members_of_string_enumerations() -> None:
    space = StrEnum("space", ["TMEM"])
    assert evaluate(parse("acc == 'tmem'"), {"acc": space["TMEM"]}) is True


@pytest.mark.parametrize(
    ("text", "offending", "message", "fix"),
    [
        ("2 * tile_m", "tile_m", "unknown name 'tile_m'", "did you mean 'tile_n'?"),
        ("ceil * 2", "ceil", "unknown name 'ceil'", "'ceil' is a function: write ceil(...)"),
        ("1 / (kib - 1024)", "(kib - 1024)", "division by zero", None),
        ("1 % 0", "0", "division by zero", None),
        ("1 + acc", "acc", "'+' needs a number, not the string 'tmem'", None),
        ("-causal", "causal", "'-' needs a number, not the truth value false", None),
        ("max(1, 'a')", "'a'", "'max' needs a number, not the string 'a'", None),
        ("acc < 'b'", "acc", "'<' needs a number, not the string 'tmem'", None),
        ("not 0.5", "0.5", "'not' needs a condition, not the number 0.5", None),
        ("acc == 1", "acc == 1", "cannot compare the string 'tmem' with the number 1", None),
        (
            "m@1 + 1",
            "m@1",
            "'m@1' is the value of an earlier loop iteration; "
            "arithmetic over parameters has no loop",
            None,
        ),
        (
            "exp2(kib)",
            "exp2(kib)",
            "exp2 works on tiles; it has no meaning in arithmetic over parameters",
            "functions of parameters: abs, ceil, floor, max, min",
        ),
        ("1e18 + 1", "1e18 + 1", "the value is too large: it needs more than 18 digits", None),
        ("0 * 1e19", "1e19", "the value is too large: it needs more than 18 digits", None),
    ],
)
def test_evaluate_errors(text: str, offending: str, message: str, fix: str | None) -> None:
    error = failure(lambda: evaluate(parse(text), VALUES))
    assert (error.message, error.fix) == (message, fix)
    assert text[error.offset : error.offset + error.length] == offending


def test_evaluate_int() -> None:
    assert evaluate_int(parse("keys * 4/2"), VALUES) == 260
    error = failure(lambda: evaluate_int(parse("keys * 3/4 - 1"), VALUES))
    assert (error.message, error.fix) == (
        "96.5 is not an integer",
        "round it with ceil(...) or floor(...)",
    )
    for text, spelled in [("-1/3", "-1/3"), ("acc", "'tmem'"), ("not causal", "true")]:
        error = failure(lambda text=text: evaluate_int(parse(text), VALUES))
        assert error.message == f"{spelled} is not an integer"

"""Element-wise formulas: what is allowed, and what it costs."""

from __future__ import annotations

import pytest

from schedgen.expressions import (
    ELEMENTWISE,
    OperationCounts,
    check_condition,
    check_formula,
    count_operations,
    parse,
)
from tests.schedgen.expressions.test_mistakes import failure

TILES = {"rS", "rX", "O", "P"}
ROWS = {"m", "mx", "alpha", "l", "bias"}
SCALARS = {"scale", "beta"}


def costs(text: str) -> dict[str, int]:
    """Return the non-zero counts of a formula over TILES, ROWS and SCALARS."""
    counts = count_operations(
        parse(text), lambda name: name.name in TILES, lambda name: name.name in SCALARS
    )
    fields = {field: getattr(counts, field) for field in OperationCounts.__dataclass_fields__}
    return {field: count for field, count in fields.items() if count}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rS*scale - m*scale", {"tile_fma": 1, "row_fma": 1}),
        ("exp2(rX)", {"tile_mufu": 1}),
        ("O*alpha", {"tile_fma": 1}),
        ("where((m@1 - mx) * scale >= -8, m@1, mx)", {"row_fma": 2, "row_alu": 2}),
        ("scale*rS + beta*P", {"tile_fma": 2}),
        ("gelu(rS + bias)", {"tile_fma": 6, "tile_mufu": 1}),
        # Fusion: every order of operands, through signs and divisions, never of hoisted products.
        ("rS*m + P", {"tile_fma": 1}),
        ("rS*m - P", {"tile_fma": 1}),
        ("P - rS*m", {"tile_fma": 1}),
        ("P + -(rS*m)", {"tile_fma": 1}),
        ("m*l + P", {"tile_fma": 1}),
        ("m*l + rS*P", {"tile_fma": 1, "row_fma": 1}),
        ("rS / 3 + P", {"tile_fma": 1}),
        ("rS + scale*beta", {"tile_fma": 1}),
        ("rS + P - m", {"tile_fma": 2}),
        # Ranks: row and scalar subexpressions leave the tile loop.
        ("rS", {}),
        ("-rS", {}),
        ("2 * scale / beta", {}),
        ("exp2(scale) * rS", {"tile_fma": 1}),
        ("scale*m*rS", {"tile_fma": 1, "row_fma": 1}),
        ("rS*scale*m", {"tile_fma": 2}),
        ("rS * exp2(m@1 - m)", {"tile_fma": 1, "row_fma": 1, "row_mufu": 1}),
        # Division.
        ("rS / P", {"tile_fma": 1, "tile_mufu": 1}),
        ("O / l", {"tile_fma": 1, "row_mufu": 1}),
        ("rS / scale", {"tile_fma": 1}),
        ("1 / rS", {"tile_mufu": 1}),
        ("m / rS", {"tile_fma": 1, "tile_mufu": 1}),
        ("1 / l + m", {"row_fma": 1, "row_mufu": 1}),
        # Other pipes, and values that are needed twice.
        ("max(rS, P, m)", {"tile_alu": 2}),
        ("where(m > 0 and not l > 0, rS, 0)", {"tile_alu": 1, "row_alu": 3}),
        ("rS * sigmoid(rS)", {"tile_fma": 3, "tile_mufu": 2}),
        ("exp2(rS) + P*exp2(rS)", {"tile_fma": 1, "tile_mufu": 1}),
        ("rS / l + P / l", {"tile_fma": 2, "row_mufu": 1}),
        ("rS*P + rS*P", {"tile_fma": 2}),
    ],
)
def test_count_operations(text: str, expected: dict[str, int]) -> None:
    check_formula(parse(text), TILES | ROWS | SCALARS)
    assert costs(text) == expected


def test_count_operations_of_every_function() -> None:
    for function in ELEMENTWISE.values():
        arguments = ", ".join(["rS", "P", "O"][: function.arity])
        counts = count_operations(parse(f"{function.name}({arguments})"), lambda name: True)
        assert counts == OperationCounts(function.fma, function.alu, function.mufu)


def test_count_operations_refuses_arithmetic() -> None:
    assert failure(lambda: costs("rS % 2")).message == "'%' is not an element-wise operation"
    assert failure(lambda: costs("ceil(rS)")).message == "'ceil' is not an element-wise operation"
    assert costs("rS * ceil(scale)") == {"tile_fma": 1}


CONDITION = "a condition stands where a number is needed"
WHERE = "write where(condition, a, b)"


@pytest.mark.parametrize(
    ("text", "offending", "message", "fix"),
    [
        ("rS * alfa", "alfa", "unknown name 'alfa'", "did you mean 'alpha'?"),
        ("rs@1", "rs@1", "unknown name 'rs'", "did you mean 'rS'?"),
        ("exp2 * rS", "exp2", "unknown name 'exp2'", "'exp2' is a function: write exp2(...)"),
        ("rS + 'a'", "'a'", "a string has no place in an element-wise formula", None),
        ("rS // 2", "rS // 2", "'//' is not an element-wise operation", None),
        ("exp2(rS % 2)", "rS % 2", "'%' is not an element-wise operation", None),
        ("rS > 0", "rS > 0", CONDITION, WHERE),
        ("rS * (m and l)", "(m and l)", CONDITION, WHERE),
        ("rS + true", "true", CONDITION, WHERE),
        ("where(m + 1, rS, 0)", "m + 1", "a condition is needed here", "compare it, e.g. x > 0"),
        ("where(m > 0, rS > 0, 0)", "rS > 0", CONDITION, WHERE),
        (
            "ceil(rS)",
            "ceil(rS)",
            "ceil is for arithmetic over parameters, not element-wise",
            "compute it as a parameter and use its name",
        ),
    ],
)
def test_check_formula_errors(text: str, offending: str, message: str, fix: str | None) -> None:
    error = failure(lambda: check_formula(parse(text), TILES | ROWS | SCALARS))
    assert (error.message, error.fix) == (message, fix)
    assert text[error.offset : error.offset + error.length] == offending


def test_check_condition() -> None:
    check_condition(parse("m > 0 and not (l == 1 or true) or bias"), ROWS)
    assert failure(lambda: check_condition(parse("m"), {"l"})).fix == "known names: l"
    assert failure(lambda: check_condition(parse("-m"), ROWS)).offset == 0

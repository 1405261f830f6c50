"""Expressions and text drawn at random."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedgen.expressions import (
    Binary,
    Boolean,
    Call,
    Compare,
    Expression,
    ExpressionError,
    Logical,
    Name,
    Number,
    Text,
    Unary,
    evaluate,
    parse,
    render,
)
from schedgen.expressions.functions import FUNCTIONS
from schedgen.expressions.mistakes import RESERVED
from tests.schedgen.expressions.test_mistakes import failure

identifiers = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True).filter(
    lambda word: word not in RESERVED
)
numbers = st.builds(
    Decimal, st.builds("{}e{}".format, st.integers(0, 10**20), st.integers(-40, 40))
)
strings = st.text(st.characters(exclude_characters="'\n", codec="utf-8")) | st.sampled_from(["'"])
leaves = st.one_of(
    numbers.map(lambda number: Number(Fraction(number))),
    strings.map(Text),
    st.booleans().map(Boolean),
    st.builds(Name, identifiers, st.integers(0, 3)),
)


def branches(operands: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    """Return a strategy for every kind of inner node above ``operands``."""

    def calls(name: str) -> st.SearchStrategy[Call]:
        function = FUNCTIONS[name]
        most = function.arity + 2 if function.variadic else function.arity
        arguments = st.lists(operands, min_size=function.arity, max_size=most).map(tuple)
        return st.builds(Call, st.just(name), arguments)

    return st.one_of(
        st.builds(Unary, st.sampled_from(["+", "-", "not"]), operands),
        st.builds(Binary, st.sampled_from(["+", "-", "*", "/", "//", "%"]), operands, operands),
        st.builds(Compare, st.sampled_from(["==", "!=", "<", "<=", ">"]), operands, operands),
        st.builds(Logical, st.sampled_from(["and", "or"]), operands, operands),
        st.sampled_from(sorted(FUNCTIONS)).flatmap(calls),
    )


@pytest.mark.medium
@given(st.recursive(leaves, branches, max_leaves=25))
def test_round_trip(expression: Expression) -> None:
    assert parse(render(expression)) == expression


words = st.sampled_from(
    [*"+-*/%()@,<>=!.'\" ab1", "//", "==", " and ", " not ", "max(", "1e", "m@1"]
)


@given(st.text(max_size=60) | st.lists(words, max_size=25).map("".join))
def test_random_text_raises_nothing_else(text: str) -> None:
    try:
        expression = parse(text)
    except ExpressionError as error:
        offending = range(error.offset, error.offset + error.length)
    else:
        offending = range(0)
        assert parse(render(expression)) == expression
    assert set(offending) <= set(range(len(text)))


# Without //, which turns two of Python's fractions into an int, and int / int is a float.
arithmetic = st.recursive(
    st.sampled_from([Name(name) for name in "abc"]),
    lambda operands: st.one_of(
        st.builds(Unary, st.sampled_from(["+", "-"]), operands),
        st.builds(Binary, st.sampled_from(["+", "-", "*", "/", "%"]), operands, operands),
    ),
    max_leaves=8,
)


@given(arithmetic, st.lists(st.fractions(-50, 50, max_denominator=3), min_size=3, max_size=3))
def test_arithmetic_agrees_with_python(expression: Expression, numbers: list[Fraction]) -> None:
    values = dict(zip("abc", numbers, strict=True))
    try:
        expected = Fraction(eval(render(expression), {}, values))
    except ZeroDivisionError:
        assert failure(lambda: evaluate(expression, values)).message == "division by zero"
    else:
        assert evaluate(expression, values) == expected

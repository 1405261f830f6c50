"""Expressions: what text means, and canonical text."""

from __future__ import annotations

from fractions import Fraction

import pytest

from schedgen.expressions import (
    Binary,
    Boolean,
    Call,
    Compare,
    Expression,
    Logical,
    Name,
    Number,
    Text,
    Unary,
    parse,
    references,
    render,
)

A, B, C = Name("a"), Name("b"), Name("c")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.5", Number(Fraction(1, 2))),
        ("1e-7", Number(Fraction(1, 10**7))),
        ("'tmem'", Text("tmem")),
        ('"it\'s"', Text("it's")),
        ("true", Boolean(True)),
        ("m@1", Name("m", 1)),
        ("m@0", Name("m")),
        ("android", Name("android")),
        ("a - b - c", Binary("-", Binary("-", A, B), C)),
        ("a + b * c", Binary("+", A, Binary("*", B, C))),
        ("a // b % c", Binary("%", Binary("//", A, B), C)),
        ("-a * b", Binary("*", Unary("-", A), B)),
        ("a - -b", Binary("-", A, Unary("-", B))),
        ("not a == b", Unary("not", Compare("==", A, B))),
        ("a or b and c", Logical("or", A, Logical("and", B, C))),
        ("a < b + c", Compare("<", A, Binary("+", B, C))),
        ("max(a,\n b, c)", Call("max", (A, B, C))),
    ],
)
def test_parse(text: str, expected: Expression) -> None:
    assert parse(text) == expected


def test_positions_include_own_parentheses() -> None:
    tree = parse(" (a + b) * exp2(c)")
    assert isinstance(tree, Binary)
    positions = [(node.offset, node.length) for node in (tree, tree.left, tree.right)]
    assert positions == [(1, 17), (1, 7), (11, 7)]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("((a))*(b+c)", "a * (b + c)"),
        ("(a*b)+(c)", "a * b + c"),
        ("a-(b-c)", "a - (b - c)"),
        ("-(-a)", "--a"),
        ("-(a*b)", "-(a * b)"),
        ("(not a) == b", "(not a) == b"),
        ("(a == b) == c", "(a == b) == c"),
        ("(a or b) and c", "(a or b) and c"),
        ("where((m@1-mx)*scale>=-8,m@1,mx)", "where((m@1 - mx) * scale >= -8, m@1, mx)"),
        ("0.50 + 1E-7 + 10e2 + 1e30", "0.5 + 1e-7 + 1000 + 1e30"),
    ],
)
def test_render(text: str, canonical: str) -> None:
    assert render(parse(text)) == canonical


def test_render_of_literals_that_have_no_spelling() -> None:
    third = Binary("*", A, Number(Fraction(-1, 3)))
    assert render(third) == "a * (-1 / 3)"
    assert render(Binary("-", A, Number(Fraction(-2)))) == "a - -2"


def test_references_in_order_of_first_appearance() -> None:
    found = references(parse("where(m@1 > mx, m@1, exp2(mx) + m)"))
    assert found == (Name("m", 1), Name("mx"), Name("m"))

"""Terms: sums, quotients by multiplication, and what is not one."""

from __future__ import annotations

import pytest

from schedgen.conform.evaluate import Linear
from schedgen.conform.induction import Written
from schedgen.conform.minima import Implied, no_more, not_negative
from schedgen.conform.terms import Term, Terms


@pytest.fixture
def terms() -> Terms:
    return Terms()


def test_equal_terms_are_one(terms: Terms) -> None:
    x, y = terms.symbol("x"), terms.symbol("y")
    assert terms.add(x, y) is terms.add(y, x)
    assert terms.sum(((x, 2), (y, 1), (x, -2))) is y
    assert terms.product(terms.sum(((x, 1),), 1), y) is terms.add(terms.product(x, y), y)
    assert terms.unknown() is not terms.unknown()


@pytest.mark.parametrize(
    ("magic", "by", "bits", "divisor"),
    [
        (0xAAAAAAAB, 1, 32, 3),
        (0xCCCCCCCD, 2, 32, 5),
        (2635249153617166336, 0, 64, 7),
        (0xAAAAAAAB, 2, 32, 6),
    ],
)
def test_quotients(terms: Terms, magic: int, by: int, bits: int, divisor: int) -> None:
    x = terms.symbol("x")
    high = terms.high_product(x, terms.const(magic), bits)
    assert terms.shifted_right(high, by) is terms.divided(x, divisor)
    for value in (0, 1, divisor - 1, divisor, 12345, 2**31, 2**32 - 1):
        assert value * magic >> (bits + by) == value // divisor


def test_quotient_of_33_bits(terms: Terms) -> None:
    """Division by 7 with 32-bit registers: half of what is left is added to the upper half."""
    x = terms.symbol("x")
    high = terms.high_product(x, terms.const(0x24924925))
    half = terms.shifted_right(terms.sum(((x, 1), (high, -1))), 1)
    assert terms.shifted_right(terms.add(half, high), 2) is terms.divided(x, 7)


@pytest.mark.parametrize("magic", [0xAAAAAAAA, 0xAAAAAAB0, 0x12345678])
def test_other_products_are_no_quotients(terms: Terms, magic: int) -> None:
    high = terms.high_product(terms.symbol("x"), terms.const(magic))
    assert terms.shifted_right(high, 1).op == "shr"


def test_remainders(terms: Terms) -> None:
    x = terms.sum(((terms.symbol("x"), 2),), 3)
    quotient = terms.divided(x, 3)
    assert terms.sum(((x, 1), (quotient, -3))) is terms.remainder(x, 3)
    eight = terms.sum(((x, 8), (quotient, -24)), 56)
    assert eight is terms.sum(((terms.remainder(x, 3), 8),), 56)
    assert terms.sum(((x, 1), (quotient, -2))).op == "sum"


def test_comparisons(terms: Terms) -> None:
    x, two = terms.symbol("x"), terms.const(2)
    assert terms.compare("ne", x, two) is terms.negation(terms.compare("eq", two, x))
    assert terms.compare("gt", x, two) is terms.negation(terms.compare("le", x, two))
    truth: Term = terms.compare("lt", terms.const(1), two)
    assert truth.number == 1


def test_minima_of_several_have_one_form(terms: Terms) -> None:
    """Whichever two a compiler takes first, also after what they are made of got other names."""
    x, y, z = (terms.symbol(name) for name in "xyz")
    one = terms.extreme("min", terms.extreme("min", x, y), z)
    assert terms.extreme("min", x, terms.extreme("min", z, y)) is one
    assert terms.extreme("min", one, y) is one
    assert terms.extreme("min", terms.extreme("max", x, y), z).op == "min"
    late, early = terms.symbol("late"), x
    other = terms.extreme("min", terms.extreme("min", y, late), z)
    assert Written(terms, {late: early}).term(other) is one
    assert terms.extreme("max", x, x) is x


def test_what_is_no_more_than_what(terms: Terms) -> None:
    x, y, z = (terms.symbol(name) for name in "xyz")
    trips, one = terms.extreme("min", x, y), terms.const(1)
    first = terms.extreme("min", trips, terms.extreme("max", z, one))
    end = terms.extreme("min", trips, terms.extreme("max", terms.symbol("e"), first))
    for less, more in (
        (terms.extreme("min", trips, one), first),
        (first, end),
        (end, trips),
        (one, terms.extreme("max", z, terms.const(2))),
        (terms.extreme("max", first, end), trips),
    ):
        assert no_more(less, more)
        assert not no_more(more, less)
    assert not no_more(one, first)  # there may be no trips
    assert not no_more(z, trips)


def test_what_follows_for_parts_of_minima(terms: Terms) -> None:
    """Of the end of a loop: what it is the minimum of is as large, or that."""
    x, y, z = (terms.symbol(name) for name in "xyz")
    trips, one = terms.extreme("min", x, y), terms.const(1)
    end = terms.extreme("min", trips, terms.extreme("max", z, one))
    many, three = Linear(9, (("more", 1),)), Linear(3)

    def told(form: Linear) -> dict[Term, Linear]:
        implied = Implied({})
        implied.add(trips, many)
        implied.add(end, form)
        assert implied.forms[x].plus(many, -1).at_least == 0
        assert implied.forms[x].plus(many, -1).at_most is None
        return implied.forms

    assert told(three)[z] == three
    assert told(Linear(1))[z].at_most == 1  # the constant may be the maximum
    assert told(Linear(1))[z].at_least is None
    assert told(many)[z].plus(many, -1).at_least == 0  # or z, if it is no less than the trips
    assert told(many)[z].at_most is None


def test_numbers_that_are_not_negative(terms: Terms) -> None:
    x, passed = terms.symbol("x"), terms.make("loaded?", terms.symbol("parameter 3"), 0)
    one = terms.extreme("max", x, terms.const(1))
    assert not_negative(terms.extreme("min", one, passed))
    assert not not_negative(terms.extreme("min", one, x))
    assert not not_negative(x)
    assert not not_negative(terms.const(-1))
    assert not not_negative(terms.extreme("max", x, terms.const(-1)))

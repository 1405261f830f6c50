"""Values: what is known of a number's residues is known of the number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedgen.conform.evaluate import Environment, Linear
from schedgen.conform.terms import Term, Terms
from schedgen.conform.values import SHARED_ALIGNMENT, Value, along

_OPERATORS = ("and", "or", "xor")
_PYTHON = {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}


@st.composite
def formulas(draw: st.DrawFn) -> list[tuple[str, int]]:
    """Operators with constants, applied one after the other to a number."""
    steps = st.one_of(
        st.tuples(st.sampled_from(("add", "mul")), st.integers(0, 24)),
        st.tuples(st.sampled_from(("shr",)), st.integers(1, 3)),
        st.tuples(st.sampled_from(("div", "mod")), st.integers(2, 6)),
        st.tuples(st.sampled_from(_OPERATORS), st.integers(0, 63)),
    )
    return draw(st.lists(steps, min_size=1, max_size=4))


def _apply(terms: Terms, x: Term, steps: list[tuple[str, int]]) -> Term:
    for how, by in steps:
        match how:
            case "add":
                x = terms.sum(((x, 1),), by)
            case "mul":
                x = terms.times(x, by)
            case "shr":
                x = terms.shifted_right(x, by)
            case "div":
                x = terms.divided(x, by)
            case "mod":
                x = terms.remainder(x, by)
            case _:
                x = terms.make(how, x, terms.const(by))
    return x


def _number(x: int, steps: list[tuple[str, int]]) -> int:
    for how, by in steps:
        compute = {
            "add": x + by, "mul": x * by, "shr": x >> by if how == "shr" else 0,
            "div": x // by if by else 0, "mod": x % by if by else 0,
        }  # fmt: skip
        x = compute[how] if how in compute else _PYTHON[how](x, by)
    return x


@pytest.mark.medium
@settings(max_examples=300, deadline=None)
@given(formulas(), st.sampled_from((8, 12, 24, 48)), st.integers(0, 5000))
def test_residues_say_no_more_than_what_is_so(
    steps: list[tuple[str, int]], modulus: int, number: int
) -> None:
    terms = Terms()
    x = terms.symbol("x")
    env = Environment({x: along("turn", np.arange(modulus), modulus)}, {})
    value = env.value(_apply(terms, x, steps))
    if value is None:
        return
    wanted = _number(number, steps)
    found = np.broadcast_to(value.array.reshape(-1), (modulus,))[number % modulus]
    assert (wanted - int(found)) % (value.modulus or 2**62) == 0


def test_slot_and_parity() -> None:
    terms = Terms()
    x = terms.symbol("x")
    env = Environment({x: along("turn", np.arange(8), 8)}, {})
    slot = env.value(terms.make("and", terms.times(x, 8), terms.const(24)))
    parity = env.value(terms.make("and", terms.shifted_right(x, 2), terms.const(1)))
    assert slot is not None
    assert parity is not None
    assert slot.plain
    assert parity.plain
    assert slot.array.reshape(-1).tolist() == [0, 8, 16, 24] * 2
    assert parity.array.reshape(-1).tolist() == [0] * 4 + [1] * 4
    four = env.value(terms.make("and", x, terms.const(15)))
    assert four is not None
    assert four.modulus == 8  # of four bits three are known


def test_addresses() -> None:
    terms = Terms()
    start = terms.symbol("shared")
    env = Environment({start: Value(np.zeros((1, 1, 1, 1), np.int64), 0, SHARED_ALIGNMENT)}, {})
    at = terms.sum(((start, 1),), 33792)
    descriptor = terms.make("and", terms.shifted_right(at, 4), terms.const(16320))
    value = env.value(descriptor)
    assert value is not None
    assert (value.shared, int(value.array.flat[0])) == (64, 2112)
    swizzle = env.value(terms.make("and", terms.shifted_right(at, 3), terms.const(112)))
    assert swizzle is not None
    assert swizzle.plain
    assert env.value(terms.make("and", at, terms.const(2047))) is None


@pytest.mark.parametrize(
    ("constant", "factors", "equal", "less"),
    [
        (0, (("n", 1),), None, False),
        (1, (("n", 1),), False, False),
        (-1, (("n", -1),), False, True),
        (0, (), True, False),
        (0, (("n", 1), ("m", -1)), None, None),
    ],
)
def test_conditions(
    constant: int, factors: tuple[tuple[str, int], ...], equal: bool | None, less: bool | None
) -> None:
    terms = Terms()
    x, zero = terms.symbol("x"), terms.const(0)
    env = Environment({}, {x: Linear(constant, factors)})
    assert env.decide(terms.compare("eq", x, zero)) is equal
    assert env.decide(terms.compare("lt", x, zero)) is less


@pytest.mark.parametrize("bits", [32, 64])
def test_signs_that_bits_were_moved_to(bits: int) -> None:
    """Compilers make a mask of a bit of a thread's number: to the left up to the sign, and back."""
    terms = Terms()
    thread = terms.symbol("thread")
    moved = terms.halved(terms.times(thread, 2**25), 31, bits)
    threads = np.arange(128)
    env = Environment({thread: Value(threads.reshape(1, 1, 1, -1))}, {})
    value = env.value(moved)
    assert value is not None
    wanted = np.where(threads & 64, -1, 0) if bits == 32 else threads << 25 >> 31
    assert value.array.reshape(-1).tolist() == wanted.tolist()
    assert terms.halved(terms.const(64 << 25), 31, bits).number == (-1 if bits == 32 else 1)

"""Registers that are multiples of the output tile."""

from __future__ import annotations

import pytest

from schedgen.conform.induction import Written, reduced
from schedgen.conform.skeleton import Action, Carried, Loop
from schedgen.conform.terms import Term, Terms
from schedgen.emulator.ptx.tree import Instruction

_ONE = Instruction("nop", (), (), 1)


@pytest.fixture
def terms() -> Terms:
    return Terms()


def _loop(terms: Terms, factor: int, step: int, more: int) -> tuple[Loop, Term, Term]:
    """A loop over output tiles x that carries ``factor x + more`` along, if ``step`` is that."""
    block, blocks = terms.symbol("%ctaid.x"), terms.symbol("%nctaid.x")
    tile, other = terms.symbol("tile"), terms.symbol("other")
    carried = {
        tile: Carried("t", block, terms.add(tile, blocks)),
        other: Carried(
            "o", terms.sum(((block, factor),), more), terms.sum(((other, 1), (blocks, step)))
        ),
    }
    action = Action("wait", _ONE, terms.times(other, 64), (other,))
    return Loop(terms.symbol("turn"), carried, (action,), _ONE), tile, other


def test_multiples_are_written_with_the_tile(terms: Terms) -> None:
    loop, tile, _ = _loop(terms, 2, 2, 2)
    ((found,),) = (one.body for one in reduced((loop,), terms) if isinstance(one, Loop))
    assert isinstance(found, Action)
    assert found.address is terms.sum(((tile, 128),), 128)
    assert found.values == (terms.sum(((tile, 2),), 2),)


@pytest.mark.parametrize("step", [1, 3, -2])
def test_others_stay(terms: Terms, step: int) -> None:
    loop, _, _ = _loop(terms, 2, step, 2)
    assert reduced((loop,), terms) == (loop,)


def test_order_of_arguments_is_found_again(terms: Terms) -> None:
    """Which of two arguments comes first depends on which was made first: after a symbol has been
    replaced, too, and a constant is last.
    """
    old, new, other = terms.symbol("old"), terms.symbol("new"), terms.symbol("other")
    late = terms.times(old, 3)
    term = terms.commuted("min", other, terms.commuted("max", terms.const(1), late))
    wanted = terms.commuted(
        "min", terms.commuted("max", terms.times(new, 3), terms.const(1)), other
    )
    assert Written(terms, {old: new}).term(term) is wanted
    assert Written(terms, {}).term(term) is term


def test_comparisons_are_made_again(terms: Terms) -> None:
    old, new = terms.symbol("old"), terms.symbol("new")
    condition = terms.negation(terms.compare("lt", old, new))
    assert Written(terms, {old: new}).term(condition).number == 1

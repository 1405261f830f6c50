"""Pieces of operations, and the waits behind them."""

from __future__ import annotations

from typing import NoReturn, cast

import pytest

from schedgen.conform.pieces import Found, own_waits
from schedgen.conform.skeleton import Action
from schedgen.conform.trace import Event
from schedgen.emulator.ptx.tree import Instruction

WAIT = "tcgen05.wait::ld"
LETTERS = {"t": ("tmem read", "S", False), "s": ("read", "f", False), "o": ("write", "D", True)}
"""A read of tensor memory, one of shared memory, a write there; another letter is a wait."""


class Differs(Exception):
    """What is reported."""


def differ(message: str, step: str, event: Event | None) -> NoReturn:
    raise Differs(message)


def own(text: str) -> bool | None:
    """Whether the operation of these accesses waits itself; None: nobody knows."""
    found: list[Found] = []
    for letter in text:
        kind, allocation, write = LETTERS.get(letter, (WAIT, "", False))
        event = Event(Action(kind, cast(Instruction, None)), {}, False, (), None)  # pyright: ignore
        choice = {0: frozenset({(allocation, write)})} if allocation else {}
        found.append(Found(event, choice, 0 if choice else -1))
    return own_waits(WAIT, found, differ).get(0)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("twtwtw", True),
        ("tswtswtsw", True),
        ("tswtwtw", True),  # what is for all pieces is read once
        ("stwtwtw", True),
        ("ttt", None),
        ("tstst", False),
        ("towto", False),
        ("two", True),
    ],
)
def test_waits_behind_pieces(text: str, found: bool | None) -> None:
    assert own(text) is found


@pytest.mark.parametrize("text", ["twttw", "tswtotw", "tswtstsw", "twotwotow"])
def test_a_wait_is_missing(text: str) -> None:
    with pytest.raises(Differs, match=WAIT):
        own(text)

"""Accesses that several operations may have made."""

from __future__ import annotations

from schedgen.conform.assign import Choice, ways

_READ, _WRITE = ("row", False), ("tile", True)
_NEEDS = [frozenset((_READ, _WRITE)), frozenset((_READ, _WRITE))]
_ROW: Choice = {0: frozenset((_READ,)), 1: frozenset((_READ,))}
"""Read by both operations."""
_FIRST: Choice = {0: frozenset((_WRITE,))}
_SECOND: Choice = {1: frozenset((_WRITE,))}
"""Bands that one of them writes."""


def test_each_operation_has_what_it_needs() -> None:
    assert list(ways([_ROW, _FIRST, _ROW, _SECOND], _NEEDS)) == [[0, 0, 1, 1]]
    assert list(ways([_ROW, _FIRST, _ROW, _ROW, _SECOND], _NEEDS)) == [
        [0, 0, 0, 1, 1],
        [0, 0, 1, 1, 1],
    ]


def test_what_is_lost_leaves_no_way() -> None:
    assert not list(ways([_ROW, _FIRST, _ROW], _NEEDS))
    assert not list(ways([_ROW, _ROW, _SECOND], _NEEDS))
    assert not list(ways([_ROW, _FIRST, _SECOND], _NEEDS))
    assert not list(ways([], _NEEDS))


def test_order_is_that_of_operations() -> None:
    assert not list(ways([_ROW, _SECOND, _ROW, _FIRST], _NEEDS))


def test_operations_that_need_nothing() -> None:
    none: frozenset[tuple[str, bool]] = frozenset()
    assert list(ways([], [none, none])) == [[]]
    assert list(ways([_SECOND], [none, frozenset((_WRITE,))])) == [[1]]
    assert list(ways([_ROW], [none, none, none])) == [[0], [1]]


def test_staying_comes_first() -> None:
    found = list(ways([_ROW] * 4, [frozenset((_READ,)), frozenset((_READ,))]))
    assert found == [[0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 1, 1]]

"""Which operations accesses belong to, where several operations touch the same bytes.

Accesses come in the order of the operations, and each operation that needs an access has one. An
access that two operations may have made is that of either; what a comparison accepts has to hold
for one way to tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

Need = tuple[str, bool]
"""A store, and whether it is written."""
Choice = Mapping[int, frozenset[Need]]
"""Operations that an access may belong to, by number, and what of their needs it is."""
_State = tuple[int, frozenset[Need]]
"""The operation that the last access belonged to, and which of its needs are met."""


def ways(choices: Sequence[Choice], needs: Sequence[frozenset[Need]]) -> Iterator[list[int]]:
    """All ways to give each access an operation: in their order, each need met. Those that stay
    with an operation for as long as possible come first.
    """
    first = _staying(choices, needs)
    if first is not None:
        yield first
    for way in _all(choices, needs):
        if way != first:
            yield way


def _staying(choices: Sequence[Choice], needs: Sequence[frozenset[Need]]) -> list[int] | None:
    """The way that stays with an operation while that is possible, if it is one."""
    way: list[int] = []
    met: list[frozenset[Need]] = [frozenset() for _ in needs]
    at = 0
    for choice in choices:
        at = min((number for number in choice if number >= at), default=-1)
        if at < 0:
            return None
        met[at] |= choice[at]
        way.append(at)
    return way if all(a <= b for a, b in zip(needs, met, strict=True)) else None


def _all(choices: Sequence[Choice], needs: Sequence[frozenset[Need]]) -> Iterator[list[int]]:
    """All ways."""
    layers = _layers(choices, needs)
    if layers is None:
        return
    stack: list[list[_State]] = [[state] for state in sorted(layers[0], key=_order, reverse=True)]
    while stack:
        way = stack.pop()
        if len(way) == len(layers):
            yield [number for number, _ in way[1:]]
            continue
        choice, on = choices[len(way) - 1], layers[len(way)]
        onward = [state for state in _onward(way[-1], choice, needs) if state in on]
        stack += [[*way, state] for state in sorted(onward, key=_order, reverse=True)]


def _order(state: _State) -> tuple[int, int]:
    return state[0], -len(state[1])


def _layers(
    choices: Sequence[Choice], needs: Sequence[frozenset[Need]]
) -> list[set[_State]] | None:
    """States before the first access and behind each one from which the end can be reached."""
    layers: list[set[_State]] = [{(0, frozenset())}]
    for choice in choices:
        layers.append({one for state in layers[-1] for one in _onward(state, choice, needs)})
    layers[-1] = {state for state in layers[-1] if _passes(state, len(needs), needs)}
    for layer, (before, behind) in reversed(list(enumerate(pairwise(layers)))):
        choice = choices[layer]
        layers[layer] = {s for s in before if any(o in behind for o in _onward(s, choice, needs))}
    return layers if layers[0] else None


def _onward(state: _State, choice: Choice, needs: Sequence[frozenset[Need]]) -> Iterator[_State]:
    """Where an access leads."""
    at, met = state
    for number, hit in choice.items():
        if number == at:
            yield at, (met | hit) & needs[at]
        elif number > at and _passes(state, number, needs):
            yield number, hit & needs[number]


def _passes(state: _State, number: int, needs: Sequence[frozenset[Need]]) -> bool:
    """Whether all operations before ``number`` have what they need."""
    at, met = state
    return needs[at : at + 1] in ([], [met]) and not any(needs[at + 1 : number])

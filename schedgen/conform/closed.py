"""Registers that the turns of a loop hand on, in closed form over the number of the turn.

Counters grow by the same in each turn. Slots and phases of rings are finite machines: what a turn
makes of a slot is computed for each of its values, and if it is ``slot + s mod D`` for all, that is
what it is in any turn; likewise for pairs of slot and phase. Nothing is guessed from how the code
looks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from schedgen.conform.evaluate import Environment, Linear
from schedgen.conform.skeleton import Carried, Exit, Items, Loop, all_loops
from schedgen.conform.terms import Term, Terms, addends, below
from schedgen.conform.values import Array, Value, along


@dataclass(frozen=True, slots=True)
class Ring:
    """A slot that moves on by ``step`` of ``slots``; or the phase that belongs to ``slot``."""

    slots: int
    step: int
    slot: Term | None = None


class Closed:
    """The loops of a role. ``rings``: sizes that rings of the program have.

    A loop may go on with what the one before has left in a register: then it is in closed form over
    the turns of both.
    """

    def __init__(self, skeleton: Items, rings: Iterable[int], terms: Terms) -> None:
        self.terms = terms
        self.loops = list(all_loops(skeleton))
        self._owner = {symbol: loop for loop in self.loops for symbol in loop.carried}
        self._sizes = sorted({2, *(size for size in rings if size > 1)})
        self._rings: dict[Term, Ring | None] = {}
        self._updates = dict(self._left())
        self.begins: dict[Term, Term] = {}
        """Where loops begin that are behind others, by their `Loop.number`."""

    def _left(self) -> Iterable[tuple[Term, Term]]:
        """What registers hold behind loops that ask at the end of each turn, and which they are."""
        for loop in self.loops:
            if isinstance(loop.body[-1], Exit):
                for symbol, carried in loop.carried.items():
                    if carried.update is not symbol:
                        yield carried.update, symbol

    def carried(self, symbol: Term) -> tuple[Loop, Carried] | None:
        loop = self._owner.get(symbol)
        return None if loop is None else (loop, loop.carried[symbol])

    def step(self, symbol: Term) -> int | None:
        """What a counter grows by in each turn; 0 for what stays; None if it is no counter."""
        found = self.carried(symbol)
        if found is None:
            return None
        constant, pairs = addends(found[1].update)
        return constant if pairs == [(symbol, 1)] else None

    def turns_since(self, first: Loop, loop: Loop) -> Term:
        """The number of turns before one of ``loop`` and from the beginning of ``first`` on."""
        if first is loop:
            return loop.number
        return self.terms.make("turns since", first.number, loop.number)

    def turn_of(self, loop: Loop) -> Term:
        """The number of a turn of ``loop``, counted through all loops of a tile."""
        return self.terms.make("turn of", loop.number)

    # -- for environments ----------------------------------------------------------------------

    def value(self, env: Environment, symbol: Term) -> Value | None:
        found = self.carried(symbol)
        if found is None:
            return None
        step = self.step(symbol)
        if step is not None:
            return self._counter(env, symbol, step)
        ring = self._ring(symbol, found[0])
        if ring is None:
            return None
        first, loop, entry = self._begin(env, symbol)
        turns = self.turns_since(first, loop)
        if ring.slot is None:
            moved = _moved(_within(env.value(entry), ring.slots), env, turns, ring.step)
            return _remainder(moved, ring.slots)
        beside, _, of_slot = self._begin(env, ring.slot)
        if beside is not first:
            return None
        slot = _within(env.value(of_slot), ring.slots)
        phase = _within(env.value(entry), 2)
        if slot is None or phase is None:
            return None
        number = Value(slot.array + ring.slots * phase.array)
        moved = _remainder(_moved(number, env, turns, ring.step), 2 * ring.slots)
        return None if moved is None else Value(moved.array // ring.slots)

    def _counter(self, env: Environment, symbol: Term, step: int) -> Value | None:
        """What is ``step`` more in each turn; it may have begun with the number of a turn."""
        first, loop, entry = self._begin(env, symbol)
        begin, (constant, pairs) = self.begins.get(first.number), addends(entry)
        if step and begin is not None and (begin, step) in pairs:
            rest = [pair for pair in pairs if pair != (begin, step)]
            turn = self.turn_of(loop)
            return env.value(self.terms.sum([*rest, (turn, step)], constant))
        return _moved(env.value(entry), env, self.turns_since(first, loop), step)

    def form(self, env: Environment, symbol: Term) -> Linear | None:
        """A counter as a linear form."""
        found, step = self.carried(symbol), self.step(symbol)
        if found is None or step is None:
            return None
        entry = env.form(found[1].entry)
        if not step or entry is None:
            return entry
        number = env.form(found[0].number)
        return None if number is None else entry.plus(number, step)

    def _begin(self, env: Environment, symbol: Term) -> tuple[Loop, Loop, Term]:
        """The first of the loops that hand a register on, the loop of ``symbol``, and what is in
        the register before the first turn.
        """
        last, carried = self._owner[symbol], self._owner[symbol].carried[symbol]
        first, entry = last, env.chosen(carried.entry)
        while True:
            before = self._left_by(entry)
            if before is None or not self._alike(symbol, before):
                return first, last, entry
            first = self._owner[before]
            symbol, entry = before, env.chosen(first.carried[before].entry)

    def _left_by(self, entry: Term) -> Term | None:
        """The register of a loop that is as that loop leaves it."""
        if entry in self._owner:  # where it asks first whether it ends
            asks = isinstance(self._owner[entry].body[0], Exit)
            return entry if asks else None
        return self._updates.get(entry)

    def _alike(self, one: Term, other: Term) -> bool:
        """Whether both registers move in the same way."""
        if self._owner[one] is self._owner[other]:
            return False
        if self.step(one) is not None:
            return self.step(one) == self.step(other)
        rings = [self._ring(symbol, self._owner[symbol]) for symbol in (one, other)]
        if None in rings:
            return False
        mine, before = (ring for ring in rings if ring is not None)
        same = (mine.slots, mine.step) == (before.slots, before.step)
        return same and (mine.slot is None) == (before.slot is None)

    # -- rings ---------------------------------------------------------------------------------

    def _ring(self, symbol: Term, loop: Loop) -> Ring | None:
        if symbol not in self._rings:
            self._rings[symbol] = None
            self._rings[symbol] = self._found(symbol, loop)
        return self._rings[symbol]

    def _found(self, symbol: Term, loop: Loop) -> Ring | None:
        update = loop.carried[symbol].update
        leaves = {leaf for leaf in below(update) if leaf.op == "sym"}
        if leaves == {symbol}:
            return next(filter(None, (_slot(symbol, update, size) for size in self._sizes)), None)
        others = leaves - {symbol}
        if symbol not in leaves or len(others) != 1:
            return None
        (other,) = others
        if other not in loop.carried:
            return None
        ring = self._ring(other, loop)
        if ring is None or ring.slot is not None:
            return None
        return _phase(symbol, other, update, ring)


def _slot(symbol: Term, update: Term, size: int) -> Ring | None:
    now = np.arange(size)
    after = _computed(update, {symbol: along("turn", now)})
    if after is None:
        return None
    after = after.reshape(-1)
    step = int(after[0])
    if 0 < step < size and bool((after == (now + step) % size).all()):
        return Ring(size, step)
    return None


def _phase(symbol: Term, slot: Term, update: Term, ring: Ring) -> Ring | None:
    slots, phases = np.arange(ring.slots), np.arange(2)
    after = _computed(update, {slot: along("turn", slots), symbol: along("tile", phases)})
    if after is None:
        return None
    again = along("turn", (slots + ring.step) // ring.slots).array
    wanted = along("tile", phases).array ^ again
    return Ring(ring.slots, ring.step, slot) if bool((after == wanted).all()) else None


def _computed(update: Term, given: dict[Term, Value]) -> Array | None:
    found = Environment(given, {}).value(update)
    return found.array if found is not None and found.plain else None


def _moved(entry: Value | None, env: Environment, turns: Term, step: int) -> Value | None:
    if entry is None or not step:
        return entry
    number = env.value(turns)
    if number is None:
        return None
    modulus = int(np.gcd(entry.modulus, step * number.modulus))
    return Value(entry.array + step * number.array, modulus, entry.shared, entry.tensor)


def _within(value: Value | None, size: int) -> Value | None:
    """A value that is exact and in range."""
    if value is None or not value.plain:
        return None
    return value if bool(((value.array >= 0) & (value.array < size)).all()) else None


def _remainder(value: Value | None, size: int) -> Value | None:
    if value is None or value.modulus % size or value.shared or value.tensor:
        return None
    return Value(value.array % size)

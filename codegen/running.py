"""Running numbers of rings: which slot one uses, and in which phase the barrier of that slot is.

Between its ends a loop carries both along instead of dividing in each turn: ``kv_stage, kv_phase``
are those of number ``first + turn`` in the ring ``kv``, ``kv_stage_next, kv_phase_next`` those of
the number after it. Rings with as many slots share them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Literal

from schedgen.program.operations import Number


@dataclass(frozen=True, slots=True)
class Iteration:
    """An iteration of a role's loop, counted within its tile, from ``base`` on.

    ``base``: 0, the turn of the loop, or the number of iterations of the tile. ``partly``: it is
    known to come behind those of a tile whose blocks are full.
    """

    base: Literal["", "turn", "trips"]
    offset: int = 0
    partly: bool = field(default=False, compare=False)

    @property
    def text(self) -> str:
        if not self.base:
            return str(self.offset)
        sign = "-" if self.offset < 0 else "+"
        return f"{self.base} {sign} {abs(self.offset)}" if self.offset else self.base

    @property
    def total(self) -> str:
        """The same counted over all tiles."""
        return "first" if self.text == "0" else f"first + {self.text}"

    @property
    def names(self) -> tuple[str, ...]:
        """The variables in it."""
        return (self.base,) if self.base else ()


@dataclass(frozen=True, slots=True)
class Running:
    """A running number of a ring of ``slots`` slots in an iteration; None: outside of the loop.

    ``of`` are the allocations whose slots the ring has.
    """

    number: Number
    slots: int
    at: Iteration | None
    of: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """An expression that is never negative."""
        return f"{self.counted} + {self.ahead}" if self.ahead else self.counted

    @property
    def ahead(self) -> int:
        """How far it is ahead of `counted`: a multiple of two turns of the ring is added, which
        changes neither slot nor parity, so that no number is negative.
        """
        offset = self.number.offset
        return offset if offset >= 0 else offset % (2 * self.slots)

    @property
    def counted(self) -> str:
        """The expression that grows with the number."""
        counter, scale = self._counter, self.number.scale
        if scale != 1 and " " in counter:
            counter = f"({counter})"
        return counter if scale == 1 else f"{scale} * {counter}"

    @property
    def _counter(self) -> str:
        if self.number.per_tile:
            return "t"
        if self.at is None:
            raise ValueError(f"number {self.number.text} has no iteration here")
        return self.at.total

    @property
    def names(self) -> tuple[str, ...]:
        return () if self.number.per_tile or self.at is None else self.at.names


@dataclass(frozen=True, slots=True, order=True)
class Carried:
    """Slot and phase of number ``scale * (first + turn) + ahead``, carried from turn to turn."""

    slots: int
    ahead: int
    scale: int


@dataclass(frozen=True, slots=True)
class PipelineState:
    """What is carried, and the variables for it."""

    carried: Carried
    stage: str
    phase: str

    def begin(self, turn: int) -> Running:
        """The number of which they are slot and phase before the loop, whose first turn is
        ``turn``.
        """
        slots, scale = self.carried.slots, self.carried.scale
        return Running(Number(scale, self.carried.ahead + scale * turn), slots, Iteration(""))


States = Collection[Carried]


def steady(number: Running) -> tuple[Carried, int] | None:
    """What a loop can carry for a number, and how many turns of the ring later it is.

    None if it is no number of a turn between the loop's ends. ``advance`` goes round a ring once at
    most, so no number that grows faster is carried.
    """
    value, at, slots = number.number, number.at, number.slots
    if at is None or at.base != "turn" or value.per_tile or slots == 1 or value.scale > slots:
        return None
    turns, ahead = divmod(value.offset + value.scale * at.offset, slots)
    return Carried(slots, ahead, value.scale), turns


def carried(number: Running, states: States) -> tuple[Carried, int] | None:
    """What one of ``states`` is for a number, and how many turns of the ring later it is."""
    found = steady(number)
    return found if found is not None and found[0] in states else None


def states_of(
    numbers: Iterable[Running], give: Callable[[Carried, str], str]
) -> tuple[PipelineState, ...]:
    """The states that a loop carries whose turns use these numbers.

    ``give`` makes a variable of a name that says what it is.
    """
    owners: dict[Carried, dict[str, None]] = {}
    for number in numbers:
        found = steady(number)
        if found is not None:
            owners.setdefault(found[0], {}).update(dict.fromkeys(number.of))
    return tuple(
        PipelineState(
            state,
            *(give(state, f"{_ring(state, owners[state])} {kind}{_which(state)}") for kind in BOTH),
        )
        for state in sorted(owners)
    )


BOTH = ("stage", "phase")
_MOST = 2
"""Stores that a state is named after; one that more of them share is named after its slots."""


def _ring(state: Carried, allocations: Iterable[str]) -> str:
    found = sorted(allocations)
    return " ".join(found) if 0 < len(found) <= _MOST else f"ring of {state.slots}"


def _which(state: Carried) -> str:
    """Which number of the turn it is."""
    after, before = state.ahead, state.slots - state.ahead
    if not after:
        return ""
    word, count = ("next", after) if after <= before else ("before", before)
    return f" {word}" if count == 1 else f" {word} {count}"

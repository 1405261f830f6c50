"""Running numbers of rings: which slot one uses, and in which phase the barrier of that slot is.

Between its ends a loop carries both along instead of dividing in each turn: ``slot_3, phase_3`` are
those of number ``first + turn`` in a ring of 3 slots, ``slot_3_1, phase_3_1`` those of the number
after it. ``_by_2`` stands behind those of a ring that each iteration uses twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from schedgen.program.model import Number

STEADY = "first + turn"
"""The iteration, counted over all tiles, in turns between the ends of a loop; a step's shift is
subtracted."""
_STEADY = re.compile(rf"{re.escape(STEADY)}(?: - (\d+))?")
_CARRIED = re.compile(r"(?:slot|phase)_(\d+)(?:_(\d+))?(?:_by_(\d+))?")


@dataclass(frozen=True, slots=True, order=True)
class Carried:
    """Slot and phase of number ``scale * (first + turn) + ahead``, carried from turn to turn."""

    slots: int
    ahead: int
    scale: int

    @property
    def name(self) -> str:
        ahead = f"_{self.ahead}" if self.ahead else ""
        return f"{self.slots}{ahead}" + (f"_by_{self.scale}" if self.scale != 1 else "")

    @property
    def both(self) -> str:
        return f"slot_{self.name}, phase_{self.name}"

    def begin(self, turn: int) -> str:
        """The line before the loop, whose first turn is ``turn``."""
        given = number(Number(self.scale, self.ahead + self.scale * turn), self.slots, "first")
        return f"{self.both} = slot({given}, {self.slots}), phase({given}, {self.slots})"

    @property
    def advance(self) -> str:
        """The line at the end of a turn."""
        more = f", {self.scale}" if self.scale != 1 else ""
        return f"{self.both} = advance({self.both}, {self.slots}{more})"


def slot_of(value: Number, slots: int, iteration: str) -> str:
    """The slot of a running number, in the iteration that an expression says."""
    found = _carried(value, slots, iteration)
    if found is not None:
        return f"slot_{found[0].name}"
    return f"slot({number(value, slots, iteration)}, {slots})"


def phase_of(value: Number, slots: int, iteration: str) -> str:
    """The parity of the phase of its barrier."""
    found = _carried(value, slots, iteration)
    if found is not None:
        carried, turns = found
        return f"1 - phase_{carried.name}" if turns % 2 else f"phase_{carried.name}"
    return f"phase({number(value, slots, iteration)}, {slots})"


def number(value: Number, slots: int, iteration: str) -> str:
    """A running number as an expression that is never negative: a multiple of two turns of the
    ring is added, which changes neither slot nor parity.
    """
    offset = value.offset
    while offset < 0:
        offset += 2 * slots
    counter = "t" if value.per_tile else iteration
    if value.scale != 1 and " " in counter:
        counter = f"({counter})"
    text = counter if value.scale == 1 else f"{value.scale} * {counter}"
    return f"{text} + {offset}" if offset else text


def carried_in(lines: Iterable[str]) -> list[Carried]:
    """What lines of a loop use, in order."""
    words = (word for line in lines for word in re.findall(r"\w+", line.split("#")[0]))
    found = filter(None, map(_CARRIED.fullmatch, words))
    return sorted({Carried(int(m[1]), int(m[2] or 0), int(m[3] or 1)) for m in found})


def _carried(value: Number, slots: int, iteration: str) -> tuple[Carried, int] | None:
    """What is carried for a number, and how many turns of the ring later it is; None if nothing.

    ``advance`` goes round a ring once at most, so no number that grows faster is carried.
    """
    match = _STEADY.fullmatch(iteration)
    if match is None or value.per_tile or slots == 1 or value.scale > slots:
        return None
    turns, ahead = divmod(value.offset - value.scale * int(match[1] or 0), slots)
    return Carried(slots, ahead, value.scale), turns

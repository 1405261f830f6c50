"""The loop of a role: turns of a software pipeline, with the first and last ones peeled.

A loop of ``trips`` iterations whose steps are shifted by up to S has ``trips + S`` turns. In the
turns between, all steps run; they stand in a loop without conditions, because products that are in
flight across a condition would make the compiler wait for them. With fewer iterations than shifts
conditions keep the turns at both ends apart.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby

from schedgen.codegen.running import carried_in
from schedgen.codegen.source import Source
from schedgen.program.model import Guard, RoleProgram, Step

Emit = Callable[[Source, Step, str, str, bool], None]
"""Writes a step: source, step, the iteration within its tile, over all tiles, and whether it runs.

A step that does not run may still have to leave something behind (an empty group)."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One region of turns: a name for the turn, and which shifts are active for certain."""

    text: str
    first: int | None
    """The turn counted from 0, if it is one of the first ones."""
    last: int | None
    """The turn counted from ``trips``, if it is one of the last ones."""

    def active(self, shift: int) -> bool:
        if self.first is not None:
            return self.first >= shift
        return self.last is None or self.last < shift

    def iteration(self, shift: int) -> str:
        if self.first is not None:
            return str(self.first - shift)
        if self.last is not None:
            return f"trips - {shift - self.last}"
        return self.text if not shift else f"{self.text} - {shift}"


def emit_loop(
    source: Source, role: RoleProgram, emit: Emit, end_turn: Callable[[], object] = object
) -> None:
    """Writes all turns; ``trips`` is at least 1. ``end_turn`` is called at the end of each."""
    if not role.loop:
        return
    shifts = role.shifts
    for number in range(shifts):
        source.comment(f"turn {number}: the pipeline fills")
        _turn(source, role, Turn("", number, None), emit)
        end_turn()
    begin = f"{shifts}, " if shifts else ""
    start = len(source.lines)
    with source.block(f"for turn in cutlass.range({begin}trips, unroll=1):"):
        _turn(source, role, Turn("turn", None, None), emit)
        rings = carried_in(source.lines[start:])
        source.add(*(ring.advance for ring in rings))
        end_turn()
    source.insert(start, *(ring.begin(shifts) for ring in rings))
    for number in range(shifts):
        source.comment(
            f"turn trips + {number}: the pipeline drains"
            if number
            else "turn trips: the pipeline drains"
        )
        _turn(source, role, Turn("", None, number), emit)
        end_turn()


def _turn(source: Source, role: RoleProgram, turn: Turn, emit: Emit) -> None:
    for (shift, guard), steps in groupby(role.loop, key=lambda step: (step.shift, step.guard)):
        terms = conditions(turn, shift, guard, role.shifts) if turn.active(shift) else None
        if terms is None:
            for step in steps:
                emit(source, step, "", "", False)
            continue
        i = turn.iteration(shift)
        c = "first" if i == "0" else f"first + {i}"
        with _guarded(source, terms):
            for step in steps:
                emit(source, step, i, c, True)


def conditions(turn: Turn, shift: int, guard: Guard, shifts: int) -> list[str] | None:
    """What has to be asked before a step of iteration i runs; None if it never runs there.

    Between its ends the loop has ``shifts <= turn < trips``. At the ends nothing but ``trips >= 1``
    is known: there may be fewer iterations than shifts, and a turn belongs to one end only.
    """
    if turn.first is not None:
        return _while_filling(turn.first - shift, guard)
    if turn.last is not None:
        return _while_draining(turn.last, shift, guard, shifts)
    low, high = guard.low, guard.high
    needed = _at_least(low, shifts + 1)
    if guard.kind == "first":
        return [f"turn == {shifts}", *needed] if shift == shifts else None
    if guard.kind == "last":
        return None if shift else ["turn == trips - 1", *needed]
    terms = [] if shifts - shift >= low else [f"turn >= {low + shift}"]
    return terms + ([] if shift >= high else [f"turn < trips - {high - shift}"])


def _while_filling(i: int, guard: Guard) -> list[str] | None:
    """Iteration number ``i``."""
    if guard.kind == "first":
        return None if i else _at_least(guard.low, 1)
    if guard.kind == "last":
        return [f"trips == {i + 1}"] if i + 1 >= guard.low else None
    return _at_least(i + guard.high + 1, 1) if i >= guard.low else None


def _while_draining(number: int, shift: int, guard: Guard, shifts: int) -> list[str] | None:
    """Iteration ``trips - left``, in a turn that is not one of the first ones."""
    left, fewest = shift - number, shifts - number
    if guard.kind == "first":
        return [f"trips == {left}"] if shift == shifts and left >= guard.low else None
    if guard.kind == "last":
        return _at_least(max(fewest, guard.low), 1) if left == 1 else None
    return _at_least(max(fewest, guard.low + left), 1) if left > guard.high else None


def _at_least(trips: int, known: int) -> list[str]:
    """A condition for that many iterations, if not so many are known to be there."""
    return [f"trips >= {trips}"] if trips > known else []


@contextmanager
def _guarded(source: Source, terms: list[str]) -> Generator[None]:
    if not terms:
        yield
        return
    with source.block(f"if {' and '.join(terms)}:"):
        yield

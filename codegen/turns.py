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


def emit_loop(source: Source, role: RoleProgram, emit: Emit) -> None:
    """Writes all turns; ``trips`` is at least 1."""
    if not role.loop:
        return
    shifts = role.shifts
    for number in range(shifts):
        source.comment(f"turn {number}: the pipeline fills")
        _turn(source, role, Turn("", number, None), emit)
    begin = f"{shifts}, " if shifts else ""
    with source.block(f"for turn in cutlass.range({begin}trips, unroll=1):"):
        _turn(source, role, Turn("turn", None, None), emit)
    for number in range(shifts):
        source.comment(
            f"turn trips + {number}: the pipeline drains"
            if number
            else "turn trips: the pipeline drains"
        )
        _turn(source, role, Turn("", None, number), emit)


def _turn(source: Source, role: RoleProgram, turn: Turn, emit: Emit) -> None:
    for (shift, guard), steps in groupby(role.loop, key=lambda step: (step.shift, step.guard)):
        if not turn.active(shift):
            for step in steps:
                emit(source, step, "", "", False)
            continue
        i = turn.iteration(shift)
        c = "first" if i == "0" else f"first + {i}"
        terms = [*_few(turn, shift, role.shifts), *_terms(guard, i)]
        with _guarded(source, terms):
            for step in steps:
                emit(source, step, i, c, True)


def _few(turn: Turn, shift: int, shifts: int) -> list[str]:
    """What keeps the turns apart if there are fewer iterations than shifts."""
    if turn.first is not None and turn.first > shift:
        return [f"{turn.first - shift} < trips"]
    if turn.last is not None and shifts - turn.last > 1:
        return [f"trips >= {shifts - turn.last}"]
    return []


@contextmanager
def _guarded(source: Source, terms: list[str]) -> Generator[None]:
    if not terms:
        yield
        return
    with source.block(f"if {' and '.join(terms)}:"):
        yield


def _terms(guard: Guard, i: str) -> list[str]:
    """What a guard asks of iteration ``i``; ``trips`` is at least 1."""
    if guard.kind == "every":
        terms = [f"{i} >= {guard.low}"] if guard.low else []
        return terms + ([f"{i} < trips - {guard.high}"] if guard.high else [])
    at = "0" if guard.kind == "first" else "trips - 1"
    terms = [] if i == at else [f"{i} == {at}"]
    return terms + ([f"trips >= {guard.low}"] if guard.low > 1 else [])

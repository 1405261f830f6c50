"""The loop of a role: turns of a software pipeline, with the first and last ones peeled.

A loop of ``trips`` iterations whose steps are shifted by up to S has ``trips + S`` turns. In the
turns between, all steps run; they stand in a loop without conditions, because products that are in
flight across a condition would make the compiler wait for them. With fewer iterations than shifts
conditions keep the turns at both ends apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from schedgen.codegen.ir import Block, Code, Loop, Name, Node, called, code, rings
from schedgen.codegen.peeling import Range
from schedgen.codegen.running import Carried, Iteration, states_of
from schedgen.codegen.source import Source
from schedgen.codegen.style import IN_TURNS
from schedgen.program.model import Guard, RoleProgram, Step, When

Emit = Callable[[Source, Step, Iteration | None, bool], None]
"""Writes a step: source, step, the iteration within its tile, and whether it runs.

A step that does not run may still have to leave something behind (an empty group)."""
Give = Callable[[Carried, str], str]
"""Makes a variable of a name for something that a loop carries."""
_TRIPS = Name("trips")
TURN: Final = "turn"
"""The number of a turn between the first and the last ones, in generated code."""


@dataclass(frozen=True, slots=True)
class Peeled:
    """Turns that are written in another way, by ``emit``; ``first`` and ``end`` are variables for
    where they begin and end. ``partly``: in those behind them blocks are not full.
    """

    turns: Range
    emit: Emit
    first: Name
    end: Name
    partly: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """One region of turns, and which shifts are active for certain."""

    first: int | None
    """The turn counted from 0, if it is one of the first ones."""
    last: int | None
    """The turn counted from ``trips``, if it is one of the last ones."""
    partly: bool = False
    """Whether blocks are known not to be full."""

    def active(self, shift: int) -> bool:
        if self.first is not None:
            return self.first >= shift
        return self.last is None or self.last < shift

    def iteration(self, shift: int) -> Iteration:
        if self.first is not None:
            return Iteration("", self.first - shift)
        if self.last is not None:
            return Iteration("trips", self.last - shift)
        return Iteration(TURN, -shift, self.partly)


def emit_loop(
    source: Source,
    role: RoleProgram,
    emit: Emit,
    give: Give,
    end_turn: Callable[[Source], object] = lambda _: None,
    peeled: Peeled | None = None,
) -> None:
    """Writes all turns; ``trips`` is at least 1. ``end_turn`` writes what each ends with. Some of
    those between the first and the last ones may be ``peeled``, which makes several loops of one.
    """
    if not role.loop:
        return
    shifts = role.shifts
    for number in range(shifts):
        source.comment(f"turn {number}: the pipeline fills")
        _turn(source, role, Turn(number, None), emit)
        end_turn(source)
    between, last = Source(), Source()
    _turn(between, role, Turn(None, None), emit)
    end_turn(last)
    states = states_of(rings(between.nodes), give)
    loop = Loop(shifts, between.nodes, last.nodes, states)
    if peeled is None:
        source.put(loop)
    else:
        other, behind = Source(), Source()
        _turn(other, role, Turn(None, None), peeled.emit)
        _turn(behind, role, Turn(None, None, peeled.partly), emit)
        _in_parts(source, loop, other.nodes, behind.nodes, peeled)
    for number in range(shifts):
        source.comment(
            f"turn trips + {number}: the pipeline drains"
            if number
            else "turn trips: the pipeline drains"
        )
        _turn(source, role, Turn(None, number), emit)
        end_turn(source)


def _in_parts(
    source: Source, loop: Loop, body: tuple[Node, ...], behind: tuple[Node, ...], peeled: Peeled
) -> None:
    """A loop as several: what comes before the turns of ``peeled``, these with ``body``, the rest
    with ``behind``.

    Wherever they begin and end, the parts are the turns of the loop: each is one of these, or none.
    """
    first, end = peeled.turns.first, peeled.turns.end
    least: Name | int = loop.first
    if first is not None:
        source.add(code("{} = {}", peeled.first, called(IN_TURNS, first, least, _TRIPS)))
        least = peeled.first
    if end is not None:
        source.add(code("{} = {}", peeled.end, called(IN_TURNS, end, least, _TRIPS)))
    stops = [*([] if first is None else [(loop.body, peeled.first)])]
    stops += [(body, _TRIPS if end is None else peeled.end)]
    stops += [] if end is None else [(behind, _TRIPS)]
    begin: Name | None = None
    for nodes, stop in stops:
        source.put(replace(loop, body=nodes, begin=begin, end=stop))
        begin = stop


def _turn(source: Source, role: RoleProgram, turn: Turn, emit: Emit) -> None:
    for (shift, guard), found in groupby(role.loop, key=lambda step: (step.shift, step.guard)):
        steps = list(found)
        terms = conditions(turn, shift, guard, role.shifts) if turn.active(shift) else None
        if terms is None:
            for step in steps:
                emit(source, step, None, False)
            continue
        with source.guarded(terms):
            for step in steps:
                emit(source, step, turn.iteration(shift), True)
        if terms and turn.first is not None:
            with source.inner() as left:  # a turn that there is, in which they do not run
                for step in steps:
                    emit(source, step, None, False)
            source.put(*([Block(code("else:"), tuple(left))] if left else []))


def conditions(turn: Turn, shift: int, guard: Guard, shifts: int) -> list[Code] | None:
    """What has to be asked before a step of iteration i runs; None if it never runs there.

    Between its ends the loop has ``shifts <= turn < trips``. At the ends nothing but ``trips >= 1``
    is known: there may be fewer iterations than shifts, and a turn belongs to one end only.
    """
    if turn.first is not None:
        return _while_filling(turn.first - shift, guard)
    if turn.last is not None:
        return _while_wait_grouping(turn.last, shift, guard, shifts)
    low, high = guard.low, guard.high
    needed = _at_least(low, shifts + 1)
    if guard.kind is When.FIRST:
        return [code(f"turn == {shifts}"), *needed] if shift == shifts else None
    if guard.kind is When.LAST:
        return None if shift else [code("turn == {} - 1", _TRIPS), *needed]
    terms = [] if shifts - shift >= low else [code(f"turn >= {low + shift}")]
    return terms + ([] if shift >= high else [code(f"turn < {{}} - {high - shift}", _TRIPS)])


def _while_filling(i: int, guard: Guard) -> list[Code] | None:
    """Iteration number ``i``."""
    if guard.kind is When.FIRST:
        return None if i else _at_least(guard.low, 1)
    if guard.kind is When.LAST:
        return [code(f"{{}} == {i + 1}", _TRIPS)] if i + 1 >= guard.low else None
    return _at_least(i + guard.high + 1, 1) if i >= guard.low else None


def _while_wait_grouping(number: int, shift: int, guard: Guard, shifts: int) -> list[Code] | None:
    """Iteration ``trips - left``, in a turn that is not one of the first ones."""
    left, fewest = shift - number, shifts - number
    if guard.kind is When.FIRST:
        return [code(f"{{}} == {left}", _TRIPS)] if shift == shifts and left >= guard.low else None
    if guard.kind is When.LAST:
        return _at_least(max(fewest, guard.low), 1) if left == 1 else None
    return _at_least(max(fewest, guard.low + left), 1) if left > guard.high else None


def _at_least(trips: int, known: int) -> list[Code]:
    """A condition for that many iterations, if not so many are known to be there."""
    return [code(f"{{}} >= {trips}", _TRIPS)] if trips > known else []

"""Who waits for which number of a barrier, and who contributes to it, in a window."""

from __future__ import annotations

from dataclasses import dataclass

from schedgen.program.model import (
    EVERY,
    Arrive,
    Commit,
    Program,
    RoleProgram,
    Run,
    Step,
    Wait,
    When,
)
from schedgen.program.operations import Number
from schedgen.proof.smt_window import Condition, Event, Instant, Term, Window, both, condition


@dataclass(frozen=True, slots=True)
class Use:
    """A step that waits for a barrier, or whose ``kind`` of event contributes to a phase of it."""

    role: RoleProgram
    step: int
    kind: str
    number: Number

    @property
    def step_of(self) -> Step:
        return self.role.steps[self.step]

    @property
    def section(self) -> int:
        """0 before the loop, 1 in it, 2 after it."""
        first = len(self.role.before)
        return 0 if self.step < first else 1 if self.step < first + len(self.role.loop) else 2


def producers(program: Program, barrier: str) -> list[Use]:
    """What completes phases of a barrier: arrivals, commits and copied bytes."""
    found: list[Use] = []
    for role in program.roles:
        for number, step in enumerate(role.steps):
            match step.action:
                case Arrive(name, value) if name == barrier:
                    found.append(Use(role, number, "at", value))
                case Commit(name, value) if name == barrier:
                    found.append(Use(role, number, "done", value))
                case Run(_, name, value) if name == barrier and value is not None:
                    found.append(Use(role, number, "done", value))
                case _:
                    pass
    return found


def waits(program: Program, barrier: str) -> list[Use]:
    """The steps that wait for a barrier."""
    return [
        Use(role, number, "at", step.action.number)
        for role in program.roles
        for number, step in enumerate(role.steps)
        if isinstance(step.action, Wait) and step.action.barrier == barrier
    ]


def order_barrier(window: Window, maker: Use, wait: Use) -> None:
    """A wait comes after what completes the same number, where both surely happen."""
    distance = offset(wait.number, maker.number)
    if distance is None:
        return
    makers = instances(window, maker, surely=True)
    for late in instances(window, wait, surely=True):
        for early in makers:
            if early.turn == late.turn + distance and early.known(window, late):
                window.edge(early.event, late.event, 1, early.when, late.when)
    if window.jump and not maker.number.per_tile and not distance and _plain(maker, wait):
        # The numbers of an iteration outside of the window are equal where its offsets are.
        for tile in range(window.tiles):
            for end in ("first", "last"):
                late = Event("at", wait.role.name, wait.step, Instant(end, tile))
                early = Event(maker.kind, maker.role.name, maker.step, Instant(end, tile))
                window.edge(early, late, 1, condition(window.no(window.empty[tile])))


def _plain(*uses: Use) -> bool:
    guards = [use.step_of.guard for use in uses if use.section == 1]
    return len(guards) == len(uses) and all(guard == EVERY for guard in guards)


def offset(number: Number, other: Number) -> int | None:
    """How many turns later ``other`` has the value of ``number``, if it ever has."""
    if (number.per_tile, number.scale) != (other.per_tile, other.scale):
        return None
    distance, rest = divmod(number.offset - other.offset, number.scale)
    return None if rest else distance


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An event and what it takes to happen; ``turn`` is the tile or the cell that is numbered."""

    turn: int
    event: Event
    when: tuple[Term, ...]
    per_tile: bool

    def known(self, window: Window, other: Occurrence) -> bool:
        """Whether the distance to ``other`` is the difference of their turns."""
        return self.per_tile or window.counted(self.turn, other.turn)


def instances(window: Window, use: Use, *, surely: bool = False) -> list[Occurrence]:
    """The events of ``use`` in this window whose number is known."""
    found: list[Occurrence] = []

    def add(turn: int, instant: Instant, when: Condition) -> None:
        if when is not None:
            event = Event(use.kind, use.role.name, use.step, instant)
            found.append(Occurrence(turn, event, when, use.number.per_tile))

    step, tiles, cells = use.step_of, range(window.tiles), range(window.cells)
    if use.section != 1:
        for tile in tiles:
            instant = Instant("tile", tile)
            if use.number.per_tile:
                add(tile, instant, ())
            else:
                for cell in cells:
                    add(cell, instant, window.starts(tile, cell))
    elif not use.number.per_tile:
        for cell in cells:
            add(cell, Instant("cell", cell), window.runs(step, cell, surely=surely))
    elif step.guard.kind is not When.EVERY:
        for tile in tiles:
            instant = Instant(step.guard.kind, tile)
            add(tile, instant, window.runs_in_tile(step, instant, surely=surely))
    else:
        for tile in tiles:
            for cell in cells:
                runs = window.runs(step, cell, surely=surely)
                add(tile, Instant("cell", cell), both(runs, window.inside(tile, cell)))
            for end in ("first", "last") if window.jump else ():
                instant = Instant(end, tile)
                add(tile, instant, window.runs_in_tile(step, instant, surely=surely))
    return found

"""The trip counts that a tile is looked at for: each small one, and all others at once.

With n iterations a tile's loop has ``n + shifts`` turns. For each small n all of them are laid out.
For n from `Cases.many` on, the first and the last turns are laid out, each for all n, and between
them a turn that stands for any other, as often as the longest wait looks back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import lcm

import numpy as np

from schedgen.conform.evaluate import Linear
from schedgen.conform.values import Value, along, exact
from schedgen.program.model import Guard, Program, RoleProgram, WaitGroup, When

MIDDLE, END = "u", "n"
"""Numbers that turns are counted from, beside 0: any turn that is none of the first and last ones,
and the trip count."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Turn number ``base + offset`` of a tile's loop; ``base`` is "", `MIDDLE` or `END`."""

    offset: int
    base: str = ""

    @property
    def text(self) -> str:
        if not self.base:
            return f"turn {self.offset}"
        if self.base == MIDDLE:
            return "a turn between"
        return f"turn n{self.offset:+d}" if self.offset else "turn n"

    def earlier(self, by: int) -> Turn:
        return Turn(self.offset - by, self.base)


@dataclass(frozen=True, slots=True)
class Case:
    """One trip count, or, if it is None, all from ``least`` on; ``turns`` in order.

    ``modulus``: residues of numbers are told apart modulo it. ``ends``, ``repeated``: turns at each
    end, and copies of the one between. ``first_tile``, ``teams``: tiles are the first, and every
    so many from there on.
    """

    trips: int | None
    least: int
    shifts: int
    modulus: int
    ends: int
    repeated: int
    first_tile: int = 0
    teams: int = 1

    @property
    def text(self) -> str:
        return f"n >= {self.least}" if self.trips is None else f"n = {self.trips}"

    def turns(self) -> Iterator[Turn]:
        if self.trips is not None:
            yield from (Turn(number) for number in range(self.trips + self.shifts))
            return
        yield from (Turn(number) for number in range(self.shifts + self.ends))
        yield from (Turn(0, MIDDLE) for _ in range(self.repeated))
        yield from (Turn(number, END) for number in range(-self.ends, self.shifts))

    def steady(self) -> list[Turn]:
        """Turns of the compiled loop."""
        return [turn for turn in self.turns() if self._is_steady(turn)]

    def _is_steady(self, turn: Turn) -> bool:
        if turn.base == MIDDLE:
            return True
        if turn.base == END:
            return turn.offset < 0
        return self.shifts <= turn.offset and (self.trips is None or turn.offset < self.trips)

    def runs(self, guard: Guard, iteration: Turn) -> bool:
        """Whether a step runs in an iteration."""
        if self.trips is not None:
            return guard.holds(iteration.offset, self.trips)
        at = iteration.offset
        if iteration.base == MIDDLE:
            return guard.kind is When.EVERY
        if iteration.base == END:
            return guard.kind is not When.FIRST and (
                at == -1 if guard.kind is When.LAST else at < -guard.high
            )
        return guard.kind is not When.LAST and (
            at == 0 if guard.kind is When.FIRST else at >= guard.low
        )

    # -- values --------------------------------------------------------------------------------

    def count(self) -> tuple[Value, Linear]:
        """The trip count where no turn is in view."""
        if self.trips is not None:
            return exact(self.trips), Linear(self.trips)
        return self._any(0), Linear(self.least, (("w", 1),))

    def counts(self, turn: Turn) -> tuple[Value | None, Linear]:
        """The trip count as seen from a turn."""
        if self.trips is not None or turn.base != MIDDLE:
            return self.count()
        low = self.least
        return None, Linear(low, (("u", 1), ("v", 1)))

    def number(self, turn: Turn) -> tuple[Value, Linear]:
        """A turn, or iteration, as a number."""
        if not turn.base:
            return exact(turn.offset), Linear(turn.offset)
        if turn.base == END:
            return self._any(turn.offset), Linear(self.least + turn.offset, (("w", 1),))
        return (
            self._any(turn.offset),
            Linear(self.shifts + self.ends + turn.offset, (("u", 1),)),
        )

    def _any(self, offset: int) -> Value:
        return along("turn", np.arange(self.modulus) + offset, self.modulus)

    @property
    def earlier(self) -> Value:
        """Iterations of the tiles before: any number."""
        return along("earlier", np.arange(self.modulus), self.modulus)

    @property
    def tile(self) -> Value:
        """The number of the tile: any of them."""
        return along("tile", self.first_tile + self.teams * np.arange(self.modulus), self.modulus)


def cases(
    program: Program, role: RoleProgram, team: int = 0, together: Iterable[int] = ()
) -> list[Case]:
    """All cases of a role, or of one of its teams. ``together``: so many tiles come with one copy,
    and which of them an iteration reads follows from its number.
    """
    rings = [barrier.slots for barrier in program.barriers]
    rings += [allocation.slots for allocation in program.allocations]
    modulus = lcm(2, *(2 * slots for slots in rings), *together)
    guards = [step.guard for step in role.loop]
    ends = 2 + max((max(guard.low, guard.high) for guard in guards), default=0)
    back = max((s.action.lag for s in role.loop if isinstance(s.action, WaitGroup)), default=0)
    least = role.shifts + 2 * ends + 1
    common = {"least": least, "shifts": role.shifts, "modulus": modulus, "ends": ends}
    common |= {"first_tile": team, "teams": role.teams}
    small = [Case(trips, **common, repeated=0) for trips in range(1, least)]
    return [*small, Case(None, **common, repeated=role.shifts + back + 2)]

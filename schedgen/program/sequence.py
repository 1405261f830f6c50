"""The meaning of a role program: the exact sequence of steps for given trip counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schedgen.program.model import RoleProgram, Step
from schedgen.program.operations import Number


@dataclass(frozen=True, slots=True)
class Instance:
    """A step as it is executed: ``iteration`` within its tile (0 outside of the loop), ``total``
    counts iterations over all tiles.
    """

    step: Step
    tile: int
    iteration: int
    total: int

    def number(self, number: Number) -> int:
        """The value of ``number`` here."""
        return number.at(self.tile, self.total)


def sequence(role: RoleProgram, trips: Sequence[int]) -> Iterator[Instance]:
    """All steps that ``role`` executes for tiles with these trip counts, in order."""
    total = 0
    for tile, count in enumerate(trips):
        for step in role.before:
            yield Instance(step, tile, 0, total)
        for turn in range(max(count, 1) + role.shifts):
            for step in role.loop:
                iteration = turn - step.shift
                if step.guard.holds(iteration, count):
                    yield Instance(step, tile, iteration, total + iteration)
        for step in role.after:
            yield Instance(step, tile, 0, total)
        total += count

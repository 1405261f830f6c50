"""What a role does according to its program, in the order of `schedgen.program.sequence`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from schedgen.conform.cases import Case, Turn
from schedgen.program.model import RoleProgram, Step
from schedgen.synchronize.text import show_step

Who = Literal["all", "one", "any"]
"""All threads of a role, one of them, or either."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A step in one iteration; ``position`` is where it stands in its section."""

    section: str
    position: int
    step: Step
    iteration: Turn | None
    index: int = 0
    """Iterations in a row have numbers in a row."""

    @property
    def text(self) -> str:
        """The step as a person finds it in the program."""
        return f"{self.section}[{self.position}] '{show_step(self.step)}'"


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around the steps of a program: one instruction.

    ``address``: of an mbarrier, in bytes from the start of shared memory. ``values``: constants.
    ``warp``: the only warp that does it; None: all of the role.
    """

    what: str
    kind: str
    who: Who = "all"
    address: int | None = None
    values: tuple[int, ...] = ()
    warp: int | None = None

    @property
    def text(self) -> str:
        return self.what


def tile(role: RoleProgram, case: Case) -> Iterator[Expected]:
    """The steps of one tile."""
    for position, step in enumerate(role.before):
        yield Expected("before", position, step, None)
    if role.loop:
        for number, turn in enumerate(case.turns()):
            for position, step in enumerate(role.loop):
                iteration = turn.earlier(step.shift)
                if case.runs(step.guard, iteration):
                    yield Expected("loop", position, step, iteration, number - step.shift)
    for position, step in enumerate(role.after):
        yield Expected("after", position, step, None)

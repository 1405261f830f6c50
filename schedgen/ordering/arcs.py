"""Events of a program and the arcs between them.

Events are the steps of the roles, and for what runs asynchronously also where it begins and ends.
An event of a loop happens once per iteration, any other once per tile. Arcs say what must have
happened, in one of five forms; ``shift`` counts iterations (ANY, SAME) or tiles (TILES):

    ANY     a(c) before b(c + shift), in whatever tiles the two iterations are; shift >= 0
    SAME    a(c) before b(c + shift) if both are in one tile
    OUT     a(c) before the tile event b of its own tile
    IN      the tile event a before b in all iterations of the tile
    TILES   tile event a(t) before tile event b(t + shift)

Later instances of an event come after earlier ones, so a path of arcs orders all later instances of
its end, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from schedgen.ordering.steps import describe
from schedgen.program.model import Step
from schedgen.reasons import Reason, ReasonKind


class Form(Enum):
    ANY = auto()
    SAME = auto()
    OUT = auto()
    IN = auto()
    TILES = auto()


@dataclass(frozen=True, slots=True)
class Arc:
    dst: int
    form: Form
    shift: int
    why: Reason

    @property
    def in_role(self) -> bool:
        """Whether it is just the order of the steps of a role."""
        return self.why.kind is ReasonKind.STEPS


@dataclass(frozen=True, slots=True)
class Event:
    """``part``: the step itself, or ``begin``, ``end`` or ``arrival`` of what it started.

    ``section``: before, loop, first, last or after; ``position`` orders the steps of a section.
    """

    role: str
    section: str
    position: int
    part: str
    step: Step | None

    @property
    def per_tile(self) -> bool:
        return self.section != "loop"

    @property
    def name(self) -> str:
        """What a person calls it."""
        text = "" if self.step is None else describe(self.step)
        what = {"begin": " begins", "end": " is done", "arrival": " arrives"}.get(self.part, "")
        return f"{self.role}: {text or self.part}{what if text else ''}"

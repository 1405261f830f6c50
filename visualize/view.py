"""What all pictures are made of: one output tile, whether planned by a schedule or executed.

slices       one for each operation in each iteration, and for what runs around the main loop
arrows       the dependences between slices
tracks       units and roles, each with as many lanes as it takes for no two slices to overlap
occupancies  which version of which buffer has a slot of storage, from when to when
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass

from schedgen.visualize.occupancy import Occupancy

FORMAT = 1
OUTSIDE = -1
"""The iteration of an operation that is not in the main loop."""

_NAME = re.compile(r"(?P<name>[^\[]+)(\[(?P<instance>.*)\])?")


@dataclass(frozen=True, slots=True)
class Slice:
    """One execution of an operation. All times in cycles.

    ``name``, ``instance``: ``QK[0]`` is instance ``0`` of ``QK``. ``iteration``: of the tile,
    OUTSIDE for what is not in the main loop. ``phase``: before, prologue, steady, epilogue or
    after. [start, unit_end) is when it has its unit, [start, hold_end) when it keeps its role,
    ``end`` when its result is there. ``exclusive``: nothing else runs on the unit meanwhile.
    The lanes are those of the tracks ``unit`` (none if empty) and ``role``.
    """

    index: int
    operation: str
    name: str
    instance: str
    kind: str
    iteration: int
    phase: str
    unit: str
    exclusive: bool
    role: str
    start: int
    unit_end: int
    hold_end: int
    end: int
    unit_lane: int = 0
    role_lane: int = 0


@dataclass(frozen=True, slots=True)
class Arrow:
    """A dependence between two slices, given by their indices; ``slack`` cycles to spare."""

    src: int
    dst: int
    kind: str
    resource: str
    distance: int
    delay: int
    slack: int


@dataclass(frozen=True, slots=True)
class Track:
    """A ``unit`` or ``role`` with its lanes. ``utilization``: of an iteration, for units."""

    kind: str
    name: str
    lanes: int
    exclusive: bool = False
    utilization: float = 0.0
    warps: int = 0
    registers: int = 0


@dataclass(frozen=True, slots=True)
class Cut:
    """``iterations`` of the loop are not shown: times from ``at`` on are ``cycles`` too small.

    ``first``: how many iterations are shown before the cut. A steady state looks the same
    everywhere: what runs across the cut goes on seamlessly.
    """

    at: int
    first: int
    iterations: int
    cycles: int


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a critical cycle: ``dst`` starts ``cycles`` after ``src``, ``distance`` periods
    later.
    """

    src: str
    dst: str
    cycles: int
    distance: int
    reason: str


@dataclass(frozen=True, slots=True)
class Unrolled:
    """One output tile of a schedule. ``begin`` and ``end`` bound all its slices, in cycles.

    ``planned``: times are those of a schedule, with its periods; else a program was executed, which
    has none, and whose loop is called steady throughout.
    """

    kernel: str
    target: str
    arch: str
    latencies: str
    ii_cycles: int
    stages: int
    trips: int
    begin: int
    end: int
    cut: Cut | None
    tracks: tuple[Track, ...]
    slices: tuple[Slice, ...]
    arrows: tuple[Arrow, ...]
    occupancies: tuple[Occupancy, ...]
    critical_cycle: tuple[Link, ...]
    planned: bool = True

    def on(self, track: Track) -> tuple[Slice, ...]:
        """The slices of ``track``, by start time."""
        return tuple(s for s in self.slices if track.name == getattr(s, track.kind))

    def place(self, one: Slice) -> int:
        """Which of the iterations that are shown ``one`` belongs to, as if none were left out."""
        late = self.cut is not None and one.iteration >= self.cut.first
        return one.iteration - (self.cut.iterations if self.cut and late else 0)

    @property
    def shown(self) -> int:
        """How many iterations are shown."""
        return self.trips - (self.cut.iterations if self.cut else 0)


def to_json(view: Unrolled) -> str:
    """``view`` as one JSON object, for tools: the fields of these classes under their names."""
    data = {"unrolled_format": FORMAT, "times": "cycles of the machine model", **asdict(view)}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def split_name(operation: str) -> tuple[str, str]:
    """``EXP[0,1]`` is ``EXP`` and ``0,1``."""
    match = _NAME.fullmatch(operation)
    return (match["name"], match["instance"] or "") if match else (operation, "")

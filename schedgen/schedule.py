"""A solved schedule: what `schedgen solve` writes, and all that later stages need to know from the
solver.

Everything is plain data in a stable order, so that equal input gives equal bytes. Times are cycles
of the machine model; start times of the main loop are those of iteration 0, start times outside of
it are relative to the start of the tile's main loop.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, cast

from schedgen.errors import SchedgenError
from schedgen.reasons import Reason, is_whole
from schedgen.roles import RoleKind

if TYPE_CHECKING:
    from pydantic import ValidationError

FORMAT = 3


class ScheduleError(SchedgenError, ValueError):
    """A schedule file that cannot be read; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class ScheduledOperation:
    """One operation: when it starts, where it runs and who issues it.

    ``cycles``: its longest use of an exclusive unit; ``hold``: cycles its role is kept;
    ``latency``: start to result. ``stage`` and ``slot`` split the start time of a main-loop
    operation by the II.
    """

    id: str
    kind: str
    phase: str
    unit: str
    role: str
    start: int
    cycles: int
    hold: int
    latency: int
    stage: int
    slot: int


@dataclass(frozen=True, slots=True)
class UnitLoad:
    """Cycles per iteration for which a unit is busy; ``utilization`` is that over the II, to 4
    digits.
    """

    name: str
    kind: str
    busy: int
    utilization: float


@dataclass(frozen=True, slots=True)
class ScheduledEdge:
    """A dependence that holds for the storage chosen; ``delay`` cycles with hand-off, ``slack``
    cycles to spare.
    """

    src: str
    dst: str
    distance: int
    kind: str
    resource: str
    bytes: int
    delay: int
    slack: int


@dataclass(frozen=True, slots=True)
class ScheduledRole:
    """A role: warps, registers per thread, and its operations in issue order (before, main loop,
    after).
    """

    name: str
    warps: int
    registers: int
    operations: tuple[str, ...]

    @property
    def kind(self) -> RoleKind:
        """A warp that issues, or a warpgroup whose threads work."""
        return RoleKind.of(self.warps)


@dataclass(frozen=True, slots=True)
class ScheduledBuffer:
    """Storage of a tile: bytes of one slot, slots, address (bytes, or columns in tensor memory; -1
    in registers).

    ``alias`` names the buffer whose storage it uses, version j + ``skew`` of it; ``ring`` the ring
    it takes turns in.
    """

    name: str
    space: str
    bytes: int
    depth: int
    address: int
    alias: str | None
    skew: int
    ring: str | None
    lag: int


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a cycle that sets a pace: ``dst`` starts ``cycles`` or more after ``src``, which is
    that of ``distance`` iterations (or tiles) before.
    """

    src: str
    dst: str
    cycles: int
    distance: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Certificate:
    """Why nothing is faster: ``resource`` (units), ``recurrence`` (a cycle) or ``infeasible`` (II -
    1 excluded).

    ``confirmed_by`` names the second solver that agrees, None if it was not asked.
    """

    kind: str
    text: str
    units: tuple[str, ...] = ()
    cycle: tuple[Link, ...] = ()
    confirmed_by: str | None = None


@dataclass(frozen=True, slots=True)
class ObjectiveValue:
    """One level of the lexicographic objective and whether it is proven best."""

    name: str
    value: int
    proven: bool


@dataclass(frozen=True, slots=True)
class TileLoop:
    """The loop over output tiles: period, its floor (trips x II), and the cycle that limits it."""

    trips: int
    period_cycles: int
    floor_cycles: int
    cycle: tuple[Link, ...]


@dataclass(frozen=True)
class Schedule:
    """A modulo schedule of a kernel's main loop with everything around it.

    ``max_cycle_ratio_cycles``: cycles per iteration that the decided order reaches with the
    latencies it was made for; ``cycle_ratios`` gives it for the low and the high ones.
    """

    kernel: str
    target: str
    arch: str
    schedgen: str
    spec: str
    spec_sha256: str
    machine_sha256: str
    latencies: str
    parameters: Mapping[str, str]
    choices: Mapping[str, str]
    ii_cycles: int
    lower_bound_cycles: int
    proven_optimal: bool
    certificate: Certificate
    max_cycle_ratio_cycles: float
    cycle_ratios: Mapping[str, float]
    critical_cycle: tuple[Link, ...]
    stages: int
    length_cycles: int
    objectives: tuple[ObjectiveValue, ...]
    ops: tuple[ScheduledOperation, ...]
    units: tuple[UnitLoad, ...]
    edges: tuple[ScheduledEdge, ...]
    roles: tuple[ScheduledRole, ...]
    buffers: tuple[ScheduledBuffer, ...]
    tile: TileLoop
    notes: tuple[str, ...] = ()
    format: int = field(default=FORMAT)

    @property
    def body(self) -> tuple[ScheduledOperation, ...]:
        """The operations of the main loop."""
        return tuple(op for op in self.ops if op.phase == "body")

    def to_json(self, **extra: object) -> str:
        """This schedule as JSON text, one object; ``extra`` adds keys such as ``solve_seconds``."""
        data: dict[str, Any] = {**asdict(self), **extra}
        for edge in data["edges"]:
            edge["class"] = edge.pop("kind")  # what it is called, but no name for a field in Python
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def read_schedule(text: str, file: str = "<text>") -> Schedule:
    """The schedule in ``text``; raises ScheduleError for anything that `to_json` did not write."""
    from pydantic import TypeAdapter, ValidationError

    again = "give a file written by 'schedgen solve -o'"
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScheduleError(f"{file}: this is not JSON ({error}); {again}") from None
    if not isinstance(data, dict) or "format" not in data or "ii_cycles" not in data:
        raise ScheduleError(f"{file}: this JSON is not a schedule; {again}")
    found = cast("dict[str, Any]", data)
    if found["format"] != FORMAT:
        raise ScheduleError(
            f"{file}: schedule format {found['format']!r}, this schedgen reads {FORMAT}; "
            "solve it again"
        )
    known = {entry.name for entry in fields(Schedule)}
    try:
        edges = [{**edge, "kind": edge["class"]} for edge in found["edges"]]
        plain = {key: value for key, value in found.items() if key in known}
        schedule = TypeAdapter(Schedule).validate_python({**plain, "edges": edges})
    except (ValidationError, KeyError, TypeError) as error:
        reason = str(error) if not isinstance(error, ValidationError) else _first_problem(error)
        raise ScheduleError(
            f"{file}: this schedule is damaged ({reason}); solve it again"
        ) from None
    cycles = schedule.critical_cycle, schedule.certificate.cycle, schedule.tile.cycle
    for link in (link for cycle in cycles for link in cycle):
        if not is_whole(link.reason):
            raise ScheduleError(
                f"{file}: this schedule is damaged (reason of {link.src} -> {link.dst}: "
                f"'{link.reason.kind}' cannot be of {len(link.reason.subjects)} subjects); "
                "solve it again"
            )
    return schedule


def _first_problem(error: ValidationError) -> str:
    detail = error.errors(include_url=False)[0]
    where = ".".join(map(str, detail["loc"]))
    return f"{where}: {detail['msg']}"

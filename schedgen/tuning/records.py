"""What is prepared, what was measured of it, and their files."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

from pydantic import ConfigDict, with_config

from schedgen import json_file
from schedgen.driver.lock_file import Lock
from schedgen.errors import SchedgenError

FORMAT = 1
MANIFEST = "tuning.json"
RECORD = "measured.json"
KEPT = "c00"
"""The candidate that is there whatever the model says, if it is one."""
_STRICT = ConfigDict(extra="forbid")
_PREPARE = "make it with 'schedgen tune SPEC --prepare DIR'"
_MEASURE = "measure again with 'schedgen tune --run DIR'"


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class AxisTried:
    """A parameter and the values that were tried, as of `schedgen.tuning.space.Axis`."""

    name: str
    values: tuple[str, ...]
    numeric: bool
    usual: str | None


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class Prepared:
    """A candidate: a generated file, and what it was made from.

    Attributes:
        name: of the candidate, ``c00``.
        file: in the folder of the manifest.
        settings: beside those that all candidates have; with what it was solved for
            (`schedgen.tuning.space.SCHEDULES`).
        ii_cycles: of its schedule, for an iteration.
        pace_cycles: of its program, for an iteration, with high latencies.
        tile_cycles: of its schedule, for an output tile beside its iterations.
        more_registers: that its schedule leaves beside tiles, see `schedgen.driver.selecting`.
        estimates: cycles for each shape in the machine model.
        lock: what was decided, for one kernel.
    """

    name: str
    file: str
    settings: dict[str, str]
    ii_cycles: int
    pace_cycles: float
    tile_cycles: int
    more_registers: int
    estimates: tuple[float, ...]
    lock: Lock


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class Dropped:
    """Settings that are no candidate: the stage that refused them, and why."""

    settings: dict[str, str]
    stage: str
    reason: str


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class Manifest:
    """Candidates in the model's order, and what they were looked for with.

    Attributes:
        spec: a name or a path, as the user gave it.
        target: the machine model, as the user gave it.
        base: settings of all candidates.
        axes: what was varied.
        shapes: extents of tensors and values of scalars.
        seed: of the random order of settings.
        round: 0, or how often the winner was refined.
        candidates: in the order of their estimates.
        dropped: settings that were looked at and are none.
        tried: settings of earlier rounds, which are not tried again.
        left: settings that were not looked at.
        compiler: packages that compiled the candidates.
    """

    spec: str
    kernel: str
    spec_sha256: str
    target: str
    arch: str
    machine_sha256: str
    base: dict[str, str]
    axes: tuple[AxisTried, ...]
    shapes: tuple[dict[str, float], ...]
    seed: int
    round: int
    candidates: tuple[Prepared, ...]
    dropped: tuple[Dropped, ...]
    tried: tuple[dict[str, str], ...]
    left: int
    compiler: tuple[str, ...]

    @property
    def digest(self) -> str:
        """What tells the candidates and shapes of one manifest from those of another."""
        kernels = [(one.name, asdict(one.lock.schedules[0].kernels[0])) for one in self.candidates]
        return sha256(repr((self.shapes, kernels)).encode()).hexdigest()


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds of a candidate with a shape, a number for each round: as it is called, and in
    CUDA graphs.
    """

    eager: tuple[float, ...] = ()
    graph: tuple[float, ...] = ()


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class Record:
    """What was measured where.

    Attributes:
        mhz: the lowest median clock of SMs of any round, as the driver says; 0 if it does not.
        times: of each candidate, for each shape.
        failed: candidates that do not run, or compute something else, and why.
    """

    prepared: Manifest
    device: str
    software: str
    date: str
    mhz: float = 0.0
    times: dict[str, tuple[Times, ...]] = field(default_factory=dict[str, tuple[Times, ...]])
    failed: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def rounds(self) -> int:
        """Rounds in which all candidates ran with all shapes."""
        every = [len(times.eager) for shapes in self.times.values() for times in shapes]
        return min(every, default=0)


def manifest_text(manifest: Manifest) -> str:
    """The text of a file that `read_manifest` reads."""
    return json_file.text_of(manifest, "tuning_manifest", FORMAT)


def read_manifest(folder: Path) -> Manifest:
    """What was prepared in ``folder``. Raises SchedgenError."""
    path = folder / MANIFEST
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise SchedgenError(f"{path}: {reason}; fix: {_PREPARE}") from None
    found = json_file.read(text, str(path), Manifest, "tuning_manifest", FORMAT, _PREPARE)
    _check(found, str(path), _PREPARE)
    return found


def record_text(record: Record) -> str:
    """The text of a file that `read_record` reads."""
    return json_file.text_of(record, "tuning_record", FORMAT)


def read_record(path: Path) -> Record:
    """The record in the file ``path``. Raises SchedgenError."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise SchedgenError(f"{path}: {reason}; fix: {_MEASURE}") from None
    found = json_file.read(text, str(path), Record, "tuning_record", FORMAT, _MEASURE)
    _check(found.prepared, str(path), _MEASURE)
    names = {one.name for one in found.prepared.candidates}
    for name, shapes in found.times.items():
        if name not in names:
            raise SchedgenError(f"{path}: times.{name}: no candidate is called so; fix: {_MEASURE}")
        if len(shapes) != len(found.prepared.shapes):
            raise SchedgenError(
                f"{path}: times.{name}: there are {len(shapes)} shapes, and "
                f"{len(found.prepared.shapes)} were prepared; fix: {_MEASURE}"
            )
        wrong = [t for one in shapes for t in (*one.eager, *one.graph) if not 0 < t < float("inf")]
        if wrong:
            raise SchedgenError(
                f"{path}: times.{name}: {wrong[0]} is no time, which is more than 0 ms; fix: "
                f"{_MEASURE}"
            )
    return found


def _check(manifest: Manifest, file: str, fix: str) -> None:
    """What types do not say."""
    for number, one in enumerate(manifest.candidates):
        where = f"{file}: candidates.{number}"
        if len(one.lock.schedules) != 1 or len(one.lock.schedules[0].kernels) != 1:
            raise SchedgenError(f"{where}.lock: it has not one kernel; fix: {fix}")
        if len(one.estimates) != len(manifest.shapes):
            raise SchedgenError(f"{where}.estimates: there is not one per shape; fix: {fix}")
        if Path(one.file).name != one.file:
            raise SchedgenError(
                f"{where}.file: '{one.file}' is not in the folder of the manifest; fix: {fix}"
            )

"""Measures candidates round by round; what is measured is kept after each round.

A round has all candidates with all shapes, so that whatever changes between rounds (the clock,
another process) hits all of them. What times them is a `Bench`: `schedgen.tuning.on_gpu` has the
one for GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from schedgen.errors import SchedgenError
from schedgen.tuning.basics import Deadline, NoCandidate
from schedgen.tuning.records import Manifest, Record, Times, read_record, record_text
from schedgen.tuning.shapes import Shape, name_of

ROUNDS = 7
"""So that quartiles of them mean something."""

Progress = Callable[[str], None]
Write = Callable[[Path, str], None]


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds of a launch as it is called, and in a CUDA graph, which is None if it cannot be
    captured.
    """

    eager: float
    graph: float | None


class Bench(Protocol):
    """What times candidates."""

    @property
    def device(self) -> str:
        """Name of the GPU."""
        ...

    @property
    def software(self) -> str:
        """Versions of what compiles and launches."""
        ...

    @property
    def date(self) -> str:
        """Today, as YYYY-MM-DD."""
        ...

    @property
    def mhz(self) -> float:
        """The median clock of SMs in the last round, 0 if nobody says."""
        ...

    def failed(self) -> Mapping[str, str]:
        """Candidates that do not run, or compute something else than the first, and why."""
        ...

    def round(self, shape: Shape) -> Mapping[str, Timed]:
        """Times of all others, which take turns in a random order."""
        ...


def measure(
    manifest: Manifest,
    bench: Bench,
    path: Path,
    write: Write,
    *,
    rounds: int = ROUNDS,
    seconds: float = float("inf"),
    progress: Progress | None = None,
) -> Record:
    """What is measured of ``manifest``, which is written to ``path`` after each round; if there
    are rounds in that file, it goes on after them. No round begins after ``seconds``.

    Raises:
        NoCandidate: none of them runs.
        SchedgenError: what is in ``path`` is no record of this, or of another GPU.
        Whatever ``bench`` raises.
    """
    deadline = Deadline(seconds)
    record = _begun(manifest, bench, path)
    failed = {**record.failed, **bench.failed()}
    running = [one.name for one in manifest.candidates if one.name not in failed]
    if not running:
        reasons = "\n  ".join(f"{name}: {reason}" for name, reason in failed.items())
        raise NoCandidate(f"no candidate runs:\n  {reasons}\n  fix: prepare others with --try")
    record = replace(record, failed=failed, times={n: record.times[n] for n in running})
    while record.rounds < rounds and not (record.rounds and deadline.over):
        record = _round(record, bench, rounds, progress)
        write(path, record_text(record))
    return record


def _round(record: Record, bench: Bench, rounds: int, progress: Progress | None) -> Record:
    """``record`` with one more round."""
    times = dict(record.times)
    lowest = [record.mhz] if record.mhz else []
    for number, shape in enumerate(record.prepared.shapes):
        if progress is not None:
            progress(f"round {record.rounds + 1} of {rounds}: {name_of(shape)}")
        for name, found in bench.round(dict(shape)).items():
            before = times[name][number]
            more = () if found.graph is None else (found.graph,)
            after = Times((*before.eager, found.eager), (*before.graph, *more))
            times[name] = (*times[name][:number], after, *times[name][number + 1 :])
        if bench.mhz:
            lowest.append(bench.mhz)
    return replace(record, times=times, mhz=min(lowest, default=0.0))


def _begun(manifest: Manifest, bench: Bench, path: Path) -> Record:
    """The record in ``path``, or one without rounds."""
    names = [one.name for one in manifest.candidates]
    empty = {name: tuple(Times() for _ in manifest.shapes) for name in names}
    if not path.exists():
        return Record(manifest, bench.device, bench.software, bench.date, times=empty)
    found = read_record(path)
    other = f"fix: remove {path}, or keep this elsewhere with --keep FILE"
    if found.prepared.digest != manifest.digest:
        raise SchedgenError(f"{path}: this was measured of other candidates or shapes; {other}")
    now, then = (bench.device, bench.software), (found.device, found.software)
    if now != then:
        raise SchedgenError(
            f"{path}: this was measured on {', '.join(then)}; here is {', '.join(now)}; {other}"
        )
    return replace(found, times={**empty, **found.times})

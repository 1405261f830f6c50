"""Kernels that were chosen by measuring: a lock with the measurement that chose it.

`schedgen tune -o FILE` writes such a file. ``schedgen emit SPEC --tuned FILE`` and
``kernel(SPEC, tuned=FILE)`` make its kernel again: nothing is solved, and what comes out is the
text that was proven, compiled and measured, or an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from schedgen import json_file
from schedgen.driver.lock_file import Lock, Locked, LockError
from schedgen.errors import SchedgenError

if TYPE_CHECKING:
    from schedgen.spec.reader import Spec

FORMAT = 1
_KEY = "tuned_format"
_AGAIN = "make it again with 'schedgen tune'"


@dataclass(frozen=True, slots=True)
class TunedShape:
    """A shape and its fastest kernel.

    Attributes:
        extents: sizes of tensors, and values of scalars.
        schedule: number of its schedule in the lock.
        eager_ms: milliseconds of a launch as it is called, the median over rounds.
        graph_ms: the same in a CUDA graph, None if it cannot be captured.
        overall_ms: eagerly, of the kernel that is the fastest over all shapes.
        before_ms: eagerly, of the spec's own settings, or of the winner of the round before.
    """

    extents: dict[str, float]
    schedule: int
    eager_ms: float
    graph_ms: float | None
    overall_ms: float
    before_ms: float


@dataclass(frozen=True, slots=True)
class Tuned:
    """Fastest kernels of one spec on one GPU.

    Attributes:
        device, software, date: where and when it was measured.
        by: ``eager`` or ``graphs``: which times decided.
        rounds: of measurement.
        candidates: how many were measured.
        overall: number of the schedule that is the fastest over all shapes.
        shapes: each with its own fastest one.
        lock: their schedules, each with one kernel.
    """

    device: str
    software: str
    date: str
    by: str
    rounds: int
    candidates: int
    overall: int
    shapes: tuple[TunedShape, ...]
    lock: Lock

    @property
    def kernel(self) -> Locked:
        """The kernel that is the fastest over all shapes."""
        schedule = self.lock.schedules[self.overall]
        return Locked(self.lock, schedule, schedule.kernels[0])


def text(tuned: Tuned) -> str:
    """The text of a file that `read` reads."""
    return json_file.text_of(tuned, _KEY, FORMAT)


def read(path: Path) -> Tuned:
    """What was tuned, in the file ``path``. Raises SchedgenError."""
    try:
        content = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise SchedgenError(f"{path}: {reason}; fix: {_AGAIN}") from None
    found = json_file.read(content, str(path), Tuned, _KEY, FORMAT, _AGAIN)
    numbers = [("overall", found.overall)]
    numbers += [(f"shapes.{at}.schedule", one.schedule) for at, one in enumerate(found.shapes)]
    for where, number in numbers:
        if not 0 <= number < len(found.lock.schedules):
            raise SchedgenError(
                f"{path}: {where}: {number}: the lock has schedules 0 to "
                f"{len(found.lock.schedules) - 1}; fix: {_AGAIN}"
            )
    for at, schedule in enumerate(found.lock.schedules):
        if len(schedule.kernels) != 1:
            raise SchedgenError(
                f"{path}: lock.schedules.{at}: it has {len(schedule.kernels)} kernels, not one; "
                f"fix: {_AGAIN}"
            )
    return found


def generated(path: Path, spec: Spec, target: str | None = None) -> tuple[str, str]:
    """The name and the text of the generated file of what was tuned for ``spec``; ``target`` is the
    machine model if it is a file of one's own.

    Raises:
        SchedgenError: ``path`` is no such file, or of another spec or machine model.
        LockError: this version would make another text than the one that was measured.
    """
    from schedgen.driver.locked import Origin, text_of
    from schedgen.machine_file import read_machine

    found = read(path)
    lock = found.lock
    if lock.spec != spec.file.kernel:
        raise SchedgenError(
            f"{path}: this was tuned for {lock.spec}, not for {spec.file.kernel}; fix: give the "
            f"spec of {lock.spec}, or tune {spec.file.kernel}"
        )
    machine = read_machine(target or lock.target)
    if machine.name != lock.target:
        raise SchedgenError(
            f"{path}: this was tuned for {lock.target}, and --target {target} is {machine.name}; "
            "fix: leave --target away"
        )
    one = found.kernel
    try:
        return one.name, text_of(one, Origin(spec, machine, _AGAIN))
    except LockError as error:
        raise LockError(f"{path}: {error}") from None

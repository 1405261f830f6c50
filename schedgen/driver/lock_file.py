"""Locks of the shipped kernels: what was decided for each, so that nobody has to solve it again.

``kernels/lock/SPEC_ARCH.json`` has the schedules of one spec for one architecture. Each says which
kernels are made from it: their settings, the SHA-256 of the proven program, and that of the text
which comes of it. `schedgen.driver.locked` makes that text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedgen.codegen.facts import file_name
from schedgen.errors import SchedgenError
from schedgen.json_file import compact
from schedgen.spec.values import spell

if TYPE_CHECKING:
    from schedgen.machine import Machine
    from schedgen.spec.reader import Spec


@dataclass(frozen=True, slots=True)
class LockedKernel:
    """A kernel of a schedule: ``settings`` that its file is named by, the SHA-256 of its program
    (`schedgen.program.digest`) and of its text before it is formatted; ``style``: how that is
    written (`schedgen.codegen.style`), empty if plainly.
    """

    settings: Mapping[str, str]
    program: str
    text: str
    style: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LockedRole:
    """A role: registers per thread, and its operations in the order of issue."""

    registers: int
    operations: str


@dataclass(frozen=True, slots=True)
class LockedBuffer:
    """Storage of a buffer, as `schedgen.schedule.ScheduledBuffer` has it."""

    depth: int
    address: int
    alias: str | None = None
    skew: int = 0
    lag: int = 0


@dataclass(frozen=True, slots=True)
class LockedSchedule:
    """What was decided for some kernels that differ in nothing that matters for it.

    Attributes:
        kernels: those that are made from it.
        choices: parameters that the solver picked.
        latencies: the end of the machine model's ranges that it was solved for.
        ii_cycles, lower_bound_cycles, certificate, proven_optimal, tile_cycles: as of
            `schedgen.schedule.Schedule`; the certificate by its kind.
        start: operation -> cycle.
        late: whether wait_groups come behind the next product.
        synchronization: decisions as `schedgen.synchronize.recorded` writes them.
    """

    kernels: tuple[LockedKernel, ...]
    choices: Mapping[str, str]
    latencies: str
    ii_cycles: int
    lower_bound_cycles: int
    certificate: str
    proven_optimal: bool
    tile_cycles: int
    start: Mapping[str, int]
    roles: Mapping[str, LockedRole]
    buffers: Mapping[str, LockedBuffer]
    late: bool
    synchronization: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lock:
    """The schedules of one spec for one architecture, and what they were found for."""

    spec: str
    spec_sha256: str
    target: str
    arch: str
    machine_sha256: str
    schedules: tuple[LockedSchedule, ...]

    def is_of(self, spec_sha256: str, machine_sha256: str) -> bool:
        """Whether it was made for this text of the spec and this machine model."""
        return (self.spec_sha256, self.machine_sha256) == (spec_sha256, machine_sha256)


@dataclass(frozen=True, slots=True)
class Locked:
    """One kernel with its schedule and its lock."""

    lock: Lock
    schedule: LockedSchedule
    kernel: LockedKernel

    @property
    def name(self) -> str:
        """How its file is called."""
        return file_name(self.lock.spec, self.lock.arch, self.kernel.settings)


class LockError(SchedgenError):
    """A lock that does not fit what is installed."""


@cache
def folder() -> Path:
    """Where the locks of shipped kernels are."""
    found = find_spec("schedgen.kernels")
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0]) / "lock"


@cache
def locks() -> Mapping[tuple[str, str], Path]:
    """The files of all locks by spec and architecture."""
    found: dict[tuple[str, str], Path] = {}
    for path in sorted(folder().glob("*.json")):
        spec, _, arch = path.stem.partition("_sm_")
        found[spec, f"sm_{arch}"] = path
    return found


def locked(spec: str, arch: str, settings: Mapping[str, str]) -> Locked | None:
    """The shipped kernel of ``spec`` with these settings, None if there is none."""
    return _by_settings(spec, arch).get(frozenset(settings.items()))


def same(spec: Spec, machine: Machine, settings: Mapping[str, str]) -> Locked | None:
    """The shipped kernel of ``spec`` with these parameters, also where settings only say what the
    spec says by itself; None if there is none, or one of another spec or machine model.
    """
    found = locked(spec.file.kernel, machine.arch, settings)
    if found is None:
        wanted = told(spec, machine.name, settings)
        every = _by_settings(spec.file.kernel, machine.arch).values()
        by = (one for one in every if told(spec, machine.name, one.kernel.settings) == wanted)
        found = next(by, None)
    fits = found is not None and found.lock.is_of(spec.source.sha256, machine.sha256)
    return found if fits else None


def told(spec: Spec, target: str, settings: Mapping[str, str]) -> dict[str, str]:
    """What of ``settings`` is not what the spec says by itself for this target."""
    own = by_itself(spec, target)
    return {name: value for name, value in settings.items() if own.get(name) != value}


def by_itself(spec: Spec, target: str) -> dict[str, str]:
    """What parameters are for this target unless somebody sets them, as commands spell it; without
    those that are derived or chosen.
    """
    found: dict[str, str] = {}
    for name, parameter in spec.file.parameters.items():
        value = (parameter.on or {}).get(target, parameter.default)
        if value is not None and parameter.choose is None:
            found[name] = spell(value)
    return found


def named(name: str) -> Locked | None:
    """The shipped kernel whose file is called ``name``."""
    return next((one for one in every() if one.name == name), None)


def every() -> Iterator[Locked]:
    """All shipped kernels, by spec and architecture."""
    for spec, arch in locks():
        yield from _by_settings(spec, arch).values()


@cache
def _by_settings(spec: str, arch: str) -> Mapping[frozenset[tuple[str, str]], Locked]:
    path = locks().get((spec, arch))
    lock = None if path is None else read(path)
    return {
        frozenset(kernel.settings.items()): Locked(lock, schedule, kernel)
        for schedule in (lock.schedules if lock else ())
        for kernel in schedule.kernels
        if lock
    }


def read(path: Path) -> Lock:
    """The lock in the file ``path``. Raises LockError if it is none."""
    try:
        data = json.loads(path.read_text("utf-8"))
        schedules = tuple(map(_schedule, data.pop("schedules")))
        return Lock(schedules=schedules, **data)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise LockError(f"{path}: this is no lock ({error}); fix: install schedgen again") from None


def _schedule(data: dict[str, Any]) -> LockedSchedule:
    kernels = tuple(map(_kernel, data.pop("kernels")))
    roles = {name: LockedRole(**role) for name, role in data.pop("roles").items()}
    buffers = {name: LockedBuffer(**one) for name, one in data.pop("buffers").items()}
    made = tuple(data.pop("synchronization"))
    return LockedSchedule(
        kernels=kernels, roles=roles, buffers=buffers, synchronization=made, **data
    )


def _kernel(data: dict[str, Any]) -> LockedKernel:
    return LockedKernel(style=tuple(data.pop("style", ())), **data)


def text(lock: Lock) -> str:
    """``lock`` as the text of its file: what belongs together on a line, so that differences
    between versions can be read.
    """
    data = asdict(lock)
    for schedule in data["schedules"]:
        for kernel in schedule["kernels"]:
            if not kernel["style"]:
                del kernel["style"]
        for buffer in schedule["buffers"].values():
            usual = {"alias": None, "skew": 0, "lag": 0}
            for key in [key for key, value in usual.items() if buffer[key] == value]:
                del buffer[key]
    return compact(data) + "\n"

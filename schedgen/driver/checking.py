"""From a file that somebody has to the program in it: a schedule is synchronized first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schedgen.errors import SchedgenError
from schedgen.kernel import Kernel
from schedgen.machine import Machine
from schedgen.program.file import ProgramFileError, is_program, read_program
from schedgen.program.model import Arrive, Commit, Program, Run, Wait
from schedgen.schedule import Schedule, ScheduleError, read_schedule
from schedgen.spec.reader import Spec
from schedgen.synchronize.build import ProgramError
from schedgen.synchronize.synthesize import synthesize


def load_program(text: str, file: str, pace: Sequence[str] = ()) -> Program:
    """The program of a program file, or the one synthesized from a schedule file, in the order of
    the schedule on the units ``pace``.

    Raises SchedgenError for a file that is neither, or whose spec is not what it was.
    """
    try:
        if is_program(_json(text)):
            program = read_program(text, file)
            if pace and tuple(pace) != program.paced:
                raise SchedgenError(
                    f"--pace {pace[0]}: {file} is a program, which has its barriers; give the "
                    "schedule ('schedgen solve -o')"
                )
            return program
        schedule = read_schedule(text, file)
    except (ProgramFileError, ScheduleError) as error:
        raise SchedgenError(str(error)) from None
    kernel, machine = rebind(schedule, file)
    try:
        return synthesize(kernel, schedule, machine, pace)
    except (ProgramError, KeyError, StopIteration) as error:
        raise SchedgenError(f"{file}: this schedule cannot be synchronized ({error})") from None


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def rebind(schedule: Schedule, file: str, target: str | None = None) -> tuple[Kernel, Machine]:
    """The kernel and the machine that ``schedule`` was made for, from its spec and parameters.

    ``target`` is the machine model, if it is a file of one's own. Raises SchedgenError if the spec
    or the model is not there, or is another one now.
    """
    from schedgen.driver.binding import kernels_of
    from schedgen.machine_file import read_machine

    spec, machine = spec_of(schedule, file), read_machine(target or schedule.target)
    if machine.name != schedule.target:
        raise SchedgenError(
            f"{file}: this schedule is for {schedule.target}, --target {target} is {machine.name}; "
            f"leave --target away, or solve for {target}"
        )
    if machine.sha256 != schedule.machine_sha256:
        raise SchedgenError(
            f"{file}: the machine model has changed since this was solved; solve it again, or give "
            "the file of the model with --target"
        )
    settings = {name: str(value) for name, value in schedule.parameters.items()}
    return kernels_of(spec, machine, settings)[0], machine


def spec_of(schedule: Schedule, file: str) -> Spec:
    """The spec that ``schedule`` was made from. Raises SchedgenError if it is not what it was."""
    from schedgen.spec.reader import place_of, read_spec, shipped_specs

    known = schedule.spec if Path(place_of(schedule.spec)[0]).exists() else schedule.kernel
    if known == schedule.kernel and known not in shipped_specs():
        raise SchedgenError(
            f"{file}: the spec {schedule.spec} of this schedule is not there; "
            "run from the folder where it was solved, or solve it again"
        )
    spec = read_spec(known)
    if spec.source.sha256 != schedule.spec_sha256:
        raise SchedgenError(
            f"{file}: the spec has changed since this was solved; "
            f"fix: schedgen solve {known} --target {schedule.target} -o {file}"
        )
    return spec


@dataclass(frozen=True, slots=True)
class BarrierRow:
    """A barrier as `schedgen solve --json` reports it."""

    name: str
    kind: str
    producer: tuple[str, ...]
    consumer: tuple[str, ...]
    count: int
    bytes: int
    depth: int
    protects: tuple[str, ...]


def barrier_rows(program: Program) -> list[BarrierRow]:
    """All barriers of ``program`` with the roles at both sides."""
    producers: dict[str, dict[str, None]] = {}
    consumers: dict[str, dict[str, None]] = {}
    for role in program.roles:
        for step in role.steps:
            match step.action:
                case Arrive(barrier=name) | Commit(barrier=name):
                    producers.setdefault(name, {})[role.name] = None
                case Run(barrier=str(name)):
                    producers.setdefault(name, {})[role.name] = None
                case Wait(barrier=name):
                    consumers.setdefault(name, {})[role.name] = None
                case _:
                    pass
    return [
        BarrierRow(
            barrier.name,
            barrier.kind,
            tuple(producers.get(barrier.name, ())),
            tuple(consumers.get(barrier.name, ())),
            barrier.arrivals,
            barrier.bytes,
            barrier.slots,
            barrier.protects,
        )
        for barrier in program.barriers
    ]

"""`schedgen trace`: what a kernel really does on a GPU, beside what its schedule says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import typer

from schedgen.errors import SchedgenError

if TYPE_CHECKING:
    from schedgen.kernel import Kernel
    from schedgen.schedule import Schedule
    from schedgen.spec.reader import Spec

DONE, REFUSED, BAD_INPUT = 0, 1, 2

_TILE_EXTENT, _OUTER_EXTENT = 4096, 4
"""Sizes of tensors, if none are given: along tiles, and along axes with a tile for each element.
Together they give each SM of a GPU several tiles."""


@dataclass(frozen=True, slots=True)
class Run:
    """What to record: sizes of tensors, scalars, which block, how many of its output tiles, and
    units on which roles are kept to the order of the schedule.
    """

    extents: Mapping[str, int]
    scalars: Mapping[str, float]
    block: int
    tiles: int
    pace: tuple[str, ...] = ()


def run_trace(
    spec: str,
    target: str | None,
    settings: Mapping[str, str],
    run: Run,
    record: Path | None,
    keep: Path | None,
    output: Path | None,
    write: Callable[[Path, str], None],
    progress: Callable[[str], None],
    *,
    as_json: bool,
) -> int:
    """Records one block on the GPU, or reads ``record``; prints the comparison.

    With a record ``spec`` may be the file of the schedule instead.
    ``keep`` is where the record is written, ``output`` where its trace for Perfetto is.

    Returns the exit status: 0 done, 1 no schedule, no proof, or no GPU for it, 2 bad input.
    """
    from schedgen.codegen.errors import EmitError
    from schedgen.driver.found import Infeasible
    from schedgen.driver.solution import solve
    from schedgen.kernels.errors import DeviceError, LaunchError
    from schedgen.machine_file import read_machine
    from schedgen.proof.prove import Refuted
    from schedgen.schedule import ScheduleError, read_schedule
    from schedgen.spec.reader import read_spec
    from schedgen.synchronize.build import ProgramError
    from schedgen.visualize.measured import compare
    from schedgen.visualize.measured_text import comparison_data, comparison_text
    from schedgen.visualize.measured_trace import comparison_trace
    from schedgen.visualize.record import read_record

    try:
        if record is not None and spec.endswith(".json"):
            schedule = read_schedule(Path(spec).read_text("utf-8"), spec)
            found = read_record(record.read_text("utf-8"), str(record))
        elif record is not None:
            read = read_spec(spec)
            machine = read_machine(target or read.file.targets[0])
            schedule = solve(read, machine, settings=settings, progress=progress).schedule
            found = read_record(record.read_text("utf-8"), str(record))
        else:
            schedule, text = _recorded(read_spec(spec), target, settings, run, progress)
            found = read_record(text)
            if keep is not None:
                write(keep, text)
        comparison = compare(found, schedule)
    except (Infeasible, ProgramError, Refuted, EmitError, DeviceError, LaunchError) as error:
        typer.echo(str(error), err=True)
        return REFUSED
    except (SchedgenError, ScheduleError) as error:
        typer.echo(str(error), err=True)
        return BAD_INPUT
    except (OSError, UnicodeDecodeError) as error:
        path = getattr(error, "filename", None) or record
        typer.echo(f"{path}: {getattr(error, 'strerror', None) or error}", err=True)
        return BAD_INPUT
    if output is not None:
        write(output, comparison_trace(comparison))
    if as_json:
        typer.echo(json.dumps(comparison_data(comparison), indent=1))
    else:
        typer.echo(comparison_text(comparison), nl=False)
    return DONE


def _here(spec: Spec) -> str:
    """The target of ``spec`` that this GPU is, or its first one."""
    import torch

    from schedgen.kernels.launcher import architecture
    from schedgen.machine_file import read_machine

    if torch.cuda.is_available():
        arch = architecture(torch.device("cuda", torch.cuda.current_device()))
        for name in spec.file.targets:
            if read_machine(name).arch == arch:
                return name
    return spec.file.targets[0]


def _recorded(
    spec: Spec,
    target: str | None,
    settings: Mapping[str, str],
    run: Run,
    progress: Callable[[str], None],
) -> tuple[Schedule, str]:
    """The schedule of ``spec`` and, as JSON text, a record of its kernel on this GPU."""
    from schedgen.driver.emitting import emission
    from schedgen.kernels.recording import check_device, record
    from schedgen.machine_file import read_machine

    device = check_device()  # before the work of solving
    machine = read_machine(target or _here(spec))
    made = emission(spec, machine, settings, progress, events=True, pace=run.pace)
    plain = emission(spec, machine, settings, progress, pace=run.pace)
    schedule, kernel = made.solution.schedule, made.solution.problem.kernel
    progress("recording")
    with TemporaryDirectory(prefix="schedgen-") as folder:
        paths = [Path(folder) / emitted.name for emitted in (made, plain)]
        for path, emitted in zip(paths, (made, plain), strict=True):
            path.write_text(emitted.text, encoding="utf-8")
        data = record(
            paths[0],
            default_extents(kernel, schedule, run.extents),
            run.scalars,
            device=device,
            block=run.block,
            tiles=run.tiles,
            plain=paths[1],
        )
    return schedule, json.dumps(data) + "\n"


def default_extents(kernel: Kernel, schedule: Schedule, given: Mapping[str, int]) -> dict[str, int]:
    """Sizes of tensors: as many iterations of the main loop as the schedule was made for, and
    enough output tiles that each block gets several; ``given`` ones first.

    Raises SchedgenError if ``given`` names what is no extent.
    """
    from schedgen.driver.inputs import default_extents as small

    trips = max(schedule.tile.trips, 1)
    steps = {p.extent: p.step for o in kernel.operations for p in o.places if p.step}
    found: dict[str, int] = {}
    for name, size in small(kernel, given).items():
        block = next((axis.block for axis in kernel.grid if axis.extent == name), None)
        if name in steps:
            found[name] = trips * steps[name]
        elif name in dict(kernel.parameters) or block is None:
            found[name] = size
        else:
            found[name] = _TILE_EXTENT if block > 1 else _OUTER_EXTENT
    return {**found, **given}


def numbers_of(texts: Mapping[str, str], option: str) -> dict[str, float]:
    """The values of ``option`` NAME=VALUE as numbers. Raises SchedgenError."""
    found: dict[str, float] = {}
    for name, text in texts.items():
        try:
            found[name] = float(text)
        except ValueError:
            raise SchedgenError(f"{option} {name}={text}: '{text}' is not a number") from None
    return found

"""`schedgen calibrate`: a machine model with numbers that were measured on the GPU at hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from schedgen.errors import SchedgenError

if TYPE_CHECKING:
    from schedgen.calibration.fitting import Compared, Fit
    from schedgen.calibration.measuring import Record
    from schedgen.calibration.predicting import Predicted
    from schedgen.driver.found import Solution
    from schedgen.machine import Machine

DONE, REFUSED, BAD_INPUT = 0, 1, 2
_NAMES, _CONSTANTS = 46, 20


@dataclass(frozen=True, slots=True)
class Files:
    """Which experiments, ``only`` those about iterations, launches or kernels, of the latter those
    of ``kernels`` if there are any, and where things are: ``prepare`` is to get kernels, ``run``
    has them; ``record`` was measured before, ``keep`` is to get what is measured now, and
    ``output`` the model.
    """

    experiments: Path | None = None
    only: str = ""
    prepare: Path | None = None
    run: Path | None = None
    record: Path | None = None
    keep: Path | None = None
    output: Path | None = None
    kernels: tuple[str, ...] = ()


def run_calibrate(
    target: str,
    files: Files,
    write: Callable[[Path, str], None],
    progress: Callable[[str], None],
    *,
    as_json: bool,
) -> int:
    """Emits, measures, fits, and prints what came of it.

    Returns the exit status: 0 done, 1 no GPU, an experiment that is refused or a kernel that does
    not run, 2 bad input.
    """
    from schedgen.calibration.preparing import RefusedExperiments
    from schedgen.codegen.compiling import CompileError
    from schedgen.codegen.errors import EmitError
    from schedgen.driver.found import Infeasible
    from schedgen.kernels.errors import DeviceError, LaunchError

    try:
        lines = _calibrate(target, files, write, progress, as_json=as_json)
    except RefusedExperiments as error:
        if files.prepare is not None and error.made.kernels:
            typer.echo(_ready(len(error.made.kernels), files.prepare))
        typer.echo(str(error), err=True)
        return error.status
    except (Infeasible, EmitError, CompileError, DeviceError, LaunchError) as error:
        typer.echo(str(error), err=True)
        return REFUSED
    except SchedgenError as error:
        typer.echo(str(error), err=True)
        return BAD_INPUT
    except OSError as error:
        typer.echo(f"{error.filename}: {error.strerror}", err=True)
        return BAD_INPUT
    typer.echo("\n".join(lines))
    return DONE


def _calibrate(
    target: str,
    files: Files,
    write: Callable[[Path, str], None],
    progress: Callable[[str], None],
    *,
    as_json: bool,
) -> list[str]:
    from schedgen.calibration.measuring import as_json as record_text
    from schedgen.calibration.measuring import read_record
    from schedgen.calibration.preparing import prepare
    from schedgen.kernels.errors import LaunchError
    from schedgen.machine_file import read_machine

    machine = read_machine(target)
    if files.only == "kernels" and files.experiments is not None:
        raise SchedgenError("--only kernels are shipped ones; fix: leave --experiments away")
    if files.kernels and files.only != "kernels":
        raise SchedgenError("--kernel names shipped kernels; fix: --only kernels beside it")
    if files.kernels and (files.run is not None or files.record is not None):
        raise SchedgenError("--kernel is of what is prepared; fix: leave it, or --run, away")
    if files.prepare is not None:
        made = prepare(_experiments(machine, files), target, files.prepare, progress)
        return [_ready(len(made.kernels), files.prepare)]
    if files.record is not None:
        record = read_record(files.record.read_text("utf-8"), str(files.record))
    else:
        record = _measured(target, machine, files, progress)
        if files.keep is not None:
            write(files.keep, record_text(record))
    # Nothing is fitted to shipped kernels, or where there may be no solver.
    if files.only == "kernels" or (files.run is not None and files.record is None):
        lines = [record_text(record).rstrip()] if as_json else _measured_text(record)
        if record.failed:
            typer.echo("\n".join(lines))
            raise LaunchError("\n".join(_failed(record)))
        return lines
    fits, compared = _fitted(record, machine, files, progress)
    if files.output is not None:
        write(files.output, _model(target, fits, record))
    if as_json:
        return [json.dumps(_data(record, fits, compared), indent=1)]
    return [*_text(record, machine, fits, compared), *_failed(record)]


def _failed(record: Record) -> list[str]:
    """What could not be measured."""
    return [f"experiment '{name}' was not measured: {why}" for name, why in record.failed.items()]


def _ready(kernels: int, folder: Path) -> str:
    return f"{kernels} kernels in {folder}; measure with --run {folder}"


def _fitted(
    record: Record, machine: Machine, files: Files, progress: Callable[[str], None]
) -> tuple[tuple[Fit, ...], tuple[Compared, ...]]:
    from schedgen.calibration.fitting import compare, fitted, with_fits
    from schedgen.calibration.predicting import solved
    from schedgen.machine_file import machine_from
    from schedgen.spec.source import parse_source

    experiments = _experiments(machine, files)
    ran_on = machine_from(parse_source(record.model, f"{files.record or 'measured'}: model"))
    there = [one for one in experiments if one.name in record.measured]
    solutions: dict[str, Solution] = {}
    for number, one in enumerate(there):
        progress(f"solving {number + 1} of {len(there)}: {one.name}")
        solutions[one.name] = solved(one, ran_on)
    measured = {name: one.cycles for name, one in record.measured.items()}
    fits = fitted(there, measured, solutions, machine, progress)
    return fits, compare(there, measured, solutions, machine, with_fits(machine, fits))


def _experiments(machine: Machine, files: Files) -> list[Any]:
    """Those that were asked for, and whose specs are written for ``machine``."""
    from schedgen.calibration.experiments import read_experiments
    from schedgen.calibration.shipped import shipped_experiments

    if files.only == "kernels":
        return list(shipped_experiments(machine.name, files.kernels))
    experiments = read_experiments(files.experiments, files.only)
    if not experiments:
        raise SchedgenError("there are no such experiments; fix: leave --only away")
    found = [one for one in experiments if machine.name in one.read().file.targets]
    if not found:
        raise SchedgenError(
            f"no experiment is written for {machine.name}; fix: a model for h200, or --experiments "
            "FILE with specs for it"
        )
    return found


def _measured(
    target: str, machine: Machine, files: Files, progress: Callable[[str], None]
) -> Record:
    from schedgen.calibration.measuring import THEN, measure
    from schedgen.calibration.preparing import prepare, prepared
    from schedgen.kernels.recording import check_device

    check_device(THEN)  # before the work of solving
    if files.run is not None:
        return measure(prepared(files.run), files.run, progress)
    with TemporaryDirectory(prefix="schedgen-") as name:
        folder = Path(name)
        made = prepare(_experiments(machine, files), target, folder, progress)
        return measure(made, folder, progress)


def _model(target: str, fits: Sequence[Fit], record: Record) -> str:
    from schedgen.calibration.model_text import fitted_text
    from schedgen.machine_file import machine_text

    return fitted_text(machine_text(target), target, fits, f"{record.device}, {record.date}")


def _measured_text(record: Record) -> list[str]:
    names = max((len(name) for name in record.measured), default=0)
    return [
        f"{record.device}, {record.mhz:.0f} MHz at the lowest",
        *(
            f"  {n:{names}} {m.cycles:9.1f}  {m.low:9.1f} to {m.high:.1f}  {m.mhz:.0f} MHz"
            for n, m in record.measured.items()
        ),
    ]


def _text(
    record: Record, machine: Machine, fits: Sequence[Fit], compared: Sequence[Compared]
) -> list[str]:
    lines = [
        f"{machine.name} as measured on {record.device}, {record.date}",
        "",
        f"{'constant':{_CONSTANTS}} {'model':>13} {'measured':>15}  unit",
    ]
    for fit in fits:
        mark = "  off" if fit.outside else ""
        found = fit.reason or f"{_range(fit.low, fit.high):>15}  {fit.unit}{mark}"
        lines.append(f"{fit.constant:{_CONSTANTS}} {_range(*fit.before):>13} {found}")
    head = f"{'cycles of each':{_NAMES}} {'measured':>9} {'model':>15} {'fitted':>15}  error"
    lines += ["", head]
    for one in compared:
        lines.append(
            f"{one.name:{_NAMES}} {one.measured:9.1f} {_ends(one.before):>15} "
            f"{_ends(one.after):>15} {one.error:+6.1%}"
        )
    return lines


def _range(low: Any, high: Any) -> str:
    """An interval, or the number that it is."""
    texts = dict.fromkeys(f"{float(number):.4g}" for number in (low, high))
    return " to ".join(texts)


def _ends(one: Predicted) -> str:
    return " to ".join(dict.fromkeys(f"{cycles:.0f}" for cycles in (one.in_turn, one.in_step)))


def _data(record: Record, fits: Sequence[Fit], compared: Sequence[Compared]) -> dict[str, Any]:
    return {
        "device": record.device,
        "software": record.software,
        "date": record.date,
        "constants": [
            {
                "name": fit.constant,
                "unit": fit.unit,
                "before": [float(number) for number in fit.before],
                "measured": [float(fit.low), float(fit.high)],
                "off": fit.outside,
                "experiments": list(fit.experiments),
                "reason": fit.reason,
            }
            for fit in fits
        ],
        "experiments": [
            {
                "name": one.name,
                "measured": one.measured,
                "before": [one.before.in_turn, one.before.in_step],
                "after": [one.after.in_turn, one.after.in_step],
                "error": one.error,
            }
            for one in compared
        ],
    }

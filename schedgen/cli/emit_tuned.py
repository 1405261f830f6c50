"""`schedgen emit SPEC --tuned FILE`: the kernel that was the fastest when it was measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from schedgen.errors import SchedgenError

if TYPE_CHECKING:
    from schedgen.cli.emit import Wanted
    from schedgen.driver.tuned import Tuned

DONE, BAD_INPUT = 0, 2
OWN = "the spec's own"


def run_emit_tuned(
    spec: str,
    target: str | None,
    settings: Mapping[str, str],
    tuned: Path,
    folder: Path,
    write: Callable[[Path, str], None],
    wanted: Wanted,
) -> int:
    """Writes the kernel that was chosen in the file ``tuned`` into ``folder``. Nothing is solved,
    and its text is the one that was proven, compiled and measured.

    Returns the exit status: 0 written, 2 bad input.
    """
    from schedgen.driver.tuned import generated, read
    from schedgen.spec.reader import read_spec

    try:
        _check(settings, wanted)
        name, text = generated(tuned, read_spec(spec), target)
        found = read(tuned)
        folder.mkdir(parents=True, exist_ok=True)
    except SchedgenError as error:
        typer.echo(str(error), err=True)
        return error.status
    except OSError as error:
        typer.echo(f"{folder}: {error.strerror}", err=True)
        return BAD_INPUT
    path = folder / name
    write(path, text)
    typer.echo(_data(path, found) if wanted.as_json else _text(path, found))
    return DONE


def _check(settings: Mapping[str, str], wanted: Wanted) -> None:
    """What decides nothing here. Raises SchedgenError."""
    given = {
        f"--set {next(iter(settings), '')}": bool(settings),
        "--events": wanted.events,
        f"--pace {' --pace '.join(wanted.pace)}": bool(wanted.pace),
        f"--style {' --style '.join(wanted.style)}": bool(wanted.style),
        "--schedule": wanted.schedule is not None,
        "--compile": bool(wanted.compiled),
    }
    for name, is_given in given.items():
        if is_given:
            fix = (
                "'schedgen compile' compiles what is written"
                if name == "--compile"
                else "leave it away, or emit without --tuned"
            )
            raise SchedgenError(
                f"{name}: a tuned kernel is the one that was measured, as it was; fix: {fix}"
            )


def _text(path: Path, tuned: Tuned) -> str:
    one = tuned.kernel
    chosen = " ".join(f"{name}={value}" for name, value in one.kernel.settings.items())
    lines = [
        str(path),
        f"  kernel       {one.lock.spec} for {one.lock.target} ({one.lock.arch})",
        f"  settings     {chosen or OWN}",
        f"  schedule     {one.schedule.ii_cycles} cycles per iteration, solved for "
        f"{one.schedule.latencies} latencies",
        f"  chosen       of {tuned.candidates} candidates in {tuned.rounds} rounds on "
        f"{tuned.device}, {tuned.date}",
    ]
    for shape in tuned.shapes:
        sizes = ",".join(f"{name}={size:g}" for name, size in shape.extents.items())
        lines.append(f"  measured     {shape.overall_ms:g} ms, called eagerly: {sizes}")
    return "\n".join(lines)


def _data(path: Path, tuned: Tuned) -> str:
    one = tuned.kernel
    return json.dumps(
        {
            "file": str(path),
            "kernel": one.lock.spec,
            "target": one.lock.target,
            "arch": one.lock.arch,
            "settings": dict(one.kernel.settings),
            "ii_cycles": one.schedule.ii_cycles,
            "device": tuned.device,
            "date": tuned.date,
            "shapes": [
                {"shape": shape.extents, "eager_ms": shape.overall_ms} for shape in tuned.shapes
            ],
        },
        indent=1,
    )

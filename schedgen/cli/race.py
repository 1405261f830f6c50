"""`schedgen race`: a program for a GPU, unmodified, in the emulator."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from schedgen.cli.common import fail, print_json
from schedgen.errors import SchedgenError, suggest

if TYPE_CHECKING:
    from schedgen.emulator.race.programs import Ended, Program
    from schedgen.emulator.race.running import Options
    from schedgen.emulator.race.session import Limit, Session

CLEAN, WRONG, BAD_INPUT = 0, 1, 2
ARCHITECTURES = ("sm_90a", "sm_100a")
SCHEDULES = ("adversarial", "random", "round-robin")


@dataclass(frozen=True)
class Asked:
    """What is to be run, and what becomes of the report.

    Attributes:
        program: script, PTX file or MODULE:FUNCTION; with ``module`` the first of its arguments.
        module: of ``-m``.
        launch: the description of a launch of a PTX file.
        as_json, quiet: of the report on standard output.
        sarif, junit: files to write.
        baseline: known findings; ``update`` writes them.
    """

    program: str | None
    arguments: tuple[str, ...]
    module: str | None = None
    launch: Path | None = None
    as_json: bool = False
    quiet: bool = False
    sarif: Path | None = None
    junit: Path | None = None
    baseline: Path | None = None
    update: bool = False


def one_of(value: str, values: tuple[str, ...], option: str) -> str:
    """`value`, if it is one of `values`; ends the command if not."""
    if value not in values:
        near = suggest(value, values)
        fail(f"{option} {value}: use {' or '.join(values)}{f'; {near}' if near else ''}")
    return value


def limit_of(text: str | None) -> Limit:
    """What ``--limit`` says: ``20`` launches, or ``90s``. Ends the command if it says nothing."""
    from schedgen.emulator.race.session import Limit

    if text is None:
        return Limit()
    number = text.removesuffix("s")
    if text.isdecimal() and int(text):
        return Limit(launches=int(text))
    if number != text and number.replace(".", "", 1).isdecimal() and float(number):
        return Limit(seconds=float(number))
    return fail(f"--limit {text}: write a number of launches, as 20, or of seconds, as 90s")


def run_race(asked: Asked, options: Options, progress: Callable[[str], None]) -> int:
    """Runs the program and reports. Returns the exit status: 0 clean, 1 wrong, 2 bad input.

    Raises:
        SchedgenError: what is to be run is not there, or cannot be.
    """
    from schedgen.emulator.race.running import checked

    program = _program(asked)
    with _standard_output(sys.stderr if asked.as_json else None):
        session, ended = checked(program, options, progress)
    _report(asked, session, ended)
    return WRONG if session.errors or ended.status else CLEAN


def _program(asked: Asked) -> Program:
    from schedgen.emulator.race.programs import module, script

    if asked.module is not None:
        given = (asked.program, *asked.arguments) if asked.program is not None else ()
        return module(asked.module, given)
    if asked.program is None:
        raise SchedgenError(
            "nothing to run; fix: give a script, MODULE:FUNCTION, -m MODULE, or a PTX file"
        )
    return script(asked.program, asked.arguments)


def _report(asked: Asked, session: Session, ended: Ended) -> None:
    from schedgen.emulator.race.text import data_of, lines_of

    if asked.as_json:
        print_json(data_of(session, ended))
        return
    for line in lines_of(session, ended, quiet=asked.quiet):
        typer.echo(line)


@contextmanager
def _standard_output(to: object | None) -> Generator[None]:
    """What the program prints goes to standard error, if standard output is for a report."""
    if to is None:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)

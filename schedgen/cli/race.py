"""`schedgen race`: a program for a GPU, unmodified, in the emulator."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from schedgen.cli.common import fail, print_json, write
from schedgen.errors import SchedgenError, suggest

if TYPE_CHECKING:
    from schedgen.emulator.ptx.tree import Module
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
        sarif, junit, html, schedules: files to write.
        replay: a file of schedules that launches are executed under.
        baseline: known findings; ``update`` writes them.
        unexecuted: list all synchronization that was not executed.
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
    unexecuted: bool = False
    html: Path | None = None
    schedules: Path | None = None
    replay: Path | None = None


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
        SchedgenError: what is to be run is not there, or cannot be; or a file is wrong.
    """
    from schedgen.emulator.race.baseline import read

    if asked.update and asked.baseline is None:
        raise SchedgenError("--update-baseline writes --baseline FILE; fix: name the file")
    if asked.baseline is not None and not asked.update:
        options = replace(options, known=read(asked.baseline))
    if asked.replay is not None:
        from schedgen.emulator.race import schedules

        options = replace(options, replay=schedules.read(asked.replay), shrink=0.0)
    session, ended = _ran(asked, options, progress)
    _report(asked, session, ended)
    return WRONG if (session.errors and not asked.update) or ended.status else CLEAN


def run_list(asked: Asked, options: Options) -> int:
    """Prints what of the kernels of a program or PTX file cannot be executed; executes none.

    Returns 0 if there is nothing, 1 if there is.

    Raises:
        SchedgenError: it is not there, or cannot be read.
    """
    from schedgen.emulator.race.running import listed
    from schedgen.emulator.race.text import unsupported_lines
    from schedgen.emulator.race.unsupported import unsupported

    path = Path(asked.program or "")
    if path.suffix == ".cubin":
        raise SchedgenError(
            f"{path}: machine code, which the emulator does not read; fix: give the PTX that it "
            "was made from (cuobjdump -ptx, CUTE_DSL_KEEP=ptx)"
        )
    ended = None
    if asked.module is None and path.suffix == ".ptx":
        module = module_of_file(path)
        found, kernels = unsupported(module), len(module.kernels)
    else:
        with standard_output(sys.stderr):
            found, kernels, ended = listed(program_of(asked), options)
    if asked.as_json:
        print_json([asdict(one) for one in found])
        return WRONG if found else CLEAN
    for line in unsupported_lines(found, kernels, ended):
        typer.echo(line)
    return WRONG if found else CLEAN


def module_of_file(path: Path) -> Module:
    """The PTX in a file."""
    from schedgen.emulator.ptx.parse import parse
    from schedgen.emulator.race.ptx_launch import text_of

    return parse(text_of(path), str(path))


def _ran(asked: Asked, options: Options, progress: Callable[[str], None]) -> tuple[Session, Ended]:
    from schedgen.emulator.race.running import checked, session_of

    path = Path(asked.program or "")
    if asked.module is None and path.suffix == ".ptx":
        from schedgen.emulator.race.ptx_launch import run

        if asked.launch is None:
            raise SchedgenError(
                f"{path}: PTX does not say how it is launched; fix: --launch FILE (docs/race.md)"
            )
        session = session_of(options, progress)
        return session, run(path, asked.launch, session, options.sms)
    if asked.launch is not None:
        raise SchedgenError(
            f"--launch {asked.launch} is for PTX files, the program launches its kernels itself"
        )
    program = program_of(asked)
    with standard_output(sys.stderr if asked.as_json else None):
        return checked(program, options, progress)


def program_of(asked: Asked) -> Program:
    """What is to be run.

    Raises:
        SchedgenError: nothing, or what is not there.
    """
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
    from schedgen.emulator.race import baseline, junit, sarif
    from schedgen.emulator.race.text import data_of, lines_of

    if asked.sarif is not None:
        log = sarif.log_of(session, Path.cwd())
        write(asked.sarif, json.dumps(log, indent=1, ensure_ascii=False) + "\n")
    if asked.junit is not None:
        name = f"-m {asked.module}" if asked.module else str(asked.program)
        write(asked.junit, junit.text_of(session, ended, name))
    if asked.schedules is not None:
        from schedgen.emulator.race import schedules

        kept = [
            schedules.Kept(one.fingerprint, one.launch, one.kernel, one.schedule)
            for one in session.found
            if one.schedule is not None
        ]
        write(asked.schedules, schedules.text_of(kept))
    if asked.html is not None:
        from schedgen.visualize.race.page import html_page

        name = " ".join((f"-m {asked.module}" if asked.module else "", asked.program or "")).strip()
        write(asked.html, html_page(data_of(session, ended), name))
    if asked.update and asked.baseline is not None:
        write(asked.baseline, baseline.text_of(session.found))
    if asked.as_json:
        print_json(data_of(session, ended))
        return
    for line in lines_of(session, ended, quiet=asked.quiet, unexecuted=asked.unexecuted):
        typer.echo(line)


@contextmanager
def standard_output(to: object | None) -> Generator[None]:
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

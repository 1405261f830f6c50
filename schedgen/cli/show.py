"""`schedgen show`, and the lists of specs and machine models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from schedgen.cli.common import INFEASIBLE, UNPROVEN, Ticker, fail, print_json, write
from schedgen.errors import SchedgenError

if TYPE_CHECKING:
    from schedgen.program.model import Program
    from schedgen.schedule import Schedule

FORMATS = ("text", "html", "svg", "perfetto", "dot", "json")
COMPARED = ("text", "html", "svg")
# The longest suffix that fits decides.
SUFFIXES = {
    ".txt": "text",
    ".log": "text",
    ".html": "html",
    ".htm": "html",
    ".svg": "svg",
    ".perfetto": "perfetto",
    ".trace": "perfetto",
    ".perfetto.json": "perfetto",
    ".trace.json": "perfetto",
    ".dot": "dot",
    ".gv": "dot",
    ".json": "json",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Options of ``schedgen show``, as they were given; ``settings`` by parameter."""

    format: str | None = None
    output: Path | None = None
    program: bool = False
    width: int = 100
    target: str | None = None
    settings: Mapping[str, str] | None = None
    pace: tuple[str, ...] = ()


def run_show(names: list[str], wanted: Wanted) -> int:
    """Draws one schedule or program, or compares two schedules. Returns the exit status, 0.

    A name is a file, ``-`` for standard input, or a spec, which is solved first. Ends the command
    with 2 on bad input, 1 and 3 as `schedgen solve` if a spec has no schedule.
    """
    from schedgen.schedule import ScheduleError

    kind = _format(wanted)
    if len(names) > 2:
        fail(f"{len(names)} files: show one, or two to compare them")
    if len(names) == 2 and kind not in COMPARED:
        fail(f"--format {kind}: two schedules can be compared as {', '.join(COMPARED)}")
    if wanted.program and (kind != "text" or len(names) > 1):
        fail("--program: the steps of one program are shown as text; leave out --format")
    if wanted.pace and not wanted.program:
        fail("--pace: a schedule has no barriers to keep its order; add --program")
    try:
        texts = [_text_of(name, wanted) for name in names]
        page = (
            _compared(names, texts, kind, wanted.width)
            if len(names) == 2
            else _shown(names[0], texts[0], kind, wanted)
        )
    except (SchedgenError, ScheduleError) as error:
        fail(str(error))
    if wanted.output is None or str(wanted.output) == "-":
        typer.echo(page, nl=False)
    else:
        write(wanted.output, page)
    return 0


def _format(wanted: Wanted) -> str:
    """What was asked for, or what the name of the output says."""
    if wanted.format is not None:
        if wanted.format not in FORMATS:
            fail(f"--format {wanted.format}: use {', '.join(FORMATS)}")
        return wanted.format
    if wanted.output is None or str(wanted.output) == "-":
        return "text"
    name = wanted.output.name.lower()
    fitting = [suffix for suffix in SUFFIXES if name.endswith(suffix)]
    if not fitting:
        fail(f"{wanted.output}: its ending names no format; add --format {'|'.join(FORMATS)}")
    return SUFFIXES[max(fitting, key=len)]


def _text_of(name: str, wanted: Wanted) -> str:
    """The text of a schedule or program file; a spec is solved."""
    from schedgen.cli.check import read_text
    from schedgen.spec.reader import place_of, shipped_specs

    path = Path(place_of(name)[0])
    if path.suffix in (".yaml", ".yml") or (name in shipped_specs() and not path.is_file()):
        return _solved(name, wanted)
    if wanted.target is not None or wanted.settings:
        option = "--target" if wanted.target is not None else "--set"
        fail(f"{option}: {name} is solved already; give the spec to solve it for something else")
    if name != "-" and not path.exists() and not path.suffix:
        known = ", ".join(shipped_specs())
        fail(f"{name}: No such file, and no shipped spec has this name; there are {known}")
    return read_text(path)


def _solved(spec: str, wanted: Wanted) -> str:
    from schedgen.driver.found import Infeasible, OutOfTime
    from schedgen.driver.solution import solve
    from schedgen.machine_file import read_machine
    from schedgen.spec.reader import read_spec

    read = read_spec(spec)
    machine = read_machine(wanted.target or read.file.targets[0])
    try:
        with Ticker() as ticker:
            found = solve(read, machine, settings=wanted.settings or {}, progress=ticker)
    except (Infeasible, OutOfTime) as error:
        fail(str(error), INFEASIBLE if isinstance(error, Infeasible) else UNPROVEN)
    return found.schedule.to_json()


def _shown(name: str, text: str, kind: str, wanted: Wanted) -> str:
    from schedgen.driver.checking import load_program
    from schedgen.synchronize.text import program_text
    from schedgen.visualize.timeline import timeline

    if kind == "html":
        from schedgen.visualize.report.page import html_report

        if not _is_program(text):
            _schedule(name, text)  # refuses what contradicts itself
        return html_report(text, name)
    if wanted.program or (kind == "text" and _is_program(text)):
        return program_text(load_program(text, name, wanted.pace)) + "\n"
    if _is_program(text):
        return _executed(load_program(text, name), name, kind)
    schedule = _schedule(name, text)
    if kind == "text":
        return timeline(schedule, wanted.width)
    return _drawings()[kind](schedule)


def _executed(program: Program, name: str, kind: str) -> str:
    """A program has no start times; those that follow from its waits are drawn."""
    from schedgen.visualize.executed import execute
    from schedgen.visualize.perfetto import perfetto
    from schedgen.visualize.svg import svg
    from schedgen.visualize.view import to_json

    if kind == "dot":
        fail(f"{name}: a program has no graph of dependences; give the schedule ('solve -o')")
    try:
        if kind == "svg":
            return svg(execute(program))
        view = execute(program, trips=program.trips)
    except SchedgenError as error:
        raise SchedgenError(f"{name}: {error}") from None
    return perfetto(view) if kind == "perfetto" else to_json(view)


def _drawings() -> dict[str, Callable[[Schedule], str]]:
    from schedgen.visualize.dot import dot
    from schedgen.visualize.perfetto import perfetto
    from schedgen.visualize.svg import svg
    from schedgen.visualize.unrolled import unroll
    from schedgen.visualize.view import to_json

    return {
        "svg": lambda schedule: svg(unroll(schedule, cut=True)),
        "perfetto": lambda schedule: perfetto(unroll(schedule)),
        "dot": dot,
        "json": lambda schedule: to_json(unroll(schedule)),
    }


def _compared(names: list[str], texts: list[str], kind: str, width: int) -> str:
    from schedgen.visualize.compare import compared, compared_html
    from schedgen.visualize.svg import svg
    from schedgen.visualize.unrolled import unroll

    first, second = (_schedule(name, text) for name, text in zip(names, texts, strict=True))
    if kind == "svg":
        return svg(unroll(first, cut=True), unroll(second, cut=True), names=names)
    if kind == "html":
        return compared_html(first, second, names)
    return compared(first, second, names, width)


def _schedule(name: str, text: str) -> Schedule:
    from schedgen.schedule import ScheduleError, read_schedule
    from schedgen.visualize.unrolled import check_schedule

    if _is_program(text):
        fail(
            f"{name}: this is a program; two schedules can be compared, as written by "
            "'schedgen solve -o'"
        )
    schedule = read_schedule(text, name)
    try:
        check_schedule(schedule)
    except ScheduleError as error:
        raise ScheduleError(f"{name}: {error}") from None
    return schedule


def _is_program(text: str) -> bool:
    import json

    from schedgen.program.file import is_program

    try:
        return is_program(json.loads(text))
    except (ValueError, RecursionError):
        return False


def list_specs(as_json: bool) -> None:
    """Prints the shipped specs, and the shipped plans of several kernels."""
    from schedgen.spec.plan import read_plan
    from schedgen.spec.reader import read_spec, shipped_plans, shipped_specs

    plans = [(name, read_plan(name).file) for name in shipped_plans()]
    found = [
        *((name, read_spec(name).file, list[str]()) for name in shipped_specs()),
        *((name, file, [one.call for one in file.calls]) for name, file in plans),
    ]
    if as_json:
        print_json(
            [
                {"name": n, "about": f.about, "targets": f.targets, "parameters": [*f.parameters]}
                | {"calls": calls}
                for n, f, calls in found
            ]
        )
        return
    width = max(len(name) for name, *_ in found)
    for name, file, calls in found:
        plan = f"plan of {len(calls)} kernels: " if calls else ""
        typer.echo(f"{name:{width}} {', '.join(file.targets):12} {plan}{file.about}")


def list_targets(as_json: bool) -> None:
    """Prints the shipped machine models."""
    from schedgen.machine_file import read_machine, shipped_machines

    machines = [read_machine(name) for name in shipped_machines()]
    if as_json:
        print_json(
            [
                {"name": m.name, "arch": m.arch, "about": m.summary, "constants": len(m.constants)}
                for m in machines
            ]
        )
        return
    for machine in machines:
        typer.echo(f"{machine.name:10} {machine.arch:8} {machine.summary}")

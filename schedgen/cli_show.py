"""`schedgen show`, and the lists of specs and machine models."""

from __future__ import annotations

from pathlib import Path

import typer

from schedgen.cli_common import fail, print_json
from schedgen.errors import SchedgenError


def run_show(file: Path, program: bool, width: int) -> int:
    """Prints the timeline of a schedule, or the steps of a program. Returns the exit status, 0."""
    from schedgen.checking import load_program
    from schedgen.cli_check import read_text
    from schedgen.program.text import program_text
    from schedgen.schedule import ScheduleError, read_schedule
    from schedgen.visualize.timeline import timeline

    try:
        text = read_text(file)
        if program:
            typer.echo(program_text(load_program(text, str(file))))
        else:
            typer.echo(timeline(read_schedule(text, str(file)), width), nl=False)
    except (SchedgenError, ScheduleError) as error:
        fail(str(error))
    return 0


def list_specs(as_json: bool) -> None:
    """Prints the shipped specs."""
    from schedgen.spec.reader import read_spec, shipped_specs

    found = [(name, read_spec(name).file) for name in shipped_specs()]
    if as_json:
        print_json(
            [
                {"name": n, "about": f.about, "targets": f.targets, "parameters": [*f.parameters]}
                for n, f in found
            ]
        )
        return
    for name, file in found:
        typer.echo(f"{name:16} {', '.join(file.targets):12} {file.about}")


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

"""The command line. Solvers are imported only by the commands that need them, so `schedgen --help`
is quick.
"""

from __future__ import annotations

from typing import Annotated

import typer

from schedgen import __version__
from schedgen.cli.guard import guarded
from schedgen.cli.kernels import build, compile_file, cycles, emit, emulate, trace
from schedgen.cli.measurements import bench, calibrate, tune
from schedgen.cli.programs import ProgramCommand, lift, race
from schedgen.cli.schedules import check, plan, schema, show, solve, specs, targets

app = typer.Typer(
    name="schedgen",
    help="Optimal, proven, software-pipelined GPU kernels from spec files.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"schedgen {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Optimal, proven, software-pipelined GPU kernels from spec files."""


for _name, _command in {
    "solve": solve,
    "plan": plan,
    "check": check,
    "emulate": emulate,
    "race": race,
    "lift": lift,
    "emit": emit,
    "compile": compile_file,
    "cycles": cycles,
    "build": build,
    "trace": trace,
    "calibrate": calibrate,
    "tune": tune,
    "bench": bench,
    "show": show,
    "specs": specs,
    "targets": targets,
    "schema": schema,
}.items():  # in the order of `schedgen --help`
    _class = ProgramCommand if _command in (race, lift) else None
    app.command(_name, cls=_class)(guarded(_command))


def main() -> None:
    """Entry point of the `schedgen` command."""
    app()


if __name__ == "__main__":
    main()

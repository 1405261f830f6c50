"""The command line. Solvers are imported only by the commands that need them, so `schedgen --help`
is quick.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from schedgen import __version__
from schedgen.errors import SchedgenError

PROVEN, INFEASIBLE, BAD_INPUT, UNPROVEN = 0, 1, 2, 3

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


def _complete_spec(incomplete: str) -> list[str]:
    from schedgen.spec.reader import shipped_specs

    return [name for name in shipped_specs() if name.startswith(incomplete)]


def _complete_target(incomplete: str) -> list[str]:
    from schedgen.machine_file import shipped_machines

    return [name for name in shipped_machines() if name.startswith(incomplete)]


SpecArgument = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="Path of a spec, or the name of a shipped one.",
        autocompletion=_complete_spec,
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        help="Machine model: a name or a file. Default: the spec's first target.",
        autocompletion=_complete_target,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Fix a parameter; repeatable."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command()
def solve(
    spec: SpecArgument,
    target: TargetOption = None,
    set_: SetOption = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit", metavar="S", min=0.0, help="Seconds; then the best so far, not proven."
        ),
    ] = None,
    latencies: Annotated[
        str,
        typer.Option(
            help="End of the latency intervals to schedule for: high (holds for all) or low."
        ),
    ] = "high",
    confirm: Annotated[
        bool,
        typer.Option(
            "--confirm", help="Ask Z3 for an independent second opinion on the certificate."
        ),
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say in words why no smaller II is possible.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the schedule as JSON."),
    ] = None,
    program: Annotated[
        Path | None,
        typer.Option("--program", metavar="FILE", help="Write the proven program as JSON."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Find the best schedule of SPEC and its certificate, synchronize it and prove the program.

    Exit status: 0 solved and proven, 1 infeasible, 2 bad input, 3 feasible but not proven: the
    schedule within the time limit, or its program.
    """
    from schedgen.machine_file import read_machine
    from schedgen.program.file import to_json
    from schedgen.proof.prove import METHODS
    from schedgen.proved import QUICK, Proved, attempt
    from schedgen.schedule import Schedule
    from schedgen.solution import Infeasible, OutOfTime
    from schedgen.solution import solve as run
    from schedgen.spec.reader import read_spec

    if latencies not in ("low", "high"):
        _fail(f"--latencies {latencies}: use low or high")
    try:
        read = read_spec(spec)
        machine = read_machine(target or read.file.targets[0])
        with _Ticker() as ticker:
            solution = run(
                read,
                machine,
                settings=_settings(set_ or []),
                latencies=latencies,
                time_limit=time_limit,
                confirm=confirm,
                explain=explain,
                progress=ticker,
            )
            ticker("proving the program")
            proved = attempt(solution, METHODS if confirm else QUICK)
    except (Infeasible, OutOfTime) as error:
        _fail(str(error), INFEASIBLE if isinstance(error, Infeasible) else UNPROVEN)
    except SchedgenError as error:
        _fail(str(error))
    schedule: Schedule = solution.schedule
    if output is not None:
        _write(output, schedule.to_json())
    if program is not None:
        if not isinstance(proved, Proved):
            _fail(f"{program} is not written: {proved.reason}", UNPROVEN)
        proof = proved.proven.proof.summary()
        _write(program, to_json(proved.proven.program, proof={**proof, "seconds": None}))
    if json:
        extra: dict[str, Any] = {"solve_seconds": round(solution.seconds, 3), **proved.extra()}
        if explain:
            extra["explanation"] = list(solution.explanation)
        typer.echo(schedule.to_json(**extra), nl=False)
    else:
        from schedgen.visualize.summary import summary

        typer.echo(summary(schedule, solution.seconds, solution.explanation, proved.lines()))
    proven = schedule.proven_optimal and isinstance(proved, Proved)
    raise typer.Exit(PROVEN if proven else UNPROVEN)


@app.command()
def check(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Schedule or program written by 'schedgen solve', or - for input."
        ),
    ],
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="graph, z3 or execution; repeatable. Default: all three."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Prove the program in FILE free of races, deadlocks and phase errors, or show a witness.

    Exit status: 0 proven, 1 refuted, 2 bad input.
    """
    from schedgen.cli_check import run_check

    raise typer.Exit(run_check(file, method or [], json))


@app.command()
def emulate(
    spec: SpecArgument,
    target: TargetOption = None,
    set_: SetOption = None,
    extent: Annotated[
        list[str] | None,
        typer.Option(
            "--extent", metavar="NAME=SIZE", help="Size of the tensors; repeatable. Default: small."
        ),
    ] = None,
    schedule: Annotated[
        str, typer.Option(help="Who goes next: round-robin, random or adversarial.")
    ] = "round-robin",
    seeds: Annotated[
        int, typer.Option(min=1, help="How many random or adversarial schedules to run.")
    ] = 5,
    races: Annotated[bool, typer.Option(help="Check that accesses are ordered.")] = True,
    switch: Annotated[
        list[str] | None,
        typer.Option(
            "--switch", metavar="NAME=READING", help="How to read the ISA (docs/emulator.md)."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Execute the kernel of SPEC on the CPU: compare its results, and look for races.

    Exit status: 0 correct and clean, 1 wrong or racy, 2 bad input.
    """
    from schedgen.cli_emulate import run_emulate
    from schedgen.spec.reader import read_spec

    try:
        name = target or read_spec(spec).file.targets[0]
        sizes = {key: _whole(value) for key, value in _settings(extent or []).items()}
        settings, switches = _settings(set_ or []), _settings(switch or [])
    except SchedgenError as error:
        _fail(str(error))
    status = run_emulate(
        spec,
        name,
        settings,
        sizes,
        schedule=schedule,
        seeds=seeds,
        races=races,
        switches=switches,
        as_json=json,
    )
    raise typer.Exit(status)


@app.command()
def emit(
    spec: SpecArgument,
    target: TargetOption = None,
    set_: SetOption = None,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="DIR", help="Folder for SPEC_ARCH[_VARIANT].py."),
    ] = Path(),
    compile_: Annotated[
        bool,
        typer.Option(
            "--compile", help="Compile it; if it spills, solve for a schedule with more registers."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Write the kernel of SPEC as a CuTe DSL file, from its best schedule and a proven program.

    Exit status: 0 written, 1 there is no schedule, no proof, or it spills, 2 bad input.
    """
    from schedgen.cli_emit import run_emit

    settings = _settings(set_ or [])
    with _Ticker() as ticker:
        status = run_emit(
            spec, target, settings, output, _write, ticker, compiled=compile_, as_json=json
        )
    raise typer.Exit(status)


@app.command("compile")
def compile_file(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Kernel written by 'schedgen emit'.")
    ],
    target: TargetOption = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Folder for PTX, cubin and object."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compile FILE without a GPU; print its registers, spills and memory.

    Exit status: 0 acceptable, 1 it does not compile, spills or needs too much memory, 2 bad input.
    """
    from schedgen.cli_emit import run_compile

    raise typer.Exit(run_compile(file, target, output, json))


@app.command()
def bench(spec: SpecArgument, json: JsonOption = False) -> None:
    """Time the shipped kernels of SPEC on this GPU, beside their peers.

    Exit status: 0 done, 1 there is no GPU or no kernel for it, 2 bad input.
    """
    from schedgen.cli_bench import run_bench

    raise typer.Exit(run_bench(spec, json))


@app.command()
def show(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Schedule or program written by 'schedgen solve', or - for input."
        ),
    ],
    program: Annotated[
        bool, typer.Option("--program", help="The steps of each role and all barriers.")
    ] = False,
    width: Annotated[int, typer.Option(min=60, max=400, help="Columns of the text.")] = 100,
) -> None:
    """Draw one steady-state period of a schedule per unit and role, with prologue and epilogue."""
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
        _fail(str(error))


@app.command()
def specs(json: JsonOption = False) -> None:
    """List the shipped specs."""
    from schedgen.spec.reader import read_spec, shipped_specs

    found = [(name, read_spec(name).file) for name in shipped_specs()]
    if json:
        rows = [
            {"name": n, "about": f.about, "targets": f.targets, "parameters": list(f.parameters)}
            for n, f in found
        ]
        _print_json(rows)
        return
    for name, file in found:
        typer.echo(f"{name:16} {', '.join(file.targets):12} {file.about}")


@app.command()
def targets(json: JsonOption = False) -> None:
    """List the machine models."""
    from schedgen.machine_file import read_machine, shipped_machines

    machines = [read_machine(name) for name in shipped_machines()]
    if json:
        _print_json(
            [
                {"name": m.name, "arch": m.arch, "about": m.summary, "constants": len(m.constants)}
                for m in machines
            ]
        )
        return
    for machine in machines:
        typer.echo(f"{machine.name:10} {machine.arch:8} {machine.summary}")


@app.command()
def schema() -> None:
    """Print the JSON Schema of spec files, for editors."""
    from schedgen.spec.schema import json_schema

    _print_json(json_schema())


def _print_json(value: object) -> None:
    import json as library

    typer.echo(library.dumps(value, indent=1, ensure_ascii=False))


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise SchedgenError(f"--extent: '{text}' is not a whole number")
    return int(text)


def _settings(texts: list[str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            _fail(f"--set {text}: write NAME=VALUE")
        if name in settings:
            _fail(f"--set {name} is given twice")
        settings[name] = value
    return settings


def _write(path: Path, text: str) -> None:
    """Writes the whole file or nothing: a new file in the same folder takes the place of the old
    one.
    """
    try:
        handle, temporary = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"
        )
    except OSError as error:
        _fail(f"{path}: {error.strerror}")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        os.unlink(temporary)
        _fail(f"{path}: {error.strerror}")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


class _Ticker:
    """Progress on a terminal once the work has lasted a second; silent in pipes."""

    def __enter__(self) -> Callable[[str], None]:
        from time import perf_counter

        self._begin, self._shown, self._clock = perf_counter(), False, perf_counter
        return self.tick

    def tick(self, text: str) -> None:
        if sys.stderr.isatty() and self._clock() - self._begin > 1.0:
            self._shown = True
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")


def _fail(message: str, status: int = BAD_INPUT) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(status)


def main() -> None:
    """Entry point of the `schedgen` command."""
    app()


if __name__ == "__main__":
    main()

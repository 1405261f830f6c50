"""The command line. Solvers are imported only by the commands that need them, so `schedgen --help`
is quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from schedgen import __version__
from schedgen.cli_common import Ticker, fail, print_json, settings_of, whole, write
from schedgen.errors import SchedgenError

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
    from schedgen.cli_solve import Wanted, run_solve

    wanted = Wanted(set_ or [], latencies, time_limit, confirm, explain, output, program, json)
    raise typer.Exit(run_solve(spec, target, wanted))


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
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", help="Warp instructions of an execution. Default: 50000000."),
    ] = None,
    stall: Annotated[
        float | None,
        typer.Option(metavar="S", help="Processor seconds without any progress. Default: 30."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(metavar="S", help="Seconds of an execution, by the clock. Default: any."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Execute the kernel of SPEC on the CPU: compare its results, and look for races.

    An execution that takes more than --limit, --stall or --seconds is taken to loop forever, and
    ends. Exit status: 0 correct and clean, 1 wrong, racy or endless, 2 bad input.
    """
    from schedgen.cli_emulate import Limits, run_emulate
    from schedgen.spec.reader import read_spec

    try:
        name = target or read_spec(spec).file.targets[0]
        extents = settings_of(extent or [], "--extent")
        sizes = {key: whole(value) for key, value in extents.items()}
        settings, switches = settings_of(set_ or []), settings_of(switch or [], "--switch")
    except SchedgenError as error:
        fail(str(error))
    status = run_emulate(
        spec,
        name,
        settings,
        sizes,
        schedule=schedule,
        seeds=seeds,
        races=races,
        switches=switches,
        limits=Limits(limit, stall, seconds),
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
    events: Annotated[
        bool, typer.Option("--events", help="A kernel that records when its operations run.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Write the kernel of SPEC as a CuTe DSL file, from its best schedule and a proven program.

    Exit status: 0 written, 1 there is no schedule, no proof, or it spills, 2 bad input.
    """
    from schedgen.cli_emit import run_emit

    settings = settings_of(set_ or [])
    with Ticker() as ticker:
        status = run_emit(
            spec,
            target,
            settings,
            output,
            write,
            ticker,
            compiled=compile_,
            events=events,
            as_json=json,
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
def trace(
    spec: SpecArgument,
    target: TargetOption = None,
    set_: SetOption = None,
    extent: Annotated[
        list[str] | None,
        typer.Option("--extent", metavar="NAME=SIZE", help="Size of the tensors; repeatable."),
    ] = None,
    scalar: Annotated[
        list[str] | None,
        typer.Option("--scalar", metavar="NAME=VALUE", help="Value of a scalar. Default: 1."),
    ] = None,
    block: Annotated[int, typer.Option(min=0, help="Which block (CTA) records.")] = 0,
    tiles: Annotated[int, typer.Option(min=1, help="How many of its output tiles to keep.")] = 4,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE", help="Read this; SPEC may be a schedule's file."),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="FILE", help="Write the record.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write a trace for ui.perfetto.dev."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run the kernel of SPEC on this GPU and compare the cycles of its operations and waits with
    those that the schedule plans.

    Exit status: 0 done, 1 there is no schedule, no proof, or no GPU for it, 2 bad input.
    """
    from schedgen.cli_trace import Run, numbers_of, run_trace

    try:
        sizes = {key: whole(value) for key, value in settings_of(extent or []).items()}
        run = Run(sizes, numbers_of(settings_of(scalar or []), "--scalar"), block, tiles)
    except SchedgenError as error:
        fail(str(error))
    settings = settings_of(set_ or [])
    with Ticker() as ticker:
        status = run_trace(
            spec, target, settings, run, record, keep, output, write, ticker, as_json=json
        )
    raise typer.Exit(status)


@app.command()
def bench(spec: SpecArgument, json: JsonOption = False) -> None:
    """Time the shipped kernels of SPEC, or polar, on this GPU, beside their peers.

    Exit status: 0 done, 1 there is no GPU or no kernel for it, 2 bad input.
    """
    from schedgen.cli_bench import run_bench

    raise typer.Exit(run_bench(spec, json))


def _complete_shown(incomplete: str) -> list[str]:
    """Shipped specs, and files beginning with ``incomplete``."""
    folder, _, begin = incomplete.rpartition("/")
    found = sorted(Path(folder or ("/" if incomplete.startswith("/") else ".")).glob(f"{begin}*"))
    return [
        *_complete_spec(incomplete),
        *(f"{path}/" if path.is_dir() else str(path) for path in found),
    ]


def _complete_format(incomplete: str) -> list[str]:
    from schedgen.cli_show import FORMATS

    return [name for name in FORMATS if name.startswith(incomplete)]


@app.command()
def show(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE [OTHER]",
            help="Schedule or program written by 'schedgen solve', - for input, or a spec, which "
            "is solved first. Two schedules are compared.",
            autocompletion=_complete_shown,
        ),
    ],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="text, html, svg, perfetto, dot or json. Default: what the output's name says, "
            "else text.",
            autocompletion=_complete_format,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write it to FILE, whole or not."),
    ] = None,
    target: TargetOption = None,
    set_: SetOption = None,
    program: Annotated[
        bool, typer.Option("--program", help="The steps of each role and all barriers, as text.")
    ] = False,
    width: Annotated[int, typer.Option(min=60, max=400, help="Columns of the text.")] = 100,
) -> None:
    """Draw a schedule: who does what when, on which unit, and what waits for what.

    text: a steady-state period for terminals; html: a report to read in a browser; svg: timelines
    for papers; perfetto: a trace for ui.perfetto.dev; dot: the dependence graph for Graphviz; json:
    all instances with their times. Exit status: 0 drawn, 2 bad input, 1 or 3 as for 'solve'.
    """
    from schedgen.cli_show import Wanted, run_show

    settings = settings_of(set_ or [])
    raise typer.Exit(run_show(files, Wanted(format_, output, program, width, target, settings)))


@app.command()
def specs(json: JsonOption = False) -> None:
    """List the shipped specs."""
    from schedgen.cli_show import list_specs

    list_specs(json)


@app.command()
def targets(json: JsonOption = False) -> None:
    """List the machine models."""
    from schedgen.cli_show import list_targets

    list_targets(json)


@app.command()
def schema() -> None:
    """Print the JSON Schema of spec files, for editors."""
    from schedgen.spec.schema import json_schema

    print_json(json_schema())


def main() -> None:
    """Entry point of the `schedgen` command."""
    app()


if __name__ == "__main__":
    main()

"""Commands about schedules and specs. Solvers are imported only by those that need them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from schedgen.cli.common import print_json, settings_of
from schedgen.cli.options import (
    JsonOption,
    PaceOption,
    SetOption,
    SpecArgument,
    TargetOption,
    complete_spec,
)


def complete_shown(incomplete: str) -> list[str]:
    """Shipped specs, and files beginning with ``incomplete``."""
    folder, _, begin = incomplete.rpartition("/")
    found = sorted(Path(folder or ("/" if incomplete.startswith("/") else ".")).glob(f"{begin}*"))
    return [
        *complete_spec(incomplete),
        *(f"{path}/" if path.is_dir() else str(path) for path in found),
    ]


def complete_plan(incomplete: str) -> list[str]:
    from schedgen.spec.reader import shipped_plans

    return [name for name in shipped_plans() if name.startswith(incomplete)]


def complete_format(incomplete: str) -> list[str]:
    from schedgen.cli.show import FORMATS

    return [name for name in FORMATS if name.startswith(incomplete)]


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
    pace: PaceOption = None,
    json: JsonOption = False,
) -> None:
    """Find the best schedule of SPEC and its certificate, synchronize it and prove the program.

    Exit status: 0 solved and proven, 1 infeasible, 2 bad input, 3 feasible but not proven: the
    schedule within the time limit, or its program.
    """
    from schedgen.cli.solve import Wanted, run_solve

    wanted = Wanted(
        set_ or [],
        latencies,
        time_limit,
        confirm,
        explain,
        output,
        program,
        json,
        tuple(pace or ()),
    )
    raise typer.Exit(run_solve(spec, target, wanted))


def plan(
    spec: Annotated[
        str,
        typer.Argument(
            metavar="PLAN",
            help="Name of a shipped plan of several kernels, or a file.",
            autocompletion=complete_plan,
        ),
    ],
    target: TargetOption = None,
    set_: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Check PLAN and list its calls: kernels in their order, with what they hand on to each other.

    Nothing is solved: `schedgen.kernels.kernel` does that for what is not shipped, and 'schedgen
    solve FILE#KERNEL'. Exit status: 0 right, 2 bad input.
    """
    from schedgen.cli.plan import run_plan

    run_plan(spec, target, settings_of(set_ or []), json)


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
    pace: PaceOption = None,
    json: JsonOption = False,
) -> None:
    """Prove the program in FILE free of races, deadlocks and phase errors, or show a witness.

    Exit status: 0 proven, 1 refuted, 2 bad input.
    """
    from schedgen.cli.check import run_check

    raise typer.Exit(run_check(file, method or [], json, tuple(pace or ())))


def show(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE [OTHER]",
            help="Schedule or program written by 'schedgen solve', - for input, or a spec, which "
            "is solved first. Two schedules are compared.",
            autocompletion=complete_shown,
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
            autocompletion=complete_format,
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
    pace: PaceOption = None,
) -> None:
    """Draw a schedule: who does what when, on which unit, and what waits for what.

    text: a steady-state period for terminals; html: a report to read in a browser; svg: timelines
    for papers; perfetto: a trace for ui.perfetto.dev; dot: the dependence graph for Graphviz; json:
    all instances with their times. Exit status: 0 drawn, 2 bad input, 1 or 3 as for 'solve'.
    """
    from schedgen.cli.show import Wanted, run_show

    settings = settings_of(set_ or [])
    wanted = Wanted(format_, output, program, width, target, settings, tuple(pace or ()))
    raise typer.Exit(run_show(files, wanted))


def specs(json: JsonOption = False) -> None:
    """List the shipped specs, and plans of several kernels."""
    from schedgen.cli.show import list_specs

    list_specs(json)


def targets(json: JsonOption = False) -> None:
    """List the machine models."""
    from schedgen.cli.show import list_targets

    list_targets(json)


def schema(
    plan: Annotated[bool, typer.Option("--plan", help="Of plans of several kernels.")] = False,
) -> None:
    """Print the JSON Schema of spec files, for editors."""
    from schedgen.spec.plan import PlanFile
    from schedgen.spec.schema import json_schema

    print_json(json_schema(PlanFile, "schedgen plan") if plan else json_schema())

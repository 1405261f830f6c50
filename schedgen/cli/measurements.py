"""Commands that measure on a GPU, or go on with what was measured on one."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from schedgen.cli.common import Ticker, fail, settings_of, write
from schedgen.cli.options import (
    CacheOption,
    JsonOption,
    OptionalSpec,
    SetOption,
    SpecArgument,
    TargetOption,
    complete_target,
)
from schedgen.errors import SchedgenError


class About(StrEnum):
    """What experiments of a calibration are about."""

    ITERATIONS = "iterations"
    LAUNCHES = "launches"
    KERNELS = "kernels"


def calibrate(
    target: Annotated[
        str,
        typer.Option(
            "--target", "-t", help="The model, or its file.", autocompletion=complete_target
        ),
    ] = "h200",
    experiments: Annotated[
        Path | None,
        typer.Option("--experiments", metavar="FILE", help="What to measure. Default: shipped."),
    ] = None,
    only: Annotated[
        About | None,
        typer.Option(
            "--only",
            help="Only experiments about these; kernels: iterations of all shipped ones. Default: "
            "iterations, launches.",
        ),
    ] = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option("--kernel", metavar="NAME", help="With --only kernels: this one; repeatable."),
    ] = None,
    prepare: Annotated[
        Path | None,
        typer.Option("--prepare", metavar="DIR", help="Only emit the kernels into this folder."),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="DIR", help="Only measure what was prepared: no solver."),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE", help="Fit what was measured before: no GPU."),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="FILE", help="Write what is measured.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the fitted model.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measure on this GPU what a machine model says, and fit its constants.

    Exit status: 0 done, 1 there is no GPU, or a kernel cannot be made or does not run, 2 bad input.
    """
    from schedgen.cli.calibrate import Files, run_calibrate

    about, names = only.value if only else "", tuple(kernel or ())
    files = Files(experiments, about, prepare, run, record, keep, output, names)
    with Ticker() as ticker:
        status = run_calibrate(target, files, write, ticker, as_json=json)
    raise typer.Exit(status)


def tune(
    spec: OptionalSpec = None,
    target: TargetOption = None,
    set_: SetOption = None,
    try_: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            metavar="NAME=V1,V2",
            help="Values of a parameter; repeatable. Default: those near the spec's own.",
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            "--shape", metavar="NAME=SIZE,...", help="Size of a problem; repeatable. Default: 4096."
        ),
    ] = None,
    candidates: Annotated[
        int, typer.Option(min=1, help="Candidates beside the spec's own settings, at most.")
    ] = 8,
    seconds: Annotated[
        float, typer.Option(min=0, help="After these, no candidate and no round is begun.")
    ] = 600.0,
    seed: Annotated[int, typer.Option(help="Of the order of settings.")] = 0,
    rounds: Annotated[int, typer.Option(min=3, help="Rounds of measurement.")] = 7,
    refinements: Annotated[
        int,
        typer.Option(min=0, max=4, help="How often neighbours of the winner are tried in one go."),
    ] = 1,
    by: Annotated[str, typer.Option(help="Times that decide: eager or graphs.")] = "eager",
    prepare: Annotated[
        Path | None,
        typer.Option("--prepare", metavar="DIR", help="Only make candidates, in this folder."),
    ] = None,
    refine: Annotated[
        Path | None,
        typer.Option("--refine", metavar="FILE", help="Prepare neighbours of this record's winner"),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="DIR", help="Only measure what was prepared: no solver."),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE", help="Choose among what was measured: no GPU."),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="FILE", help="The record. Default: DIR/measured.json."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the winner for emit --tuned."),
    ] = None,
    cache: CacheOption = True,
    json: JsonOption = False,
) -> None:
    """Find the fastest schedule and sizes of tiles of SPEC by measuring candidates on this GPU.

    Candidates are solved, emitted, compiled, compared with their programs and measured. --prepare,
    --run and --record do a part of that each, where there is a solver, a GPU, or none
    (docs/tune.md). What was interrupted goes on where it was.

    Exit status: 0 done, 1 there is no GPU, no candidate, or a kernel does not run, 2 bad input.
    """
    from schedgen.cli.tune import Files, Options, run_tune, tries_of

    settings = settings_of(set_ or [])
    try:
        tries = tries_of(try_ or [])
    except SchedgenError as error:
        fail(str(error))
    options = Options(
        spec, target, settings, tries, shape or [], candidates, seconds, seed, rounds, refinements,
        by, cache,
    )  # fmt: skip
    files = Files(prepare, run, record, refine, keep, output)
    with Ticker() as ticker:
        status = run_tune(options, files, write, ticker, as_json=json)
    raise typer.Exit(status)


def bench(spec: SpecArgument, json: JsonOption = False) -> None:
    """Time the shipped kernels of SPEC, or polar, on this GPU, beside their peers.

    Exit status: 0 done, 1 there is no GPU or no kernel for it, 2 bad input.
    """
    from schedgen.cli.bench import run_bench

    raise typer.Exit(run_bench(spec, json))

"""Commands about kernels: from text to cycles. What they need is imported when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from schedgen.cli.common import Ticker, fail, settings_of, whole, write
from schedgen.cli.options import (
    CacheOption,
    JsonOption,
    PaceOption,
    SetOption,
    SpecArgument,
    StyleOption,
    TargetOption,
    complete_spec,
    complete_target,
)
from schedgen.errors import SchedgenError


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
    banks: Annotated[
        bool, typer.Option("--banks", help="Count bank conflicts of shared memory, too.")
    ] = False,
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
    compile_: Annotated[
        bool,
        typer.Option(
            "--compile/--no-compile",
            help="Execute the schedule that 'emit --compile' selects, or the best one whatever "
            "the compiler says of it.",
        ),
    ] = True,
    pace: PaceOption = None,
    style: StyleOption = None,
    cache: CacheOption = True,
    json: JsonOption = False,
) -> None:
    """Execute the kernel of SPEC on the CPU: compare its results, and look for races.

    SPEC may be the file of a schedule ('solve -o', 'emit --schedule'), which is not solved again,
    or a generated file, such as kernels/gemm_sm_100a_bf16.py: it is executed as it is.

    An execution that takes more than --limit, --stall or --seconds is taken to loop forever, and
    ends. Exit status: 0 correct and clean, 1 wrong, racy or endless, 2 bad input.
    """
    from schedgen.cli.emulate import Limits, run_emulate

    try:
        extents = settings_of(extent or [], "--extent")
        sizes = {key: whole(value) for key, value in extents.items()}
        settings, switches = settings_of(set_ or []), settings_of(switch or [], "--switch")
    except SchedgenError as error:
        fail(str(error))
    with Ticker() as ticker:
        status = run_emulate(
            spec,
            target or "",
            settings,
            sizes,
            schedule=schedule,
            seeds=seeds,
            races=races,
            banks=banks,
            switches=switches,
            limits=Limits(limit, stall, seconds),
            as_json=json,
            compile_=compile_,
            cache=cache,
            pace=tuple(pace or ()),
            style=tuple(style or ()),
            progress=ticker,
        )
    raise typer.Exit(status)


def emit(
    spec: SpecArgument,
    target: TargetOption = None,
    set_: SetOption = None,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="DIR", help="Folder for SPEC_ARCH[_VARIANT].py."),
    ] = Path(),
    compile_: Annotated[
        bool | None,
        typer.Option(
            "--compile/--no-compile",
            help="Compile it; if registers are too few, solve for a schedule with more. Default: "
            "if CuTe DSL is installed.",
        ),
    ] = None,
    events: Annotated[
        bool, typer.Option("--events", help="A kernel that records when its operations run.")
    ] = False,
    conform: Annotated[
        bool,
        typer.Option("--conform/--no-conform", help="Compare what is compiled with the program."),
    ] = True,
    schedule: Annotated[
        Path | None,
        typer.Option("--schedule", metavar="FILE", help="Write its schedule as JSON, too."),
    ] = None,
    tuned: Annotated[
        Path | None,
        typer.Option("--tuned", metavar="FILE", help="The winner of 'tune -o FILE': no solver."),
    ] = None,
    pace: PaceOption = None,
    style: StyleOption = None,
    cache: CacheOption = True,
    json: JsonOption = False,
) -> None:
    """Write the kernel of SPEC as a CuTe DSL file, from its best schedule and a proven program.

    SPEC may be the file of a schedule ('solve -o'): it is verified and proven, not solved again.
    Whether a kernel spills registers, or its products wait for each other, only the compiler knows.
    What it made is compared with the program (docs/conform.md), but for kernels with --events.

    Exit status: 0 written, 1 there is no schedule, no proof, it spills or is not its program, 2 bad
    input.
    """
    from schedgen.cli.emit import Wanted, run_emit
    from schedgen.cli.emit_tuned import run_emit_tuned

    settings = settings_of(set_ or [])
    wanted = Wanted(
        compile_, events, json, schedule, cache, conform, tuple(pace or ()), tuple(style or ())
    )
    if tuned is not None:
        raise typer.Exit(
            run_emit_tuned(spec, target, settings, tuned, output, write, wanted),
        )
    with Ticker() as ticker:
        status = run_emit(spec, target, settings, output, write, ticker, wanted)
    raise typer.Exit(status)


def compile_file(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Kernel written by 'schedgen emit'.")
    ],
    target: TargetOption = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Folder for PTX, cubin and object."),
    ] = None,
    conform: Annotated[
        bool, typer.Option("--conform/--no-conform", help="Compare the PTX with the program.")
    ] = True,
    spec: Annotated[
        str | None,
        typer.Option("--spec", metavar="SPEC", help="Its spec, if that is not a shipped one."),
    ] = None,
    allow_spills: Annotated[
        bool, typer.Option("--allow-spills", help="Accept registers in local memory.")
    ] = False,
    allow_serialized: Annotated[
        bool, typer.Option("--allow-serialized", help="Accept products that wait for each other.")
    ] = False,
    cache: CacheOption = True,
    json: JsonOption = False,
) -> None:
    """Compile FILE without a GPU: registers, spills, memory, and whether it is its program.

    Every instruction of the PTX that synchronizes or accesses memory is mapped to a step of the
    program, for all trip counts at once (docs/conform.md). Exit status: 0 acceptable, 1 it does not
    compile, spills, needs too much memory or is not what its program says, 2 bad input.
    """
    from schedgen.cli.emit import run_compile

    allowed = {"spills": allow_spills, "serialized": allow_serialized}
    allow = frozenset(kind for kind, given in allowed.items() if given)
    raise typer.Exit(
        run_compile(
            file, target, output, json, conform=conform, allow=allow, spec=spec, cache=cache
        )
    )


def cycles(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Kernel written by 'schedgen emit'.")
    ],
    target: TargetOption = None,
    spec: Annotated[
        str | None,
        typer.Option("--spec", metavar="SPEC", help="Its spec, if that is not a shipped one."),
    ] = None,
    each: Annotated[
        bool, typer.Option("--each", help="Also cycles of each instruction of a role's loop.")
    ] = False,
    cache: CacheOption = True,
    json: JsonOption = False,
) -> None:
    """Say without a GPU what an iteration of FILE takes, by its machine code.

    Roles execute what the assembler wrote, instruction by instruction, with barriers, copies and
    tensor cores of the machine model (docs/calibration.md): cycles of an iteration, and for each
    role what they go into. Hopper only. Exit status: 0 done, 1 it does not compile, 2 bad input.
    """
    from schedgen.cli.cycles import run_cycles

    raise typer.Exit(run_cycles(file, target, spec, json, each=each, cache=cache))


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
    pace: PaceOption = None,
    json: JsonOption = False,
) -> None:
    """Run the kernel of SPEC on this GPU and compare the cycles of its operations and waits with
    those that the schedule plans.

    Exit status: 0 done, 1 there is no schedule, no proof, or no GPU for it, 2 bad input.
    """
    from schedgen.cli.trace import Run, numbers_of, run_trace

    try:
        sizes = {key: whole(value) for key, value in settings_of(extent or []).items()}
        scalars = numbers_of(settings_of(scalar or []), "--scalar")
        run = Run(sizes, scalars, block, tiles, tuple(pace or ()))
    except SchedgenError as error:
        fail(str(error))
    settings = settings_of(set_ or [])
    with Ticker() as ticker:
        status = run_trace(
            spec, target, settings, run, record, keep, output, write, ticker, as_json=json
        )
    raise typer.Exit(status)


def build(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Beginnings of names. Default: all kernels."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", help="h200 or b200. Default: both.", autocompletion=complete_target
        ),
    ] = None,
    sms: Annotated[
        int | None, typer.Option(min=1, help="SMs of the GPU. Default: 132 for h200, 148 for b200.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Compilers at a time. Default: one per core.")
    ] = None,
    spec: Annotated[
        str | None,
        typer.Option(
            "--spec",
            metavar="SPEC",
            help="The kernels of this spec or plan instead, which are made on their first call.",
            autocompletion=complete_spec,
        ),
    ] = None,
    set_: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Compile kernels into the cache ahead of their first call, without a GPU: the shipped ones, or
    those of a spec with some parameters.

    For images and clusters: fill SCHEDGEN_CACHE_DIR once and copy it. What is there is not compiled
    again. Exit status: 0 all are there, 1 one does not compile, 2 bad input.
    """
    from schedgen.cli.build import run_build, run_build_spec

    if spec is None and set_:
        fail(f"--set {set_[0]} is a parameter of no spec; fix: give one with --spec")
    if spec is None:
        raise typer.Exit(run_build(names or [], target, sms, jobs, json))
    if names:
        fail(f"'{names[0]}' is the name of shipped kernels; fix: leave it or --spec {spec} away")
    if jobs is not None:
        fail(f"kernels of a spec are made one by one; fix: leave --jobs {jobs} away")
    with Ticker() as ticker:
        status = run_build_spec(spec, settings_of(set_ or []), target, sms, ticker, json)
    raise typer.Exit(status)

"""The commands about programs of others: `race` and `lift`. Each imports what it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from schedgen.cli.common import Ticker, fail, settings_of
from schedgen.cli.options import JsonOption
from schedgen.errors import SchedgenError


class ProgramCommand(TyperCommand):
    """A command whose options stand before a program: what stands behind it is the program's."""

    allow_interspersed_args = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As for other commands; all that follows ``-m MODULE`` is left to the module."""
        return super().parse_args(ctx, self._divided(args))

    def _divided(self, args: list[str]) -> list[str]:
        valued = {
            name for one in self.params if not getattr(one, "is_flag", False) for name in one.opts
        }
        at = 0
        while at < len(args) and args[at].startswith("-") and args[at] != "--":
            if args[at] == "-m":
                return [*args[: at + 2], "--", *args[at + 2 :]]
            at += 2 if args[at] in valued else 1
        return args


def complete_arch(incomplete: str) -> list[str]:
    from schedgen.cli.race import ARCHITECTURES

    return [name for name in ARCHITECTURES if name.startswith(incomplete)]


def complete_schedule(incomplete: str) -> list[str]:
    from schedgen.cli.race import SCHEDULES

    return [name for name in SCHEDULES if name.startswith(incomplete)]


ProgramArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[PROGRAM]", help="A script, MODULE:FUNCTION or a PTX file.", show_default=False
    ),
]
ArgumentsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ARGS]...", help="Arguments of the program.", show_default=False),
]
ModuleOption = Annotated[
    str | None,
    typer.Option("-m", metavar="MODULE", help="Run a module, as 'python -m'; must come last."),
]
ArchOption = Annotated[
    str, typer.Option(help="The GPU: sm_90a or sm_100a.", autocompletion=complete_arch)
]


def race(
    program: ProgramArgument = None,
    arguments: ArgumentsArgument = None,
    module: ModuleOption = None,
    arch: ArchOption = "sm_90a",
    schedule: Annotated[
        str,
        typer.Option(
            help="Who goes next: adversarial or random, then round-robin; or round-robin alone.",
            autocompletion=complete_schedule,
        ),
    ] = "adversarial",
    seeds: Annotated[
        int, typer.Option(min=1, help="How many adversarial or random schedules.")
    ] = 3,
    jobs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Processes that execute schedules.")
    ] = 1,
    sms: Annotated[int, typer.Option(min=1, help="SMs that programs are told of.")] = 4,
    limit: Annotated[
        str | None,
        typer.Option(metavar="N|Ns", help="End the program after N launches or N seconds."),
    ] = None,
    instructions: Annotated[
        int | None,
        typer.Option(metavar="N", help="Warp instructions of a launch. Default: 50000000."),
    ] = None,
    stall: Annotated[
        float | None,
        typer.Option(metavar="S", help="Processor seconds without any progress. Default: 30."),
    ] = None,
    switch: Annotated[
        list[str] | None,
        typer.Option(
            "--switch", metavar="NAME=READING", help="How to read the ISA (docs/emulator.md)."
        ),
    ] = None,
    demote: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help="Findings of this rule are warnings; repeatable."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="Print errors and the verdict only.")
    ] = False,
    launch: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="How a PTX file is launched (docs/race.md)."),
    ] = None,
    list_unsupported: Annotated[
        bool,
        typer.Option("--list-unsupported", help="Execute no kernel; list what cannot be executed."),
    ] = False,
    unexecuted: Annotated[
        bool,
        typer.Option(
            "--unexecuted", help="List all waits, arrives and fences that were never executed."
        ),
    ] = False,
    banks: Annotated[
        bool, typer.Option("--banks", help="Count bank conflicts of shared memory, too.")
    ] = False,
    sarif: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the findings as SARIF 2.1.0.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page with a timeline for each finding."),
    ] = None,
    schedules: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the simplest schedules that show findings."),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Execute launches under schedules of --schedules."),
    ] = None,
    shrink: Annotated[
        float,
        typer.Option(min=0, metavar="S", help="Seconds for simple schedules that show findings."),
    ] = 30.0,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write kernels and findings as JUnit XML.")
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Findings in it are known: no failure.")
    ] = None,
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Write all findings to --baseline.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Run a GPU program, unmodified, on a GPU that is not there, and check its kernels for races.

    Tensors on 'cuda' lie in memory of this process, torch.cuda answers for --arch, and launches of
    CuTe DSL kernels, also through apache-tvm-ffi, are executed in the emulator under several
    schedules (docs/race.md).

    Exit status: 0 the program ended well and its kernels are clean, 1 findings, a kernel that does
    not end, or a program that fails, 2 bad input.
    """
    from schedgen.cli.emulate import Limits
    from schedgen.cli.race import (
        ARCHITECTURES,
        SCHEDULES,
        Asked,
        limit_of,
        one_of,
        run_list,
        run_race,
    )
    from schedgen.emulator.machine.switches import Switches, chosen
    from schedgen.emulator.race.running import Options

    try:
        Limits(instructions, stall).check()
        readings = chosen(settings_of(switch or [], "--switch"), Switches())
    except SchedgenError as error:
        fail(str(error))
    more: dict[str, Any] = {"instructions": instructions, "stall": stall}
    options = Options(
        one_of(arch, ARCHITECTURES, "--arch"),
        one_of(schedule, SCHEDULES, "--schedule"),
        seeds,
        sms,
        readings,
        limit=limit_of(limit),
        demoted=frozenset(demote or ()),
        jobs=jobs,
        pictures=html is not None,
        banks=banks,
        shrink=shrink,
        **{name: value for name, value in more.items() if value is not None},
    )
    asked = Asked(
        program, tuple(arguments or ()), module, launch, json, quiet, sarif, junit, baseline,
        update_baseline, unexecuted, html, schedules, replay,
    )  # fmt: skip
    if list_unsupported:
        raise typer.Exit(run_list(asked, options))
    with Ticker() as ticker:
        status = run_race(asked, options, ticker)
    raise typer.Exit(status)


def lift(
    program: ProgramArgument = None,
    arguments: ArgumentsArgument = None,
    module: ModuleOption = None,
    arch: ArchOption = "sm_90a",
    kernel: Annotated[
        str, typer.Option(metavar="REGEX", help="Only kernels whose names it is found in.")
    ] = "",
    json: JsonOption = False,
) -> None:
    """Prove kernels of a GPU program for all trip counts: waits, arrivals, copies and products are
    read from their PTX as a program like those of 'solve' (docs/lift.md). Executes no kernel.

    Exit status: 0 all are proven, 1 one is refuted, 2 bad input, 3 one is not lifted.
    """
    from schedgen.cli.lift import run_lift
    from schedgen.cli.race import ARCHITECTURES, Asked, one_of
    from schedgen.emulator.race.running import Options

    options = Options(one_of(arch, ARCHITECTURES, "--arch"))
    asked = Asked(program, tuple(arguments or ()), module, as_json=json)
    with Ticker() as ticker:
        status = run_lift(asked, options, kernel, ticker)
    raise typer.Exit(status)

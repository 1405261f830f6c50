"""Arguments and options that several commands have, and how they complete."""

from __future__ import annotations

from typing import Annotated

import typer


def complete_spec(incomplete: str) -> list[str]:
    from schedgen.spec.reader import shipped_specs

    return [name for name in shipped_specs() if name.startswith(incomplete)]


def complete_target(incomplete: str) -> list[str]:
    from schedgen.machine_file import shipped_machines

    return [name for name in shipped_machines() if name.startswith(incomplete)]


SpecArgument = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="Path of a spec, or the name of a shipped one.",
        autocompletion=complete_spec,
    ),
]
OptionalSpec = Annotated[
    str | None,
    typer.Argument(
        metavar="[SPEC]",
        help="Path of a spec, or the name of a shipped one.",
        autocompletion=complete_spec,
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        help="Machine model: a name or a file. Default: the spec's first target.",
        autocompletion=complete_target,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Fix a parameter; repeatable."),
]
PaceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--pace",
        metavar="UNIT",
        help="Keep roles to the order of the schedule on this unit, such as TENSOR; repeatable.",
    ),
]
StyleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--style",
        metavar="WORD",
        help="Write it in this way: 'peeled', a loop without masks where these keep everything, "
        "'prompt', waits without a hint, 'straight', tiles of 32 bits in the order of registers, "
        "'loose', waits for products that hold nothing back, 'late', addresses behind the "
        "main loop that are found there, 'threes', maxima of three numbers at a time, 'seldom', "
        "values of rows where one of a warp's changes, 'o1', for the assembler's first level; "
        "repeatable.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
CacheOption = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache",
        help="Use what earlier commands solved and compiled, and keep it for later ones.",
    ),
]

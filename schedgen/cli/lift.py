"""`schedgen lift`: programs of kernels, from their PTX, proven for all trip counts."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from schedgen.cli.common import print_json
from schedgen.cli.race import Asked, module_of_file, program_of, standard_output
from schedgen.errors import SchedgenError

if TYPE_CHECKING:
    from schedgen.emulator.ptx.tree import Kernel, Module
    from schedgen.emulator.race.programs import Ended
    from schedgen.emulator.race.running import Options
    from schedgen.lift.examine import Examined

Found = tuple["Module", "Kernel"]


def run_lift(asked: Asked, options: Options, only: str, progress: Callable[[str], None]) -> int:
    """Lifts and proves the kernels of a program or PTX file, and reports.

    Returns 0 if all are proven, 1 if one is refuted, 3 if one is not lifted and none is refuted.

    Raises:
        SchedgenError: there is no such program or kernel, or it cannot be read.
    """
    from schedgen.lift.examine import NOT_LIFTED, PROVEN, data_of, examine, lines_of, worst

    kernels, ended = _kernels(asked, options)
    chosen = [(module, one) for module, one in kernels if re.search(only, one.name)]
    if not chosen:
        said = f" whose name has '{only}' in it" if only else ""
        raise SchedgenError(f"{asked.program}: no kernel{said}; {_why(ended)}".rstrip("; "))
    found: list[Examined] = []
    for module, kernel in chosen:
        progress(f"lifting {kernel.name[:60]}")
        found.append(examine(module, kernel))
    if asked.as_json:
        print_json([data_of(one) for one in found])
    else:
        for one in found:
            for line in lines_of(one):
                typer.echo(line)
    return {PROVEN: 0, NOT_LIFTED: 3}.get(worst(found), 1)


def _kernels(asked: Asked, options: Options) -> tuple[list[Found], Ended | None]:
    from schedgen.emulator.race.running import captured

    path = Path(asked.program or "")
    if asked.module is None and path.suffix == ".ptx":
        module = module_of_file(path)
        return [(module, kernel) for kernel in module.kernels.values()], None
    with standard_output(sys.stderr):
        launched, ended = captured(program_of(asked), options)
    return list(_of(launched)), ended


def _of(launched: tuple[tuple[str, Module], ...]) -> Iterator[Found]:
    for name, module in launched:
        if name in module.kernels:
            yield module, module.kernels[name]


def _why(ended: Ended | None) -> str:
    if ended is None or not ended.error:
        return ""
    last = ended.error.strip().splitlines()[-1]
    return f"the program ended with: {last}"

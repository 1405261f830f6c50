"""`schedgen cycles`: what an iteration of a compiled kernel takes, without a GPU."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from schedgen.cli.emit import BAD_INPUT, DONE, REFUSED
from schedgen.errors import SchedgenError


def run_cycles(
    path: Path,
    target: str | None,
    spec: str | None,
    as_json: bool,
    *,
    each: bool = False,
    cache: bool = True,
) -> int:
    """Compiles the generated file ``path`` and prints what its iterations take by its machine code,
    with ``each`` of its instructions, too.

    Returns the exit status: 0 done, 1 it does not compile, 2 bad input.
    """
    from schedgen.codegen.compiling import CompileError
    from schedgen.codegen.facts import read_facts
    from schedgen.codegen.report import compile_report
    from schedgen.cycles.predict import ARCH, cycles, unpriced
    from schedgen.cycles.report import data, lines
    from schedgen.driver.deriving import Underivable, derived
    from schedgen.execution.issuing import issued
    from schedgen.machine_constants import middles
    from schedgen.machine_file import read_machine
    from schedgen.stored import Store

    try:
        facts = read_facts(path)
        if facts.target != ARCH:
            raise SchedgenError(f"{path}: {unpriced(facts.target)}")
        store = Store() if cache else None
        program, kernel = derived(facts, target, str(path), spec, store=store)
        machine = middles(read_machine(target or program.target))
        with TemporaryDirectory(prefix="schedgen-") as folder:
            cubin = compile_report(path, Path(folder)).built.cubin
            found = cycles(issued(program, kernel, machine), cubin, machine)
    except (CompileError, Underivable) as error:
        typer.echo(str(error), err=True)
        return REFUSED
    except SchedgenError as error:
        typer.echo(str(error), err=True)
        return BAD_INPUT
    except OSError as error:
        typer.echo(f"{error.filename}: {error.strerror}", err=True)
        return BAD_INPUT
    if as_json:
        typer.echo(json.dumps(data(found, program, each=each), indent=1))
    else:
        typer.echo("\n".join([str(path), *lines(found, program, each=each)]))
    return DONE
